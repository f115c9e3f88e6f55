#include "core/fault/gpu_counters.hpp"

#include <algorithm>

#include "core/fault/catalog.hpp"
#include "core/fault/gpu_memory.hpp"

namespace homeostat::fault {

namespace {

constexpr Duration longest_step{15'000};  // time that one look can stand for: a look that hung proves nothing

// Codes that need time or a window, and what holds the time. A restarted agent goes on with those that were open.
struct Remembered {
  std::string_view code;
  Lasting GpuMemory::* lasting;
};
constexpr std::array remembered_states = {
    Remembered{"NO_ANSWER", &GpuMemory::no_answer},
    Remembered{"UNREADABLE", &GpuMemory::unreadable},
    Remembered{"THROTTLE_HW_THERMAL", &GpuMemory::hw_thermal},
    Remembered{"THROTTLE_SW_THERMAL", &GpuMemory::sw_thermal},
    Remembered{"THROTTLE_POWER_BRAKE", &GpuMemory::power_brake},
    Remembered{"THROTTLE_HW", &GpuMemory::hw_slowdown},
    Remembered{"TEMPERATURE", &GpuMemory::hot},
    Remembered{"MEMORY_TEMPERATURE", &GpuMemory::memory_hot},
    Remembered{"SLOW_CLOCK", &GpuMemory::silent_slow},
    Remembered{"PCIE_WIDTH", &GpuMemory::narrow},
    Remembered{"PCIE_GENERATION", &GpuMemory::slow_link},
    Remembered{"FABRIC_NOT_READY", &GpuMemory::fabric_starting},
    Remembered{"NVLINK_DOWN", &GpuMemory::links_missing},
};

struct RememberedGrowth {
  std::string_view code;
  Growing GpuMemory::* growing;
};
constexpr std::array remembered_growths = {
    RememberedGrowth{"ECC_CORRECTED_RATE", &GpuMemory::corrected},
    RememberedGrowth{"PCIE_REPLAYS", &GpuMemory::pcie_replays},
    RememberedGrowth{"NVLINK_ERRORS", &GpuMemory::link_errors_before},
};

void recall(GpuMemory& memory, std::span<const std::string> open) {
  const auto was_open = [&](std::string_view code) {
    std::string id = "gpu-nvml:";
    id += code;
    id += '@';
    id += memory.device;
    return std::find(open.begin(), open.end(), id) != open.end();
  };
  for (const auto& state : remembered_states)
    if (was_open(state.code)) (memory.*state.lasting).raise();
  for (const auto& state : remembered_growths)
    if (was_open(state.code)) (memory.*state.growing).raise();
}

Finding missing_gpus(size_t there, int expected) {
  std::string title = std::to_string(there);
  title += there == 1 ? " GPU is there, " : " GPUs are there, ";
  title += std::to_string(expected);
  title += " should be";
  return counter_finding(gpu_codes::missing, "", std::move(title));
}

Finding no_gpus() {
  return counter_finding(gpu_codes::none_there, "",
                         "The driver runs but shows no GPU, and nobody has said how many there should be: set "
                         "gpusPerNode of the pool, or let the agent see the GPU devices");
}

// What holds for the machine's GPUs of one model together.
struct Siblings {
  unsigned count = 0;
  bool links_alike = false, width_alike = false, clocks_alike = false;
};

Siblings siblings_of(const GpuReading& gpu, const NvmlReading& reading,
                     std::span<const std::unique_ptr<GpuMemory>> memories, const GpuLimits& limits) {
  Siblings all;
  all.links_alike = all.width_alike = all.clocks_alike = true;
  unsigned busy = 0;
  for (const auto& other : reading.gpus) {
    if (other.name != gpu.name) continue;
    ++all.count;
    const auto memory =
        std::find_if(memories.begin(), memories.end(), [&](const auto& m) { return m->device == device_of(other); });
    const unsigned most = memory == memories.end() ? 0 : (*memory)->most_links;
    const unsigned widest = memory == memories.end() ? 0 : (*memory)->widest;
    all.links_alike &= links_up(other) == links_up(gpu) && links_up(gpu) > 0 && most <= links_up(gpu);
    all.width_alike &= other.pcie.width == gpu.pcie.width && widest <= gpu.pcie.width.value_or(0);
    if (!is_busy(other, limits)) continue;
    ++busy;
    all.clocks_alike &= is_slow(other, limits);
  }
  all.clocks_alike &= busy > 1;
  all.links_alike &= all.count > 1;
  all.width_alike &= all.count > 1;
  return all;
}

// Findings of a GPU that does not answer as a whole; true when there is nothing else to ask.
bool judge_silence(const GpuLook& look, Findings& findings) {
  const auto& gpu = look.gpu;
  if (look.memory.no_answer.update(!gpu.trouble.empty(), look.elapsed, look.limits.unanswered))
    findings.push_back(
        look.make(gpu_codes::no_answer, gpu.trouble.empty() ? "The driver could not ask the GPU" : gpu.trouble));
  if (gpu.lost) findings.push_back(look.make(gpu_codes::lost, "The driver says that the GPU is lost"));
  if (gpu.reset_required)
    findings.push_back(
        look.make(gpu_codes::needs_reset, "The driver answers nothing about the GPU before it is reset"));
  return !gpu.readable();
}

void judge_unreadable(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory;
  if (!look.gpu.unreadable.empty()) memory.unreadable_first = look.gpu.unreadable.front();
  if (memory.unreadable.update(!look.gpu.unreadable.empty(), look.elapsed, look.limits.unanswered))
    findings.push_back(look.make(gpu_codes::unreadable, memory.unreadable_first));
}

Findings judge_gpu(const GpuLook& look) {
  Findings findings;
  auto& memory = look.memory;
  if (judge_silence(look, findings)) {
    // Nobody can say whether what was wrong still is.
    for (const auto& finding : memory.open)
      if (std::none_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.code == finding.code; }))
        findings.push_back(finding);
    return findings;
  }
  judge_unreadable(look, findings);
  judge_memory_errors(look, findings);
  judge_memory_repair(look, findings);
  judge_recovery_action(look, findings);
  judge_heat_and_clocks(look, findings);
  judge_pcie(look, findings);
  judge_links(look, findings);
  judge_fabric(look, findings);
  judge_mig(look, findings);
  memory.open = findings;
  return findings;
}

}  // namespace

