#include "core/fault/flap.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <limits>
#include <vector>

using namespace homeostat;
using namespace homeostat::fault;
using namespace std::chrono_literals;

//   look      1    2    3    4
//   value    v0   v1   v2   v3
//   rise      0   d1   d2   d3
TEST_CASE("what a hardware counter has risen by, whatever it does") {
  constexpr std::uint64_t top32 = 0xffffffff, top64 = std::numeric_limits<std::uint64_t>::max();
  struct Row {
    const char* what;
    std::optional<std::uint64_t> values[4];
    std::uint64_t rises[4];
  };
  const Row rows[] = {
      {"first value says nothing", {500, 500, 500, 500}, {0, 0, 0, 0}},
      {"rises", {0, 1, 4, 4}, {0, 1, 3, 0}},
      {"unreadable between", {7, std::nullopt, 9, 9}, {0, 0, 2, 0}},
      {"32 bits wrap", {top32 - 1, 3, 4, 4}, {0, 5, 1, 0}},
      {"64 bits wrap", {top64 - 1, 3, 4, 4}, {0, 5, 1, 0}},
      {"reset by a driver reload", {500, 2, 3, 3}, {0, 0, 1, 0}},
      {"reset to zero", {500, 0, 0, 1}, {0, 0, 0, 1}},
      {"one bad read between good ones", {500, 0, 502, 502}, {0, 0, 2, 0}},
      {"two resets", {500, 20, 1, 2}, {0, 0, 0, 1}},
      {"saturated", {255, 255, 255, 255}, {0, 0, 0, 0}},
  };
  for (const auto& row : rows) {
    RisingCounter counter;
    for (int i = 0; i < 4; ++i) {
      CAPTURE(row.what);
      CAPTURE(i);
      CHECK(counter.take(row.values[i]) == row.rises[i]);
    }
  }
}

TEST_CASE("a reset is told from a rise") {
  RisingCounter counter;
  (void)counter.take(9);
  CHECK_FALSE(counter.was_reset());
  (void)counter.take(1);
  CHECK(counter.was_reset());
  (void)counter.take(2);
  CHECK_FALSE(counter.was_reset());
}

//   enter 2 in 300 s, quiet 600 s
//   events  1   .   1      .            .
//   time    0  100 200    500          800
//   active  -   -   on    on           off (600 s after the last)
TEST_CASE("two events within the window enter, quiet leaves") {
  const RateRule rule{2, 300s, 600s};
  RateWatch watch;
  CHECK_FALSE(watch.observe(rule, 0s, 1));
  CHECK_FALSE(watch.observe(rule, 100s, 0));
  CHECK(watch.observe(rule, 200s, 1));
  CHECK(watch.observe(rule, 500s, 0));
  CHECK(watch.observe(rule, 799s, 0));
  CHECK_FALSE(watch.observe(rule, 800s, 0));
  CHECK_FALSE(watch.observe(rule, 900s, 1));
}

TEST_CASE("two events further apart than the window are no flap") {
  const RateRule rule{2, 300s, 600s};
  RateWatch watch;
  CHECK_FALSE(watch.observe(rule, 0s, 1));
  CHECK_FALSE(watch.observe(rule, 295s, 0));
  CHECK_FALSE(watch.observe(rule, 301s, 1));
  CHECK(watch.in_window() == 1);
}

TEST_CASE("events of a look that comes late count in the window's share") {
  const RateRule rule{2, 300s, 600s};
  RateWatch watch;
  CHECK_FALSE(watch.observe(rule, 0s, 0));
  // An agent that stood still for an hour: 10 downs an hour are less than 2 in five minutes.
  CHECK_FALSE(watch.observe(rule, 3600s, 10));
  CHECK(watch.observe(rule, 7200s, 30));
}

TEST_CASE("a state must last, and be gone for a while") {
  Continuity state;
  CHECK_FALSE(state.observe(true, 0s, 60s, 30s));
  CHECK_FALSE(state.observe(false, 50s, 60s, 30s));  // broken before it counted
  CHECK_FALSE(state.observe(true, 60s, 60s, 30s));
  CHECK(state.observe(true, 120s, 60s, 30s));
  CHECK(state.lasted(120s) == 60s);
  CHECK(state.observe(false, 130s, 60s, 30s));  // good again, not for long enough
  CHECK(state.observe(true, 140s, 60s, 30s));
  CHECK(state.observe(false, 150s, 60s, 30s));
  CHECK_FALSE(state.observe(false, 180s, 60s, 30s));
  CHECK(state.lasted(180s) == 0s);
}

TEST_CASE("properties of the rate watch") {
  CHECK(rc::check("it never leaves sooner than its quiet time after it entered", [] {
    const RateRule rule{*rc::gen::inRange<std::uint64_t>(1, 6), Duration(*rc::gen::inRange(1'000, 600'000)),
                        Duration(*rc::gen::inRange(0, 600'000))};
    const auto looks = *rc::gen::container<std::vector<std::pair<int, int>>>(
        rc::gen::pair(rc::gen::inRange(1, 60'000), rc::gen::inRange(0, 4)));
    RateWatch watch;
    Duration now{0}, entered{0};
    bool was = false;
    for (const auto& [step, events] : looks) {
      now += Duration(step);
      const bool is = watch.observe(rule, now, static_cast<std::uint64_t>(events));
      if (is && !was) entered = now;
      if (!is && was) RC_ASSERT(now - entered >= rule.quiet);
      was = is;
    }
  }));
  CHECK(rc::check("it is never active without `enter` events, and the sum never exceeds them", [] {
    const RateRule rule{5, 60s, 60s};
    const auto looks = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 4));
    RateWatch watch;
    std::uint64_t all = 0;
    Duration now{0};
    for (const auto events : looks) {
      now += 5s;
      all += static_cast<std::uint64_t>(events);
      const bool active = watch.observe(rule, now, static_cast<std::uint64_t>(events));
      RC_ASSERT(watch.in_window() <= all);
      if (active) RC_ASSERT(all >= 5u);
    }
  }));
  CHECK(rc::check("absurd jumps and long runs neither overflow nor lose the alarm", [] {
    const RateRule rule{2, 300s, 600s};
    const auto looks = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::arbitrary<std::uint64_t>());
    RateWatch watch;
    Duration now{0};
    for (const auto events : looks) {
      now += 1s;
      const bool active = watch.observe(rule, now, events);
      if (events >= 2) RC_ASSERT(active);
    }
  }));
}
