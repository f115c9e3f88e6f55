#include "io/clock.hpp"

#include <sys/random.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace homeostat::io {

TimePoint SystemClock::now() const { return std::chrono::floor<Duration>(std::chrono::system_clock::now()); }

Duration SystemClock::monotonic() const {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

void SystemClock::sleep(Duration duration, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, duration, [] { return false; });
}

std::uint64_t SystemRandom::next() {
  std::uint64_t value = 0;
  // getrandom of 8 bytes cannot be short once the pool is ready; a failure means that the kernel lacks it: no key may
  // be made.
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return value;
}

std::string random_bytes(Random& random, std::size_t count) {
  std::string out;
  while (out.size() < count) {
    const std::uint64_t value = random.next();
    for (int shift = 0; shift < 64 && out.size() < count; shift += 8) out += static_cast<char>(value >> shift & 0xff);
  }
  return out;
}

std::string random_hex(Random& random, std::size_t bytes) {
  std::string hex;
  hex.reserve(2 * bytes);
  for (const unsigned char byte : random_bytes(random, bytes)) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

}  // namespace homeostat::io
