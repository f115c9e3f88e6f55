// Time in judgements about counters and states: a state must last before it is a fault, a counter must grow fast, and
// neither ends at the first good look. Plain values without a clock; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/time.hpp"

namespace homeostat::fault {

// A state that comes and goes. Time with it fills a vessel of `hold`, time without it drains the vessel half as fast:
// full means raised, empty means over. A moment of it is forgotten; more than a third of the time of it is not.
class Lasting {
 public:
  // elapsed: since the look before. Returns whether it is raised.
  bool update(bool active, Duration elapsed, Duration hold);
  bool raised() const { return raised_; }
  void raise() { remembered_ = raised_ = true; }  // known from before a restart: full, whatever its size

 private:
  Duration level_{0};
  bool raised_ = false, remembered_ = false;
};

// How much a counter has grown within a window. A counter that falls has begun anew, and what it shows is growth.
class Growth {
 public:
  static constexpr size_t buckets = 6;
  // The first value is the base: what was counted before we looked is history. An absent value changes nothing.
  std::uint64_t add(std::optional<std::uint64_t> value, Duration now, Duration window);
  std::uint64_t within() const;

 private:
  std::optional<std::uint64_t> last_;
  std::int64_t bucket_ = 0;
  std::array<std::uint64_t, buckets> grown_{};
};

// Raised when growth reaches `limit`, over when it has fallen under half of it.
class Growing {
 public:
  bool update(std::optional<std::uint64_t> value, Duration now, Duration window, std::uint64_t limit);
  bool raised() const { return raised_; }
  std::uint64_t within() const { return growth_.within(); }
  void raise() { remembered_ = raised_ = true; }  // known from before a restart: kept for one window

 private:
  Growth growth_;
  bool raised_ = false, remembered_ = false;
  std::optional<Duration> since_;
};

}  // namespace homeostat::fault
