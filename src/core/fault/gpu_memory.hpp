// What core/fault/gpu_counters remembers of one GPU from look to look, and the judges of its single aspects. For
// gpu_counters and its tests only.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/fault/gpu_codes.hpp"
#include "core/fault/gpu_counters.hpp"
#include "core/fault/gpu_models.hpp"
#include "core/fault/gpu_reading.hpp"
#include "core/fault/gpu_windows.hpp"

namespace homeostat::fault {

struct LinkMemory {
  Lasting down;
  Growing crc, replay, recovery_warn, recovery_error, unrecovered, symbol;
};

struct GpuMemory {
  std::string device;
  std::optional<Duration> looked;  // at the look before
  std::vector<Finding> open;       // at the last look that the GPU answered

  Lasting no_answer, unreadable;
  std::string unreadable_first;  // the sentence of it

  EccReading ecc;  // the last figures that could be read: a failed question takes nothing back
  RepairReading repair;
  std::optional<std::uint64_t> ecc_uncorrected;
  std::optional<unsigned> recovery_action;
  std::optional<Duration> uncorrected_at;  // when the count last grew
  std::uint64_t uncorrected_new = 0;       // since it was last quiet
  Growing corrected;

  Lasting hw_thermal, sw_thermal, power_brake, hw_slowdown, hot, memory_hot, silent_slow;
  Lasting narrow, slow_link;
  Growing pcie_replays;
  unsigned widest = 0;

  Lasting fabric_starting;
  unsigned most_links = 0;  // that were up at once
  Lasting links_missing;
  std::vector<LinkMemory> links;  // by number
  Growing link_errors_before;     // found before the agent was restarted
};

// One look, as the judges see it.
struct GpuLook {
  const GpuReading& gpu;
  GpuMemory& memory;
  const GpuLimits& limits;
  const GpuModel* model = nullptr;  // nullptr: no expectations
  unsigned siblings = 1;            // GPUs of this model in the machine, this one included
  bool links_alike = false;   // all of them show the same number of links up, more than none, and never showed more
  bool width_alike = false;   // the same for the width of PCIe
  bool clocks_alike = false;  // all of them that are under load run as slowly: somebody has set their clocks so
  Duration now{0}, elapsed{0};

  Finding make(const CounterCode& code, std::string title, std::string_view part = {}) const;
};

using Findings = std::vector<Finding>;
void judge_memory_errors(const GpuLook& look, Findings& findings);
void judge_memory_repair(const GpuLook& look, Findings& findings);
void judge_recovery_action(const GpuLook& look, Findings& findings);
void judge_heat_and_clocks(const GpuLook& look, Findings& findings);
void judge_pcie(const GpuLook& look, Findings& findings);
void judge_links(const GpuLook& look, Findings& findings);
void judge_fabric(const GpuLook& look, Findings& findings);
void judge_mig(const GpuLook& look, Findings& findings);

unsigned links_up(const GpuReading& gpu);
bool is_busy(const GpuReading& gpu, const GpuLimits& limits);
bool is_slow(const GpuReading& gpu, const GpuLimits& limits);  // of its highest clock, whatever the reason

}  // namespace homeostat::fault
