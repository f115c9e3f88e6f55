// The NVLinks of one GPU: which are up and what they have counted. For io/nvml only.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/fault/gpu_reading.hpp"
#include "io/nvml_abi.hpp"
#include "io/nvml_ask.hpp"

namespace homeostat::io::nvml {

constexpr size_t max_batch = 64;  // fields per call

// Each generation of links counts under other fields. Which ones this GPU knows is found out on the first link that is
// up, and then kept.
class Links {
 public:
  // count: as the driver states it; nullopt: it does not say.
  std::vector<fault::NvLinkReading> read(const Functions& call, Handle handle, Ask& ask, std::optional<unsigned> count);

  static constexpr size_t counters = 11;

 private:
  void learn_counters(const Functions& call, Handle handle, Ask& ask, unsigned link);
  void read_counters(const Functions& call, Handle handle, Ask& ask, std::vector<fault::NvLinkReading>& links) const;
  void read_counters_one_by_one(const Functions& call, Handle handle, Ask& ask,
                                std::vector<fault::NvLinkReading>& links) const;

  bool learned_ = false;
  std::array<bool, counters> offered_{};
};

}  // namespace homeostat::io::nvml