std::string device_of(const GpuReading& gpu) { return gpu.pci.empty() ? "gpu-" + std::to_string(gpu.index) : gpu.pci; }

unsigned links_up(const GpuReading& gpu) {
  return static_cast<unsigned>(
      std::count_if(gpu.links.begin(), gpu.links.end(), [](const NvLinkReading& link) { return link.up; }));
}

Finding GpuLook::make(const CounterCode& code, std::string title, std::string_view part) const {
  auto finding = counter_finding(code, device_of(gpu), std::move(title), part);
  finding.rma_candidate = code.action == "RMA";
  return finding;
}

GpuCounters::GpuCounters(std::vector<std::string> open_findings, GpuLimits limits)
    : limits_(limits), open_(std::move(open_findings)) {}
GpuCounters::~GpuCounters() = default;
GpuCounters::GpuCounters(GpuCounters&&) noexcept = default;
GpuCounters& GpuCounters::operator=(GpuCounters&&) noexcept = default;

GpuMemory& GpuCounters::memory_of(const GpuReading& gpu) {
  const auto device = device_of(gpu);
  for (auto& memory : memories_)
    if (memory->device == device) return *memory;
  // More addresses than a machine has GPUs: some have gone and come back elsewhere, and the oldest is forgotten.
  if (memories_.size() == max_gpus) memories_.erase(memories_.begin());
  memories_.push_back(std::make_unique<GpuMemory>());
  memories_.back()->device = device;
  recall(*memories_.back(), open_);
  return *memories_.back();
}

Findings GpuCounters::judge(const NvmlReading& reading, int expected, Duration monotonic) {
  Findings findings;
  for (const auto& gpu : reading.gpus) {
    auto& memory = memory_of(gpu);
    const auto siblings = siblings_of(gpu, reading, memories_, limits_);
    GpuLook look{gpu, memory, limits_};
    look.model = GpuModels::instance().find(gpu.name);
    look.siblings = siblings.count;
    look.links_alike = siblings.links_alike;
    look.width_alike = siblings.width_alike;
    look.clocks_alike = siblings.clocks_alike;
    look.now = monotonic;
    look.elapsed = std::clamp(monotonic - memory.looked.value_or(monotonic), Duration(0), longest_step);
    memory.looked = monotonic;
    auto found = judge_gpu(look);
    findings.insert(findings.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  if (expected > 0 && reading.gpus.size() < static_cast<size_t>(expected))
    findings.push_back(missing_gpus(reading.gpus.size(), expected));
  else if (reading.gpus.empty())
    findings.push_back(no_gpus());
  return findings;
}

}  // namespace homeostat::fault
