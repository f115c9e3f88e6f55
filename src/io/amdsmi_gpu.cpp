#include "io/amdsmi_gpu.hpp"

#include <algorithm>
#include <charconv>

namespace homeostat::io::amdsmi {

using fault::AmdReading;

namespace {

constexpr std::uint64_t none64 = ~0ull;
constexpr std::uint32_t none32 = ~0u;
constexpr std::uint16_t none16 = 0xffff;
constexpr std::uint32_t most_pages = 1u << 16;
constexpr size_t longest_name = 64;

// The GPU does not have the figure, or not at this moment: nothing is wrong.
bool is_not_offered(int status) {
  switch (status) {
    case invalid:
    case not_supported:
    case not_yet_implemented:
    case retry:
    case interrupted:
    case directory_not_found:
    case busy:
    case no_data:
    case file_not_found:
    case setting_unavailable:
      return true;
    default:
      return false;
  }
}

std::optional<std::uint64_t> unless(std::uint64_t value, std::uint64_t none) {
  return value == none ? std::nullopt : std::optional(value);
}

void read_names(const Functions& call, Handle handle, const AmdReading& known, Ask& ask, Room& room, AmdReading& gpu) {
  std::array<char, 64> uuid{};
  unsigned length = uuid.size();
  if (known.uuid.empty() && ask(call.uuid, handle, &length, uuid.data())) {
    uuid.back() = '\0';
    gpu.uuid = uuid.data();
  }
  if (known.model.empty() && ask(call.asic_info, handle, room.fresh())) gpu.model = room.text(longest_name);
}

fault::RasBlock block_of(std::string name, const Room& room) {
  const auto count = room.as<ErrorCount>();
  return {std::move(name), unless(count.uncorrected, none64), unless(count.corrected, none64),
          unless(count.deferred, none64)};
}

// By block where the driver's files do not tell (all of) them; the sum, as block "all", only where nothing else is had.
void read_errors(const Functions& call, Handle handle, const AmdReading& known, Ask& ask, Room& room, AmdReading& gpu) {
  const bool wanted = known.blocks.empty() || !known.trouble.empty();
  if (!wanted && known.memory_ecc) return;
  const auto enabled = ask.number<std::uint64_t>(call.ecc_enabled, handle);
  if (enabled) gpu.memory_ecc = (*enabled & 1) != 0;
  if (!wanted) return;
  for (size_t i = 0; enabled && i < block_names.size(); ++i)
    if ((*enabled >> i & 1) != 0 && ask(call.ecc_count, handle, std::uint64_t{1} << i, room.fresh()))
      gpu.blocks.push_back(block_of(block_names[i], room));
  if (known.blocks.empty() && gpu.blocks.empty() && ask(call.total_ecc, handle, room.fresh()))
    gpu.blocks.push_back(block_of("all", room));
}

// The library fills the list without asking how long it may be, so there is room for pages that go bad meanwhile. Some
// versions leave the number as it is when there are none.
void read_pages(const Functions& call, Handle handle, const AmdReading& known, Ask& ask, AmdReading& gpu) {
  if (!known.bad_page_threshold) {
    const auto threshold = ask.number<std::uint32_t>(call.bad_page_threshold, handle);
    if (threshold && *threshold > 0) gpu.bad_page_threshold = *threshold;
  }
  std::uint32_t count = 0;
  if (known.bad_pages || !ask(call.bad_pages, handle, &count, static_cast<RetiredPage*>(nullptr))) return;
  if (count > most_pages) return;
  fault::BadPages pages;
  constexpr std::uint32_t spare = 1024;
  std::vector<RetiredPage> list(count > 0 ? count + spare : 0, RetiredPage{none64, none64, none32});
  std::uint32_t filled = count;
  if (count > 0 && !ask(call.bad_pages, handle, &filled, list.data())) return;
  for (const auto& page : list) {
    pages.retired += page.status == 0 ? 1 : 0;
    pages.pending += page.status == 1 ? 1 : 0;
    pages.failed += page.status == 2 ? 1 : 0;
  }
  gpu.bad_pages = pages;
}

// Degrees; some versions count in thousandths.
std::optional<std::uint64_t> read_heat(const Functions& call, Handle handle, Ask& ask, std::uint32_t where,
                                       std::uint32_t what) {
  const auto value = ask.number<std::int64_t>(call.heat, handle, where, what);
  if (!value || *value <= 0 || *value > 1'000'000) return std::nullopt;
  return static_cast<std::uint64_t>(*value > 1000 ? *value / 1000 : *value);
}

std::optional<std::uint64_t> read_power(const Functions& call, unsigned major, Handle handle, Ask& ask, Room& room) {
  if (major == 25 || !ask(call.power_info, handle, room.fresh())) return std::nullopt;  // 25's layout was not compared
  std::uint32_t current = 0, average = 0;
  if (major >= 26) {
    const auto power = room.as<PowerInfo26>();
    current = power.current_w;
    average = power.average_w;
  } else {
    const auto power = room.as<PowerInfo24>();
    current = power.current_w;
    average = power.average_w;
  }
  // Newer chips tell the one, older ones the other; 16 bits of ones have been seen for none.
  for (const auto watts : {current, average})
    if (watts != none32 && watts != none16 && watts > 0) return watts;
  return std::nullopt;
}

void read_link(const Functions& call, Handle handle, const AmdReading& known, Ask& ask, Room& room, AmdReading& gpu) {
  const bool replays = known.pcie_replays || (known.metrics && known.metrics->pcie_replays);
  const bool link = known.metrics && known.metrics->lanes && known.metrics->speed_tenth_gts;
  if ((replays && link) || !ask(call.pcie_info, handle, room.fresh())) return;
  const auto info = room.as<PcieInfo>();
  gpu.metrics->lanes = unless(info.now.lanes, none16);
  if (info.now.speed_mts != none32) gpu.metrics->speed_tenth_gts = info.now.speed_mts / 100;
  gpu.pcie_replays = unless(info.now.replays, none64);
}

void read_metrics(const Functions& call, unsigned major, Handle handle, const AmdReading& known, Ask& ask, Room& room,
                  AmdReading& gpu) {
  const auto has = [&](std::optional<std::uint64_t> fault::AmdMetrics::* figure) {
    return known.metrics && *known.metrics.*figure;
  };
  auto& metrics = gpu.metrics.emplace();
  if (!has(&fault::AmdMetrics::hotspot_c)) metrics.hotspot_c = read_heat(call, handle, ask, heat_hotspot, heat_now);
  if (!has(&fault::AmdMetrics::memory_c)) metrics.memory_c = read_heat(call, handle, ask, heat_memory, heat_now);
  if (!known.critical_c) gpu.critical_c = read_heat(call, handle, ask, heat_hotspot, heat_critical);
  if (!has(&fault::AmdMetrics::power_w)) metrics.power_w = read_power(call, major, handle, ask, room);
  read_link(call, handle, known, ask, room, gpu);
  const bool heat_told = known.metrics && (known.metrics->thermal_throttle || known.metrics->accumulated);
  if (heat_told || major < 26 || !ask(call.violations, handle, room.fresh())) return;
  const auto held = room.as<Violations>();
  if (held.cycles == none64 || held.hot_socket == none64) return;
  metrics.accumulated = held.cycles;
  metrics.thermal_residency = held.hot_socket + (held.hot_regulator == none64 ? 0 : held.hot_regulator) +
                              (held.hot_memory == none64 ? 0 : held.hot_memory);
}

std::string read_partition(const Function<Handle, char*, std::uint32_t>& function, Handle handle, Ask& ask) {
  std::array<char, 32> text{};
  if (!ask(function, handle, text.data(), static_cast<std::uint32_t>(text.size()))) return {};
  text.back() = '\0';
  return text.data();
}

}  // namespace

bool Ask::settle(const char* name, int status) {
  if (status == success) return true;
  if (is_not_offered(status)) return false;
  if (status != no_permission && status != file_error) ++complaints_.failures;
  auto what = std::string(name) + " " + word(status);
  auto& known = complaints_.of_what;
  if (known.size() >= AmdSmi::max_unreadable || std::ranges::find(known, what) != known.end()) return false;
  known.push_back(std::move(what));
  complaints_.sentences.push_back(std::string(name) + " of " + pci_ + " answers " + word(status) + ". " +
                                  sentence(status));
  return false;
}

void read_missing(const Functions& call, unsigned major, Handle handle, const AmdReading& known, Ask& ask, Room& room,
                  AmdReading& gpu) {
  read_names(call, handle, known, ask, room, gpu);
  read_errors(call, handle, known, ask, room, gpu);
  read_pages(call, handle, known, ask, gpu);
  read_metrics(call, major, handle, known, ask, room, gpu);
  if (!known.vram_total) gpu.vram_total = ask.number<std::uint64_t>(call.memory_total, handle, memory_vram);
  if (!known.vram_used) gpu.vram_used = ask.number<std::uint64_t>(call.memory_used, handle, memory_vram);
  if (known.compute_partition.empty()) gpu.compute_partition = read_partition(call.compute_partition, handle, ask);
  if (known.memory_partition.empty()) gpu.memory_partition = read_partition(call.memory_partition, handle, ask);
}

std::optional<std::uint64_t> bdf_of(const std::string& pci) {
  const auto hexadecimal = [&](size_t at, size_t length) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const char* const from = pci.data() + at;
    const auto [end, error] = std::from_chars(from, from + length, value, 16);
    return error == std::errc() && end == from + length ? std::optional(value) : std::nullopt;
  };
  if (pci.size() != 10 || pci[4] != ':' || pci[7] != ':') return std::nullopt;
  const auto domain = hexadecimal(0, 4), bus = hexadecimal(5, 2), device = hexadecimal(8, 2);
  if (!domain || !bus || !device || *device > 31) return std::nullopt;
  return *domain << 16 | *bus << 8 | *device << 3;
}

}  // namespace homeostat::io::amdsmi
