#include "core/fault/amd_counters.hpp"

#include <algorithm>
#include <charconv>

#include "core/fault/counter_codes.hpp"

namespace homeostat::fault {

namespace {

using namespace std::chrono_literals;
namespace codes = counter_codes;

constexpr RateRule uncorrected_rule{1, 60min, 60min};
constexpr RateRule deferred_rule{1, 60min, 60min};
constexpr RateRule corrected_rule{100, 60min, 60min};
constexpr RateRule page_rule{1, 60min, 60min};
constexpr RateRule xgmi_rule{1, 60min, 60min};
constexpr RateRule replay_rule{100, 10min, 30min};

constexpr Duration silent_hold = 60s;   // the driver refuses to answer while it resets the GPU
constexpr Duration unbound_hold = 60s;  // a driver that is loaded anew
constexpr Duration mixed_hold = 60s;    // one GPU is set after the other
constexpr Duration gone_hold = 5s, back_quiet = 15s;
constexpr Duration throttle_hold = 60s, hot_hold = 30s, heat_quiet = 60s, xgmi_hold = 30s;
constexpr double throttled_share = 0.1;  // of the time between two looks

// Where the fields of a gpu_metrics table are: offsets in bytes from its start, 0 for absent. Revisions 1.0 to 1.8 as
// the kernel publishes them (drivers/gpu/drm/amd/include/kgd_pp_interface.h).
struct Layout {
  unsigned revision;
  size_t least_size;  // an early 1.6 that no release had is shorter and laid out otherwise
  size_t hotspot, memory, power, busy, memory_busy, gfxclk, lanes, speed, link_bytes;
  size_t xgmi_lanes, replays, independent_throttle, accumulated, socket_heat, xgmi_status;
};

constexpr Layout layouts[] = {
    {0, 76, 18, 20, 34, 28, 30, 54, 74, 75, 1, 0, 0, 0, 0, 0, 0},
    {1, 96, 6, 8, 22, 16, 18, 54, 74, 76, 2, 0, 0, 0, 0, 0, 0},
    {2, 104, 6, 8, 22, 16, 18, 54, 74, 76, 2, 0, 0, 0, 0, 0, 0},
    {3, 120, 6, 8, 22, 16, 18, 54, 74, 76, 2, 0, 0, 112, 0, 0, 0},
    {4, 284, 4, 6, 10, 12, 14, 240, 48, 50, 2, 52, 88, 0, 0, 0, 0},
    {5, 356, 4, 6, 10, 12, 14, 312, 112, 114, 2, 116, 152, 0, 0, 0, 0},
    {6, 640, 4, 6, 10, 12, 14, 264, 60, 62, 2, 64, 104, 0, 32, 44, 0},
    {7, 640, 4, 6, 10, 12, 14, 296, 68, 70, 2, 72, 112, 0, 40, 52, 264},
    {8, 640, 4, 6, 10, 12, 14, 296, 68, 70, 2, 72, 112, 0, 40, 52, 264},
};

// Little-endian, of 1, 2, 4 or 8 bytes; all ones mean that the chip does not have the field.
std::optional<std::uint64_t> field(std::string_view bytes, size_t offset, size_t size) {
  if (offset == 0 || offset + size > bytes.size()) return std::nullopt;
  std::uint64_t value = 0, none = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
    none |= 0xffull << (8 * i);
  }
  return value == none ? std::nullopt : std::optional(value);
}

void read_heat(std::string_view bytes, const Layout& layout, AmdMetrics& metrics) {
  // Bits 32 to 47 of the status that does not depend on the chip are the temperatures'.
  constexpr std::uint64_t heat_bits = 0xffffull << 32;
  if (const auto status = field(bytes, layout.independent_throttle, 8))
    metrics.thermal_throttle = (*status & heat_bits) != 0;
  metrics.accumulated = field(bytes, layout.accumulated, 4);
  if (layout.socket_heat == 0) return;
  std::uint64_t residency = 0;  // of the socket, the voltage regulators and the memory
  for (size_t i = 0; i < 3; ++i) residency += field(bytes, layout.socket_heat + 4 * i, 4).value_or(0);
  metrics.thermal_residency = residency;
}

std::string_view next_line(std::string_view& text) {
  const auto end = text.find('\n');
  const auto line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

MetricsState parse_gpu_metrics(std::string_view bytes, AmdMetrics& metrics) {
  if (bytes.size() < 4) return MetricsState::garbled;
  const auto byte = [&](size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(bytes[at])); };
  const size_t says = byte(0) | byte(1) << 8;
  if (says < 4 || says > bytes.size()) return MetricsState::garbled;
  const unsigned format = byte(2), content = byte(3);
  const auto* layout = std::ranges::find(layouts, content, &Layout::revision);
  if (format != 1 || layout == std::end(layouts)) return MetricsState::unknown;
  if (says < layout->least_size) return MetricsState::unknown;
  bytes = bytes.substr(0, says);
  metrics.hotspot_c = field(bytes, layout->hotspot, 2);
  metrics.memory_c = field(bytes, layout->memory, 2);
  metrics.power_w = field(bytes, layout->power, 2);
  metrics.busy_percent = field(bytes, layout->busy, 2);
  metrics.memory_busy_percent = field(bytes, layout->memory_busy, 2);
  metrics.gfxclk_mhz = field(bytes, layout->gfxclk, 2);
  metrics.lanes = field(bytes, layout->lanes, layout->link_bytes);
  metrics.speed_tenth_gts = field(bytes, layout->speed, layout->link_bytes);
  metrics.xgmi_lanes = field(bytes, layout->xgmi_lanes, 2);
  metrics.pcie_replays = field(bytes, layout->replays, 8);
  read_heat(bytes, *layout, metrics);
  for (size_t i = 0; i < metrics.xgmi_up.size() && layout->xgmi_status > 0; ++i)
    if (const auto status = field(bytes, layout->xgmi_status + 2 * i, 2)) metrics.xgmi_up[i] = *status != 0;
  return MetricsState::good;
}

bool parse_ras_counts(std::string_view text, RasBlock& block) {
  bool any = false;
  while (!text.empty()) {
    auto line = next_line(text);
    const auto colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    const auto name = line.substr(0, colon);
    line.remove_prefix(colon + 2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc() || end != line.data() + line.size()) continue;
    auto* const into = name == "ue"   ? &block.uncorrected
                       : name == "ce" ? &block.corrected
                       : name == "de" ? &block.deferred
                                      : nullptr;
    if (!into) continue;
    *into = value;
    any = true;
  }
  return any;
}

BadPages parse_bad_pages(std::string_view text) {
  BadPages pages;
  while (!text.empty()) {
    auto line = next_line(text);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (!line.starts_with("0x") || line.size() < 2 || line[line.size() - 2] != ' ') continue;
    const char flag = line.back();
    pages.retired += flag == 'R' ? 1 : 0;
    pages.pending += flag == 'P' ? 1 : 0;
    pages.failed += flag == 'F' ? 1 : 0;
  }
  return pages;
}

namespace {

template <class Value>
void fill(std::optional<Value>& place, const std::optional<Value>& value) {
  if (!place) place = value;
}

void fill(std::string& place, const std::string& value) {
  if (place.empty()) place = value;
}

void fill_metrics(AmdMetrics& metrics, const AmdMetrics& library) {
  fill(metrics.hotspot_c, library.hotspot_c);
  fill(metrics.memory_c, library.memory_c);
  fill(metrics.power_w, library.power_w);
  fill(metrics.lanes, library.lanes);
  fill(metrics.speed_tenth_gts, library.speed_tenth_gts);
  // Both or none: the one is counted in cycles of the other.
  if (metrics.thermal_throttle || metrics.accumulated) return;
  metrics.accumulated = library.accumulated;
  metrics.thermal_residency = library.thermal_residency;
}

}  // namespace

void fill_from_library(AmdReading& gpu, const AmdReading& library) {
  fill(gpu.uuid, library.uuid);
  fill(gpu.model, library.model);
  for (const auto& block : library.blocks)
    if (std::ranges::find(gpu.blocks, block.name, &RasBlock::name) == gpu.blocks.end()) gpu.blocks.push_back(block);
  fill(gpu.bad_pages, library.bad_pages);
  fill(gpu.bad_page_threshold, library.bad_page_threshold);
  fill(gpu.memory_ecc, library.memory_ecc);
  if (library.metrics) {
    if (!gpu.metrics) gpu.metrics.emplace();
    fill_metrics(*gpu.metrics, *library.metrics);
  }
  if (!gpu.metrics || !gpu.metrics->pcie_replays) fill(gpu.pcie_replays, library.pcie_replays);
  fill(gpu.critical_c, library.critical_c);
  fill(gpu.vram_total, library.vram_total);
  fill(gpu.vram_used, library.vram_used);
  fill(gpu.compute_partition, library.compute_partition);
  fill(gpu.memory_partition, library.memory_partition);
}

std::vector<Finding> AmdWatch::look(const std::vector<AmdReading>& gpus, int expected, Duration now) {
  std::vector<Finding> out;
  int listed = 0;
  for (const auto& gpu : gpus) {
    if (gpu.moved) {
      memory_.erase(gpu.pci);
      continue;
    }
    if (!memory_.contains(gpu.pci) && memory_.size() >= max_gpus) continue;
    auto& memory = memory_[gpu.pci];
    if (gpu.listed) {
      ++listed;
      look_at(gpu, memory, now, out);
    } else {
      look_for(gpu, memory, now, out);
    }
  }
  const auto lost = static_cast<int>(
      std::ranges::count_if(out, [](const Finding& finding) { return finding.code == codes::amd_lost.code; }));
  // Those that were seen and went are named; the count is for those that never came.
  const bool fewer = expected > 0 && listed + lost < expected;
  most_listed_ = std::max(most_listed_, listed);
  awaits_more_ = fewer && most_listed_ < expected;
  if (missing_.observe(fewer, now, hold_, 0s)) {
    awaits_more_ = false;
    out.push_back(counter_finding(codes::amd_missing, "", "Fewer AMD GPUs answer than the node should have"));
  }
  look_at_all(gpus, now, out);
  return out;
}

// What one GPU has and another one has not.
void AmdWatch::look_at_all(const std::vector<AmdReading>& gpus, Duration now, std::vector<Finding>& out) {
  const bool any_ecc = std::ranges::any_of(gpus, [](const AmdReading& gpu) { return gpu.memory_ecc.value_or(false); });
  const AmdReading* first = nullptr;  // that tells its partitions
  bool mixed = false;
  for (const auto& gpu : gpus) {
    if (!gpu.listed) continue;
    if (any_ecc && gpu.memory_ecc == false)
      out.push_back(counter_finding(codes::amd_ecc_off, gpu.pci,
                                    "ECC of the GPU's memory is off, while another GPU of the node has it on"));
    if (gpu.compute_partition.empty() || gpu.memory_partition.empty()) continue;
    if (first == nullptr) first = &gpu;
    mixed |= gpu.compute_partition != first->compute_partition || gpu.memory_partition != first->memory_partition;
  }
  if (mixed_.observe(mixed, now, mixed_hold, 0s))
    out.push_back(counter_finding(codes::amd_mixed, "", "The node's GPUs are partitioned differently"));
}

void AmdWatch::look_for(const AmdReading& gpu, Memory& memory, Duration now, std::vector<Finding>& out) {
  const auto hold = gpu.there ? unbound_hold : gone_hold;
  if (memory.gone.observe(true, now, 0s, back_quiet) && memory.gone.lasted(now) >= hold)
    out.push_back(counter_finding(codes::amd_lost, gpu.pci,
                                  gpu.there ? "The driver has let the GPU go" : "The GPU has gone from the PCI bus"));
}

void AmdWatch::look_at(const AmdReading& gpu, Memory& memory, Duration now, std::vector<Finding>& out) {
  const auto report = [&](const CounterCode& code, std::string title) {
    out.push_back(counter_finding(code, gpu.pci, std::move(title)));
  };
  memory.gone.clear();
  if (memory.silent.observe(!gpu.trouble.empty(), now, silent_hold, back_quiet))
    report(codes::amd_unreadable, "The GPU cannot be asked: " + (gpu.trouble.empty() ? "it is back" : gpu.trouble));
  for (const auto& block : gpu.blocks) {
    if (!memory.blocks.contains(block.name) && memory.blocks.size() >= max_blocks) continue;
    look_at_block(gpu, block, memory.blocks[block.name], now, out);
  }
  std::uint64_t new_pages = 0;
  if (gpu.bad_pages) {
    new_pages = memory.pages.take(gpu.bad_pages->retired + gpu.bad_pages->pending);
    if (gpu.bad_pages->failed > 0)
      report(codes::amd_pages_failed, "Bad pages of the GPU's memory could not be reserved");
    const auto bad = gpu.bad_pages->retired + gpu.bad_pages->pending + gpu.bad_pages->failed;
    if (gpu.bad_page_threshold && bad >= *gpu.bad_page_threshold)
      report(codes::amd_pages_full,
             "The GPU's memory has as many bad pages as the driver allows: it will refuse the GPU");
  }
  if (memory.page_rate.observe(page_rule, now, new_pages))
    report(codes::amd_pages, "Pages of the GPU's memory went bad");
  if (memory.xgmi_rate.observe(xgmi_rule, now, gpu.xgmi_errors.value_or(0)))
    report(codes::amd_xgmi, "Errors on the GPU's xGMI links");
  auto replays = gpu.pcie_replays;
  if (!replays && gpu.metrics) replays = gpu.metrics->pcie_replays;
  if (memory.replay_rate.observe(replay_rule, now, memory.replays.take(replays)))
    report(codes::amd_replay, "The GPU repeats PCIe packets at a high rate");
  look_at_metrics(gpu, memory, now, out);
}

void AmdWatch::look_at_block(const AmdReading& gpu, const RasBlock& reading, Block& block, Duration now,
                             std::vector<Finding>& out) {
  const auto report = [&](const CounterCode& code, std::string_view what) {
    std::string title(what);
    title += " errors in the GPU's ";
    title += reading.name;
    title += " block";
    out.push_back(counter_finding(code, gpu.pci, std::move(title), reading.name));
  };
  if (block.first) block.old_uncorrected = reading.uncorrected.value_or(0) > 0;
  block.first = false;
  const auto uncorrected = block.uncorrected.take(reading.uncorrected);
  // A reset of the GPU begins its counts anew: what it cures is cured.
  if (block.uncorrected.was_reset()) {
    block.uncorrected_rate.clear();
    block.old_uncorrected = false;
  }
  if (block.uncorrected_rate.observe(uncorrected_rule, now, uncorrected))
    report(codes::amd_ue, "Uncorrectable");
  else if (block.old_uncorrected)
    report(codes::amd_ue_old, "Earlier uncorrectable");
  if (block.deferred_rate.observe(deferred_rule, now, block.deferred.take(reading.deferred)))
    report(codes::amd_de, "Deferred");
  if (block.corrected_rate.observe(corrected_rule, now, block.corrected.take(reading.corrected)))
    report(codes::amd_ce, "Many corrected");
}

void AmdWatch::look_at_metrics(const AmdReading& gpu, Memory& memory, Duration now, std::vector<Finding>& out) {
  const auto report = [&](const CounterCode& code, std::string title) {
    out.push_back(counter_finding(code, gpu.pci, std::move(title)));
  };
  if (!gpu.metrics) return;
  const auto& metrics = *gpu.metrics;
  bool throttled = metrics.thermal_throttle.value_or(false);
  if (metrics.accumulated && metrics.thermal_residency && memory.accumulated && memory.thermal) {
    // Both count modulo 2^32; the sum of three of them is taken as it is, so a step back counts as nothing.
    const auto cycles = static_cast<std::uint32_t>(*metrics.accumulated - *memory.accumulated);
    const auto held = *metrics.thermal_residency - std::min(*memory.thermal, *metrics.thermal_residency);
    throttled |= cycles > 0 && static_cast<double>(held) >= throttled_share * cycles;
  }
  memory.accumulated = metrics.accumulated;
  memory.thermal = metrics.thermal_residency;
  if (memory.throttled.observe(throttled, now, throttle_hold, heat_quiet))
    report(codes::amd_throttled, "Heat holds the GPU back");
  const bool hot = metrics.hotspot_c && gpu.critical_c && *gpu.critical_c > 0 && *metrics.hotspot_c >= *gpu.critical_c;
  if (memory.hot.observe(hot, now, hot_hold, heat_quiet))
    report(codes::amd_hot, "The GPU is at its critical temperature");
  bool down = false;
  for (size_t i = 0; i < metrics.xgmi_up.size(); ++i) {
    down |= memory.xgmi_was_up[i] && metrics.xgmi_up[i] == false;
    memory.xgmi_was_up[i] |= metrics.xgmi_up[i].value_or(false);
  }
  if (memory.xgmi_down.observe(down, now, xgmi_hold, xgmi_hold))
    report(codes::amd_xgmi_down, "An xGMI link of the GPU was up and is down");
}

}  // namespace homeostat::fault
