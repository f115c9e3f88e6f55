// What the two sensors of AMD GPUs tell each other: what /sys tells, so that the library is asked only for the rest,
// and what the library told, so that both are judged as one. Threads: any; the lock is held for copies alone, so a
// library that hangs holds up nobody.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "core/fault/amd_counters.hpp"
#include "core/time.hpp"

namespace homeostat::agent {

class AmdShelf {
 public:
  void put_files(std::vector<fault::AmdReading> gpus) {
    const std::lock_guard lock(mutex_);
    files_ = std::move(gpus);
  }
  std::vector<fault::AmdReading> files() const {
    const std::lock_guard lock(mutex_);
    return files_;
  }

  void put_library(std::vector<fault::AmdReading> gpus, Duration monotonic) {
    const std::lock_guard lock(mutex_);
    library_ = std::move(gpus);
    told_ = monotonic;
  }
  // A library that no longer answers leaves what it said of errors and names, for nothing has recovered; heat and load
  // of minutes ago say nothing.
  std::vector<fault::AmdReading> library(Duration monotonic) const {
    const std::lock_guard lock(mutex_);
    auto gpus = library_;
    if (monotonic - told_ > fresh_for)
      for (auto& gpu : gpus) {
        gpu.metrics.reset();
        gpu.vram_used.reset();
      }
    return gpus;
  }

 private:
  static constexpr Duration fresh_for{90'000};  // three looks of the library's sensor

  mutable std::mutex mutex_;
  std::vector<fault::AmdReading> files_, library_;
  Duration told_{0};
};

}  // namespace homeostat::agent
