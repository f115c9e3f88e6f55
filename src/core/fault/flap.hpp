// Counters, rates and states over time: what turns noisy figures into findings that neither cry wolf nor flicker.
// Times are monotonic and passed in. Plain values, bounded, one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/time.hpp"

namespace homeostat::fault {

// How much a hardware counter has risen since the look before.
//   first value                       0: what happened before we looked says nothing about now
//   a rise                            the difference
//   a fall from close below 2^32/2^64 the counter has wrapped
//   any other fall                    0: it was reset (driver reload, perfquery -R), and a driver that comes up takes
//                                     its link down once or twice without any fault
//   a fall and back up at once        a bad read between two good ones: the difference to the last good one
class RisingCounter {
 public:
  std::uint64_t take(std::optional<std::uint64_t> value);
  bool was_reset() const { return reset_; }  // at the last take()
  std::optional<std::uint64_t> last() const { return last_; }

 private:
  std::optional<std::uint64_t> last_, before_fall_;
  bool reset_ = false;
};

struct RateRule {
  std::uint64_t enter = 1;  // this many events within the window are a fault
  Duration window{0};
  Duration quiet{0};  // without any event for this long, and below `enter`, it is over
};

// Events within a sliding window, with hysteresis: once entered it lasts at least `quiet`, so it never flickers faster.
class RateWatch {
 public:
  // `events` since the look before. Events of a look that comes late (an agent that was stopped) count only in the
  // share that the window has of the time between.
  bool observe(const RateRule& rule, Duration now, std::uint64_t events);
  bool active() const { return active_; }
  std::uint64_t in_window() const { return sum_; }
  void clear() { *this = {}; }

 private:
  struct Bucket {
    Duration start{0};
    std::uint64_t events = 0;
  };
  void add(const RateRule& rule, Duration now, std::uint64_t events);
  void forget(const RateRule& rule, Duration now);

  // Events closer than a 16th of the window share a bucket, so that this many are enough.
  std::array<Bucket, 20> ring_{};
  size_t first_ = 0, used_ = 0;
  std::uint64_t sum_ = 0;
  Duration last_event_{0}, last_look_{0};
  bool active_ = false, looked_ = false;
};

// A state that must last before it counts, and be gone for a while before it is over.
class Continuity {
 public:
  bool observe(bool bad, Duration now, Duration hold, Duration quiet);
  bool active() const { return active_; }
  // How long it has been bad without a break (nothing shorter than `quiet` breaks it once it is active).
  Duration lasted(Duration now) const { return bad_since_ ? now - *bad_since_ : Duration(0); }
  void clear() { *this = {}; }

 private:
  std::optional<Duration> bad_since_, good_since_;
  bool active_ = false;
};

}  // namespace homeostat::fault
