// What one look at an NVIDIA GPU gave: plain data, made by io/nvml, judged by core/fault/gpu_counters. An empty
// optional means that the GPU or the driver does not offer the figure, or that asking failed (`unreadable` then says
// so).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace homeostat::fault {

constexpr unsigned max_gpus = 64;     // per machine
constexpr unsigned max_nvlinks = 36;  // per GPU: the most that any generation has
constexpr size_t max_unreadable = 4;  // questions about one GPU that fail in one look before it is left alone

// Counters since the driver was loaded. Which ones exist depends on the generation of the link.
struct NvLinkReading {
  unsigned link = 0;
  bool up = false;
  std::optional<std::uint64_t> crc;          // flits and data with a wrong checksum, sent again
  std::optional<std::uint64_t> replay;       // packets sent again
  std::optional<std::uint64_t> recovery;     // the link was trained anew
  std::optional<std::uint64_t> unrecovered;  // training anew failed (NVLink 5)
  std::optional<std::uint64_t> symbol;       // errors left after error correction (NVLink 5)
};

// How many banks of memory have which share of their spare rows left.
struct RemapHistogram {
  unsigned max = 0, high = 0, partial = 0, low = 0, none = 0;
};

struct EccReading {
  std::optional<std::uint64_t> corrected;  // "volatile": since the driver was loaded; uncorrected: see GpuReading
  std::optional<std::uint64_t> corrected_ever, uncorrected_ever;
  std::optional<bool> sram_threshold_exceeded;
  std::optional<std::uint64_t> sram_uncorrected;  // since the driver was loaded
};

struct RepairReading {  // of memory: rows and banks (Ampere and later), pages (before)
  std::optional<unsigned> rows_corrected, rows_uncorrected;
  std::optional<bool> rows_pending, rows_failed, bank_pending;
  std::optional<RemapHistogram> histogram;
  std::optional<unsigned> pages_single, pages_double;
  std::optional<bool> pages_pending;
};

struct ThermalReading {
  std::optional<unsigned> gpu_c, memory_c;
  std::optional<unsigned> slowdown_c, memory_max_c;  // limits, as the driver states them
  std::optional<int> margin_c, slowdown_margin_c;    // newer GPUs state how far the limit is instead
};

struct LoadReading {
  std::optional<unsigned> utilization_percent, power_mw, sm_clock_mhz, sm_clock_max_mhz;
  std::optional<std::uint64_t> memory_used, memory_total;  // bytes
  std::optional<std::uint64_t> throttle_reasons;           // bits of ThrottleReason
};

// Bits of NVML's clocks event reasons.
enum ThrottleReason : std::uint64_t {
  throttle_idle = 0x1,
  throttle_application_clocks = 0x2,
  throttle_power_cap = 0x4,
  throttle_hw_slowdown = 0x8,
  throttle_sync_boost = 0x10,
  throttle_sw_thermal = 0x20,
  throttle_hw_thermal = 0x40,
  throttle_power_brake = 0x80,
  throttle_display_clock = 0x100,
};

struct PcieReading {
  std::optional<unsigned> generation, generation_max, width, width_max;  // max: of this GPU in this slot
  std::optional<std::uint64_t> replays;
};

enum class FabricState { not_supported = 0, not_started = 1, in_progress = 2, completed = 3 };

struct FabricReading {
  FabricState state = FabricState::not_supported;
  int status = 0;                 // an NVML code, meaningful when completed
  std::string status_sentence;    // the same in words; "" when it is good
  std::uint32_t health_mask = 0;  // NVML_GPU_FABRIC_HEALTH_MASK_*
};

struct GpuReading {
  unsigned index = 0;
  std::string uuid;
  std::string pci;  // "0000:17:00"; "" when the GPU was lost before its address was ever read
  bool lost = false;
  std::string trouble;                           // a sentence when the GPU as a whole did not answer
  std::optional<std::uint64_t> ecc_uncorrected;  // since the driver was loaded
  std::optional<unsigned> recovery_action;       // as in Xid 154
  std::string name = {};                         // "NVIDIA H100 80GB HBM3"
  bool reset_required = false;                   // the driver answers nothing else before a reset
  std::vector<std::string> unreadable = {};      // single questions that failed, as sentences; at most max_unreadable
  EccReading ecc = {};
  RepairReading repair = {};
  ThermalReading thermal = {};
  LoadReading load = {};
  PcieReading pcie = {};
  std::optional<bool> mig_enabled = {}, mig_pending = {};
  std::optional<FabricReading> fabric = {};
  std::vector<NvLinkReading> links = {};  // at most max_nvlinks; also those that are down

  bool readable() const { return !lost && !reset_required && trouble.empty(); }
};

struct NvmlReading {
  std::string driver_version;
  std::vector<GpuReading> gpus;  // at most max_gpus
};

}  // namespace homeostat::fault
