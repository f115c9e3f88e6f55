#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "io/log.hpp"
#include "tests/sim/seeds.hpp"

int main(int argc, char** argv) {
  using namespace homeostat;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg.starts_with("--seed=")) sim::first_seed = std::strtoull(arg.c_str() + 7, nullptr, 0), sim::seeds = 1;
    if (arg.starts_with("--seeds=")) sim::seeds = std::strtoull(arg.c_str() + 8, nullptr, 0);
  }
  io::log_setup("sim", io::LogLevel::error);
  return doctest::Context(argc, argv).run();
}
