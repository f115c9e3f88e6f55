#include "io/nvml.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::io;

TEST_CASE("a library that is missing or is not NVML is told in a sentence") {
  const auto missing = load_nvml("/nonexistent/libnvidia-ml.so.1");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().kind == ErrorKind::not_found);
  const auto other = load_nvml("libm.so.6");
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().kind == ErrorKind::invalid);
  CHECK(other.error().message == "The library libm.so.6 is not NVML or is older than its version 11.");
}
