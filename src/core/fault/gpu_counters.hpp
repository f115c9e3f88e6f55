// What the counters and states of a machine's NVIDIA GPUs say is wrong with it: (what was seen before, what is seen
// now, what the models should show) -> findings of component gpu-nvml. Pure: no clock, no I/O. One thread at a time.
//
// Guarantees: a figure that is not offered or cannot be read is never a fault of the GPU; a GPU that does not answer
// keeps the findings that it had; what was counted before the first look is history and is told as such.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/fault/gpu_reading.hpp"
#include "core/fault/gpu_windows.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

struct GpuModel;

// From where on something is a fault. Where NVIDIA publishes no number, ours is marked so.
struct GpuLimits {
  Duration unanswered{10'000};    // ours: a GPU or a single question that fails for so long (two looks)
  Duration slowdown{60'000};      // ours: throttled by heat or power brake, or too hot
  Duration silent_slow{120'000};  // ours: slow without a reason that the driver names
  Duration narrow{60'000};        // ours: PCIe below what the slot can do
  Duration link_down{20'000};     // ours: two reads of the links
  Duration fabric{300'000};       // ours: a fabric manager needs minutes after boot
  Duration fresh{3'600'000};      // ours: how long a new uncorrected error is called new
  Duration hour{3'600'000}, day{86'400'000};
  unsigned busy_percent = 50;                 // ours: from here on a GPU is under load
  unsigned slow_clock_percent = 50;           // ours: of the highest clock
  std::uint64_t corrected_per_day = 100;      // Lambda's threshold for single-bit errors
  std::uint64_t pcie_replays_per_hour = 60;   // ours
  std::uint64_t link_crc_per_hour = 360'000;  // DCGM's limit of 100 a second, over an hour
  std::uint64_t link_replays_per_hour = 100;  // ours; DCGM's passive check takes any
  std::uint64_t link_recoveries_warn = 5;     // ours, per hour
  std::uint64_t link_recoveries_error = 50;   // ours, per hour; a link with 505 in five days failed (marin #9086)
  std::uint64_t link_symbols_per_hour = 100;  // ours
  unsigned retired_pages_rma = 60;            // NVIDIA, Dynamic Page Retirement: the InfoROM holds 64
};

struct GpuMemory;  // what is remembered of one GPU

class GpuCounters {
 public:
  // open_findings: ids of findings that were open before the agent was restarted; they stay until their GPU has shown
  // that they are over.
  explicit GpuCounters(std::vector<std::string> open_findings = {}, GpuLimits limits = {});
  ~GpuCounters();
  GpuCounters(GpuCounters&&) noexcept;
  GpuCounters& operator=(GpuCounters&&) noexcept;

  // Everything that is wrong now. expected: how many GPUs there should be, 0 when nobody has said.
  std::vector<Finding> judge(const NvmlReading& reading, int expected, Duration monotonic);

 private:
  GpuMemory& memory_of(const GpuReading& gpu);

  GpuLimits limits_;
  std::vector<std::string> open_;
  std::vector<std::unique_ptr<GpuMemory>> memories_;  // at most max_gpus
};

// How a finding names the GPU: its PCI address, or "gpu-3" when that was never known.
std::string device_of(const GpuReading& gpu);

}  // namespace homeostat::fault
