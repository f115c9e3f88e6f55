#include "cli/arguments.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace {
int run(std::vector<std::string> words) {
  words.insert(words.begin(), "homeostat");
  std::vector<char*> pointers;
  pointers.reserve(words.size());
  for (auto& word : words) pointers.push_back(word.data());
  return homeostat::cli::run_command_line(static_cast<int>(pointers.size()), pointers.data());
}
}  // namespace

TEST_CASE("what is said wrongly ends with 2, and help and version with 0") {
  CHECK(run({}) == 2);
  CHECK(run({"heal"}) == 2);
  CHECK(run({"demo", "--heals", "0"}) == 2);
  CHECK(run({"status", "-o", "yaml"}) == 2);
  CHECK(run({"repair"}) == 2);
  CHECK(run({"inject", "xid=79"}) == 2);                            // which node?
  CHECK(run({"inject", "--of-job", "3", "gpu-a", "xid=79"}) == 2);  // which of the two?
  CHECK(run({"inject"}) == 2);
  CHECK(run({"inject", "--list", "gpu-a"}) == 2);
  CHECK(run({"inject", "--clear", "xid=79"}) == 2);
  CHECK(run({"inject", "gpu-a", "xid=0"}) == 2);
  CHECK(run({"inject", "gpu-a", "xid=79", "device=../x"}) == 2);
  CHECK(run({"inject", "--of-job", "3", "xid=79", "--kubeconfig", "/x"}) == 2);
  CHECK(run({"inject", "gpu-a", "xid=79", "--kubeconfig", "/nonexistent"}) == 3);
  CHECK(run({"inject", "--list"}) == 0);
  CHECK(run({"inject", "--list", "-o", "json"}) == 0);
  CHECK(run({"inject", "--help"}) == 0);
  CHECK(run({"--help"}) == 0);
  CHECK(run({"version"}) == 0);
}

TEST_CASE("without a lab every question ends with 3") {
  ::setenv("HOMEOSTAT_STATE", "/nonexistent/lab", 1);
  CHECK(run({"status"}) == 3);
  CHECK(run({"repairs"}) == 3);
  CHECK(run({"repair", "rep-1"}) == 3);
  CHECK(run({"ssh", "sinfo"}) == 3);
  CHECK(run({"kubectl", "get", "pods"}) == 3);
  CHECK(run({"inject", "gpu-a", "xid=79"}) == 3);
  CHECK(run({"inject", "--clear"}) == 3);
  ::unsetenv("HOMEOSTAT_STATE");
}
