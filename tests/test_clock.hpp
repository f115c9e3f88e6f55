// For tests: a clock that stands until the test moves it or somebody sleeps on it, and numbers that are the same in
// each run. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>

#include "io/clock.hpp"

namespace homeostat {

struct TestClock final : io::Clock {
  TimePoint time{std::chrono::seconds{1'796'000'000}};
  TimePoint now() const override { return time; }
  Duration monotonic() const override { return time.time_since_epoch(); }
  void sleep(Duration duration, std::stop_token) override { time += duration; }
};

struct TestRandom final : io::Random {
  std::uint64_t state = 7;
  std::uint64_t next() override { return state = state * 6364136223846793005ull + 1442695040888963407ull; }
};

}  // namespace homeostat
