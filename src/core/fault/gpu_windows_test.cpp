#include "core/fault/gpu_windows.hpp"

#include <doctest/doctest.h>

#include <string_view>

using namespace homeostat;
using namespace homeostat::fault;

// One letter is five seconds: x with the state, . without. Hold: 20 s. Raised where the lower line has #.
TEST_CASE("lasting: a state must last, and its end, too") {
  struct Row {
    std::string_view what, seen, raised;
  };
  constexpr Row rows[] = {
      {"never", "........", "........"},
      {"a moment", "x.......", "........"},
      {"long", "xxxxxx..........", "...##########..."},
      {"a gap in it", "xxxxx.xxxx", "...#######"},
      {"one look in three", "x..x..x..x..x..x..x..x..x..", "..........................."},
      {"every other look", "x.x.x.x.x.x.x.x.", "............####"},
      {"two looks in three", "xx.xx.xx.", "......###"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    Lasting state;
    std::string raised;
    for (char c : row.seen) raised += state.update(c == 'x', Duration(5'000), Duration(20'000)) ? '#' : '.';
    CHECK(raised == row.raised);
  }
}

TEST_CASE("lasting: known from before a restart it is raised until it is over") {
  Lasting state;
  state.raise();
  CHECK(state.raised());
  std::string raised;
  for (int i = 0; i < 10; ++i) raised += state.update(false, Duration(5'000), Duration(20'000)) ? '#' : '.';
  CHECK(raised == "#######...");
}

// Window: an hour of six buckets of ten minutes.
//   minute   0    10   20   60   70   80 ...
//   counter  100  103  103  108  108  108
//   within   0    3    3    8    5    5
TEST_CASE("growth: what was counted before is history, what is old falls out") {
  const Duration hour(3'600'000), minute(60'000);
  Growth growth;
  CHECK(growth.add(100, 0 * minute, hour) == 0);
  CHECK(growth.add(103, 10 * minute, hour) == 3);
  CHECK(growth.add(std::nullopt, 20 * minute, hour) == 3);  // could not be read
  CHECK(growth.add(108, 60 * minute, hour) == 8);
  CHECK(growth.add(108, 70 * minute, hour) == 5);
  CHECK(growth.add(108, 119 * minute, hour) == 5);
  CHECK(growth.add(108, 120 * minute, hour) == 0);
  CHECK(growth.add(4, 121 * minute, hour) == 4);      // the driver was loaded anew
  CHECK(growth.add(5, 100'000 * minute, hour) == 1);  // a long silence
  CHECK(growth.add(6, 90'000 * minute, hour) == 1);   // a clock that went back
}

TEST_CASE("growing: raised at the limit, over under half of it") {
  const Duration hour(3'600'000), minute(60'000);
  Growing rate;
  CHECK_FALSE(rate.update(1000, 0 * minute, hour, 10));
  CHECK_FALSE(rate.update(1009, 1 * minute, hour, 10));
  CHECK(rate.update(1010, 11 * minute, hour, 10));
  CHECK(rate.within() == 10);
  CHECK(rate.update(1015, 59 * minute, hour, 10));
  CHECK(rate.update(1015, 75 * minute, hour, 10));  // five are left
  CHECK_FALSE(rate.update(1015, 125 * minute, hour, 10));
  Growing remembered;
  remembered.raise();
  CHECK(remembered.update(7, 5 * minute, hour, 10));
  CHECK(remembered.update(7, 64 * minute, hour, 10));
  CHECK_FALSE(remembered.update(7, 66 * minute, hour, 10));
}
