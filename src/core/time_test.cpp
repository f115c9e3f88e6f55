#include "core/time.hpp"

#include <doctest/doctest.h>

using namespace homeostat;

TEST_CASE("rfc3339: what is written is read back") {
  const auto time = parse_rfc3339("2026-11-30T05:49:34.123Z");
  REQUIRE(time);
  CHECK(format_rfc3339(*time) == "2026-11-30T05:49:34.123Z");
}

TEST_CASE("rfc3339: the forms that Kubernetes and Slurm tools write") {
  struct Row {
    const char* text;
    const char* expected;  // nullptr: refused
  };
  const Row rows[] = {
      {"2026-11-30T05:49:34Z", "2026-11-30T05:49:34.000Z"},
      {"2026-11-30T05:49:34.123456Z", "2026-11-30T05:49:34.123Z"},
      {"2026-11-30T05:49:34.1Z", "2026-11-30T05:49:34.100Z"},
      {"2026-11-30T05:49:34+02:00", "2026-11-30T03:49:34.000Z"},
      {"2026-12-31T23:59:34-01:30", "2027-01-01T01:29:34.000Z"},
      {"1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"},
      {"", nullptr},
      {"2026-11-30", nullptr},
      {"2026-02-30T00:00:00Z", nullptr},
      {"2026-11-30T25:00:00Z", nullptr},
      {"2026-11-30T05:49:34", nullptr},
      {"2026-11-30T05:49:34.Z", nullptr},
      {"2026-11-30T05:49:34Zjunk", nullptr},
      {"2026-11-30T05:49:34+0200", nullptr},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const auto time = parse_rfc3339(row.text);
    CHECK(time.has_value() == (row.expected != nullptr));
    if (time && row.expected) CHECK(format_rfc3339(*time) == row.expected);
  }
}

TEST_CASE("durations read as people write them") {
  CHECK(format_duration(Duration{0}) == "0.0s");
  CHECK(format_duration(Duration{1250}) == "1.2s");
  CHECK(format_duration(Duration{65'000}) == "1m05s");
  CHECK(format_duration(Duration{7'800'000}) == "2h10m");
  CHECK(format_duration(Duration{-1500}) == "-1.5s");
}
