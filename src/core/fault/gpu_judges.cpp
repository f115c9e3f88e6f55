// The single aspects of a GPU: memory, heat and clocks, PCIe, NVLink, fabric.
#include <algorithm>

#include "core/fault/catalog.hpp"
#include "core/fault/gpu_memory.hpp"

namespace homeostat::fault {

namespace {

// The figure of this look, or the last one where it could not be read.
template <class T>
const std::optional<T>& keep(std::optional<T>& last, const std::optional<T>& now) {
  if (now) last = now;
  return last;
}

std::string count_of(std::uint64_t number, std::string_view one, std::string_view many) {
  std::string text = std::to_string(number);
  text += ' ';
  text += number == 1 ? one : many;
  return text;
}

}  // namespace

bool is_busy(const GpuReading& gpu, const GpuLimits& limits) {
  return gpu.load.utilization_percent.value_or(0) >= limits.busy_percent;
}

bool is_slow(const GpuReading& gpu, const GpuLimits& limits) {
  const auto& load = gpu.load;
  return load.sm_clock_mhz && load.sm_clock_max_mhz &&
         std::uint64_t{*load.sm_clock_mhz} * 100 < std::uint64_t{*load.sm_clock_max_mhz} * limits.slow_clock_percent;
}

void judge_memory_errors(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory;
  const auto& now = look.gpu.ecc_uncorrected;
  if (now && memory.ecc_uncorrected && *now > *memory.ecc_uncorrected) {
    memory.uncorrected_new += *now - *memory.ecc_uncorrected;
    memory.uncorrected_at = look.now;
  }
  const auto uncorrected = keep(memory.ecc_uncorrected, now).value_or(0);
  if (memory.uncorrected_at && look.now - *memory.uncorrected_at >= look.limits.fresh) {
    memory.uncorrected_at.reset();
    memory.uncorrected_new = 0;
  }
  if (uncorrected > 0 && memory.uncorrected_at) {
    findings.push_back(look.make(gpu_codes::ecc_new, count_of(memory.uncorrected_new, "new uncorrected memory error",
                                                              "new uncorrected memory errors") +
                                                         " within the last hour"));
  } else if (uncorrected > 0) {
    findings.push_back(
        look.make(gpu_codes::ecc_old, count_of(uncorrected, "uncorrected memory error", "uncorrected memory errors") +
                                          " since the driver was loaded, none of them new"));
  }
  if (memory.corrected.update(look.gpu.ecc.corrected, look.now, look.limits.day, look.limits.corrected_per_day))
    findings.push_back(look.make(gpu_codes::ecc_corrected,
                                 std::to_string(memory.corrected.within()) +
                                     " corrected memory errors within a day: the memory may be wearing out"));
  if (keep(memory.ecc.sram_threshold_exceeded, look.gpu.ecc.sram_threshold_exceeded).value_or(false)) {
    findings.push_back(look.make(
        gpu_codes::sram, "The GPU's on-chip memory had more uncorrected errors than NVIDIA allows: replace it"));
  }
}

namespace {

void judge_rows(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory.repair;
  const auto& now = look.gpu.repair;
  if (keep(memory.rows_failed, now.rows_failed).value_or(false)) {
    findings.push_back(
        look.make(gpu_codes::row_failed, "A bad row of memory could not be replaced by a spare one: replace the GPU"));
  }
  if (keep(memory.rows_pending, now.rows_pending).value_or(false))
    findings.push_back(look.make(gpu_codes::row_pending,
                                 "A bad row of memory is replaced by a spare one at the next reset of the GPU"));
  if (keep(memory.bank_pending, now.bank_pending).value_or(false))
    findings.push_back(look.make(gpu_codes::bank_pending,
                                 "A bad bank of memory is replaced by a spare one at the next reset of the GPU"));
  if (keep(memory.histogram, now.histogram).value_or(RemapHistogram{}).none > 0)
    findings.push_back(look.make(gpu_codes::row_exhausted,
                                 count_of(memory.histogram->none, "bank of memory has", "banks of memory have") +
                                     " no spare rows left: the next bad row there cannot be replaced"));
}

void judge_pages(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory.repair;
  const auto& now = look.gpu.repair;
  const auto single = keep(memory.pages_single, now.pages_single).value_or(0);
  const auto retired = std::uint64_t{single} + keep(memory.pages_double, now.pages_double).value_or(0);
  if (retired >= look.limits.retired_pages_rma) {
    auto finding =
        look.make(gpu_codes::pages_retired,
                  std::to_string(retired) + " pages of memory are retired, about as many as the GPU can hide");
    finding.rma_candidate = true;
    findings.push_back(std::move(finding));
  }
  if (keep(memory.pages_pending, now.pages_pending).value_or(false))
    findings.push_back(
        look.make(gpu_codes::page_pending, "A bad page of memory is retired when the driver is next loaded"));
}

}  // namespace

void judge_memory_repair(const GpuLook& look, Findings& findings) {
  judge_rows(look, findings);
  judge_pages(look, findings);
}

void judge_recovery_action(const GpuLook& look, Findings& findings) {
  const auto action = keep(look.memory.recovery_action, look.gpu.recovery_action).value_or(0);
  if (action == 0) return;
  const auto number = std::to_string(action);
  // One digit: 0 to 7 are defined.
  if (const auto* entry = Catalog::instance().xid("154/0x" + number))
    findings.push_back(look.make({gpu_codes::component, "RECOVERY_ACTION", entry->severity, entry->action},
                                 std::string(entry->title), number));
  else
    findings.push_back(
        look.make(gpu_codes::recover_unknown, "The driver asks for a recovery that is not known here", number));
}

namespace {

// The generic bit is set beside the two that name the cause; alone it says that something outside slows the GPU.
void judge_throttling(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory;
  const auto& reasons = look.gpu.load.throttle_reasons;
  if (reasons) {
    const auto has = [&](std::uint64_t bits) { return (*reasons & bits) != 0; };
    const auto hold = look.limits.slowdown;
    memory.hw_thermal.update(has(throttle_hw_thermal), look.elapsed, hold);
    memory.sw_thermal.update(has(throttle_sw_thermal), look.elapsed, hold);
    memory.power_brake.update(has(throttle_power_brake), look.elapsed, hold);
    memory.hw_slowdown.update(has(throttle_hw_slowdown) && !has(throttle_hw_thermal | throttle_power_brake),
                              look.elapsed, hold);
  }
  if (memory.hw_thermal.raised())
    findings.push_back(look.make(gpu_codes::hw_thermal,
                                 "The GPU slows itself down by half or more because it is too hot: check the cooling"));
  if (memory.sw_thermal.raised())
    findings.push_back(look.make(
        gpu_codes::sw_thermal, "The driver lowers the clocks to keep the GPU below its highest operating temperature"));
  if (memory.power_brake.raised())
    findings.push_back(look.make(gpu_codes::power_brake,
                                 "The machine's power supply tells the GPU to slow down: check power and its limits"));
  if (memory.hw_slowdown.raised())
    findings.push_back(
        look.make(gpu_codes::hw_slowdown, "Hardware slows the GPU down without saying why: check power and cooling"));
}

// Where the driver says why, it is judged by the reason whether that is a fault.
bool is_silently_slow(const GpuLook& look) {
  return look.gpu.load.throttle_reasons == std::uint64_t{0} && is_busy(look.gpu, look.limits) &&
         is_slow(look.gpu, look.limits) && !look.clocks_alike;
}

}  // namespace

void judge_heat_and_clocks(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory;
  const auto& thermal = look.gpu.thermal;
  judge_throttling(look, findings);
  const auto limit = thermal.slowdown_c ? thermal.slowdown_c : look.model ? look.model->slowdown_c : std::nullopt;
  const bool by_margin = thermal.margin_c && thermal.slowdown_margin_c;
  if ((thermal.gpu_c && limit) || by_margin)
    memory.hot.update((thermal.gpu_c && limit && *thermal.gpu_c >= *limit) ||
                          (by_margin && *thermal.margin_c <= *thermal.slowdown_margin_c),
                      look.elapsed, look.limits.slowdown);
  if (memory.hot.raised())
    findings.push_back(look.make(
        gpu_codes::hot, thermal.gpu_c
                            ? "The GPU is at " + std::to_string(*thermal.gpu_c) + " degrees, where it slows itself down"
                            : std::string("The GPU is as hot as where it slows itself down")));
  if (thermal.memory_c && thermal.memory_max_c)
    memory.memory_hot.update(*thermal.memory_c >= *thermal.memory_max_c, look.elapsed, look.limits.slowdown);
  if (memory.memory_hot.raised())
    findings.push_back(
        look.make(gpu_codes::memory_hot, "The GPU's memory is hotter than it may be: check the cooling"));
  if (look.gpu.load.sm_clock_mhz && look.gpu.load.throttle_reasons)
    memory.silent_slow.update(is_silently_slow(look), look.elapsed, look.limits.silent_slow);
  if (memory.silent_slow.raised())
    findings.push_back(look.make(gpu_codes::slow_clock,
                                 "The GPU works at less than half of its clock and the driver names no reason"));
}

namespace {

void judge_width(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory;
  const auto& pcie = look.gpu.pcie;
  const auto width = pcie.width.value_or(0);
  const auto full = std::max(pcie.width_max.value_or(0), memory.widest);
  if (width > 0 && full > 0) memory.narrow.update(width < full, look.elapsed, look.limits.narrow);
  memory.widest = std::max(memory.widest, width);
  if (!memory.narrow.raised()) return;
  const bool dropped = memory.widest > width;
  const bool odd_one = look.siblings > 1 && !look.width_alike;
  std::string title = "PCIe has " + std::to_string(width);
  title += " of ";
  title += std::to_string(full);
  title += dropped   ? " lanes, and had more before"
           : odd_one ? " lanes, unlike the other GPUs here: reseat it"
                     : " lanes, ever since we look: the board may be built so";
  findings.push_back(look.make(dropped || odd_one ? gpu_codes::narrow : gpu_codes::narrow_always, std::move(title)));
}

}  // namespace

void judge_pcie(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory;
  const auto& pcie = look.gpu.pcie;
  judge_width(look, findings);
  // An idle GPU lowers its generation to save power: only what it has under load counts, and idling proves nothing.
  if (pcie.generation && pcie.generation_max && is_busy(look.gpu, look.limits))
    memory.slow_link.update(*pcie.generation < *pcie.generation_max, look.elapsed, look.limits.narrow);
  if (memory.slow_link.raised())
    findings.push_back(look.make(gpu_codes::slow_link, "Under load PCIe runs at generation " +
                                                           std::to_string(pcie.generation.value_or(0)) + " of " +
                                                           std::to_string(pcie.generation_max.value_or(0))));
  if (memory.pcie_replays.update(pcie.replays, look.now, look.limits.hour, look.limits.pcie_replays_per_hour))
    findings.push_back(
        look.make(gpu_codes::replays, std::to_string(memory.pcie_replays.within()) +
                                          " PCIe packets were sent again within an hour: the signal is poor"));
}

void judge_mig(const GpuLook& look, Findings& findings) {
  if (look.gpu.mig_enabled && look.gpu.mig_pending && *look.gpu.mig_enabled != *look.gpu.mig_pending)
    findings.push_back(look.make(gpu_codes::mig_waits, *look.gpu.mig_pending
                                                           ? "MIG is switched on at the next reset of the GPU"
                                                           : "MIG is switched off at the next reset of the GPU"));
}

}  // namespace homeostat::fault
