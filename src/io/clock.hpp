// The only door to time and chance. Production passes SystemClock and SystemRandom; the simulation passes its own.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "core/time.hpp"

namespace homeostat::io {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;                  // wall clock: for records that people read
  virtual Duration monotonic() const = 0;             // never jumps: for deadlines
  virtual void sleep(Duration, std::stop_token) = 0;  // returns early when stop is requested
};

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;  // uniform over all 64-bit values
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override;
  Duration monotonic() const override;
  void sleep(Duration duration, std::stop_token stop) override;
};

class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;  // from the kernel: fit for keys and tokens
};

std::string random_bytes(Random& random, std::size_t count);
std::string random_hex(Random& random, std::size_t bytes);  // two lower-case digits for each byte

}  // namespace homeostat::io
