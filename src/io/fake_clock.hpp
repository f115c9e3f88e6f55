// Time and chance in the hands of a test: a clock that stands until somebody moves it or sleeps by it, and numbers that
// are the same in each run. One thread at a time.
#pragma once

#include "io/clock.hpp"

namespace homeostat::io {

struct FakeClock final : Clock {
  TimePoint time{std::chrono::seconds{1'796'000'000}};
  TimePoint now() const override { return time; }
  Duration monotonic() const override { return time.time_since_epoch(); }
  void sleep(Duration duration, std::stop_token) override { time += duration; }
};

// Knuth's MMIX generator: for tests, never for keys.
struct FakeRandom final : Random {
  std::uint64_t state = 7;
  std::uint64_t next() override { return state = state * 6364136223846793005ULL + 1442695040888963407ULL; }
};

}  // namespace homeostat::io
