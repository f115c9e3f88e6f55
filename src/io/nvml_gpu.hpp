// One GPU as NVML shows it, from look to look. For io/nvml only.
#pragma once

#include <optional>
#include <string>

#include "core/fault/gpu_reading.hpp"
#include "io/nvml_abi.hpp"
#include "io/nvml_ask.hpp"
#include "io/nvml_links.hpp"

namespace homeostat::io::nvml {

// Remembers the GPU's names and limits, which do not change while it sits at its address, and the figures that are read
// only at every third look because they change slowly or cost many questions.
class Gpu {
 public:
  static constexpr unsigned slow_every = 3;  // looks

  fault::GpuReading read(const Functions& call, unsigned index);

 private:
  struct Limits {
    std::string name;
    std::optional<unsigned> slowdown_c, memory_max_c, sm_clock_max_mhz, pcie_generation_max, pcie_width_max;
  };
  bool identify(const Functions& call, fault::GpuReading& gpu, Handle& handle);
  void read_limits(const Functions& call, Handle handle, fault::GpuReading& gpu);
  void read_slow(const Functions& call, Handle handle, fault::GpuReading& gpu);
  void add_remembered(fault::GpuReading& gpu) const;

  std::string uuid_, pci_;
  Limits limits_;
  bool limits_whole_ = false;  // every question about them was answered, also with "not offered"
  fault::GpuReading slow_;     // only its slow figures are used, and what of them could not be read
  std::optional<unsigned> nvlink_count_;
  Links links_;
  unsigned looks_ = 0;
};

// The figures that are read at each look: as many as possible in one question. For tests as well as for Gpu.
void read_fields(const Functions& call, Handle handle, Ask& ask, fault::GpuReading& gpu,
                 std::optional<unsigned>& nvlink_count);
// The same where the library cannot answer for many fields at once.
void read_without_fields(const Functions& call, Handle handle, Ask& ask, fault::GpuReading& gpu);
void read_load(const Functions& call, Handle handle, Ask& ask, fault::GpuReading& gpu);

}  // namespace homeostat::io::nvml
