#include "io/nvml_gpu.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

namespace homeostat::io::nvml {

using fault::GpuReading;

namespace {

unsigned small(std::uint64_t value) { return value > 0xffff'ffff ? 0xffff'ffffU : static_cast<unsigned>(value); }

struct ScalarField {
  unsigned id;
  const char* what;
  void (*take)(GpuReading&, std::uint64_t);
};

constexpr std::array scalar_fields = {
    ScalarField{field_ecc_corrected_volatile, "count of corrected memory errors",
                [](GpuReading& gpu, std::uint64_t v) { gpu.ecc.corrected = v; }},
    ScalarField{field_ecc_uncorrected_volatile, "count of uncorrected memory errors",
                [](GpuReading& gpu, std::uint64_t v) { gpu.ecc_uncorrected = v; }},
    ScalarField{field_ecc_corrected_aggregate, "lifetime count of corrected memory errors",
                [](GpuReading& gpu, std::uint64_t v) { gpu.ecc.corrected_ever = v; }},
    ScalarField{field_ecc_uncorrected_aggregate, "lifetime count of uncorrected memory errors",
                [](GpuReading& gpu, std::uint64_t v) { gpu.ecc.uncorrected_ever = v; }},
    ScalarField{field_retired_single, "count of retired pages",
                [](GpuReading& gpu, std::uint64_t v) { gpu.repair.pages_single = small(v); }},
    ScalarField{field_retired_double, "count of retired pages",
                [](GpuReading& gpu, std::uint64_t v) { gpu.repair.pages_double = small(v); }},
    ScalarField{field_retired_pending, "state of page retirement",
                [](GpuReading& gpu, std::uint64_t v) { gpu.repair.pages_pending = v != 0; }},
    ScalarField{field_memory_temperature, "memory temperature",
                [](GpuReading& gpu, std::uint64_t v) { gpu.thermal.memory_c = small(v); }},
    ScalarField{field_pcie_replays, "PCIe replay counter",
                [](GpuReading& gpu, std::uint64_t v) { gpu.pcie.replays = v; }},
    ScalarField{field_remapped_corrected, "count of remapped rows",
                [](GpuReading& gpu, std::uint64_t v) { gpu.repair.rows_corrected = small(v); }},
    ScalarField{field_remapped_uncorrected, "count of remapped rows",
                [](GpuReading& gpu, std::uint64_t v) { gpu.repair.rows_uncorrected = small(v); }},
    ScalarField{field_remapped_pending, "state of row remapping",
                [](GpuReading& gpu, std::uint64_t v) { gpu.repair.rows_pending = v != 0; }},
    ScalarField{field_remapped_failure, "state of row remapping",
                [](GpuReading& gpu, std::uint64_t v) { gpu.repair.rows_failed = v != 0; }},
    ScalarField{field_bank_remap_pending, "state of bank remapping",
                [](GpuReading& gpu, std::uint64_t v) { gpu.repair.bank_pending = v != 0; }},
    ScalarField{field_recovery_action, "recovery action",
                [](GpuReading& gpu, std::uint64_t v) { gpu.recovery_action = small(v); }},
};

template <class Text, class Function>
bool ask_text(Function* function, Handle handle, Text& into, int& code) {
  if (!function) return false;
  code = function(handle, into.data(), static_cast<unsigned>(into.size()));
  into.back() = '\0';
  return true;
}

std::string pci_text(const PciInfo& pci) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x", pci.domain & 0xffff, pci.bus & 0xff, pci.device & 0xff);
  return text.data();
}

std::optional<unsigned> pages(const Functions& call, Handle handle, Ask& ask, int cause) {
  // With room for none the library tells how many there are, as a success or as "room is short".
  unsigned count = 0;
  if (!call.retired_pages || !ask.may()) return std::nullopt;
  const int code = call.retired_pages(handle, cause, &count, nullptr);
  if (code != insufficient_size && !ask.settle("count of retired pages", code)) return std::nullopt;
  return count;
}

}  // namespace

void read_fields(const Functions& call, Handle handle, Ask& ask, GpuReading& gpu,
                 std::optional<unsigned>& nvlink_count) {
  constexpr size_t count = scalar_fields.size() + 2;
  std::array<FieldValue, count> values{};
  for (size_t i = 0; i < scalar_fields.size(); ++i) values[i].field_id = scalar_fields[i].id;
  auto& margin = values[count - 2];
  auto& links = values[count - 1];
  margin.field_id = field_slowdown_margin;
  links.field_id = field_nvlink_count;
  if (!ask("list of figures", call.field_values, handle, static_cast<int>(count), values.data())) return;
  for (size_t i = 0; i < scalar_fields.size(); ++i)
    if (ask.settle(scalar_fields[i].what, values[i].result))
      if (const auto value = unsigned_of(values[i])) scalar_fields[i].take(gpu, *value);
  if (ask.settle("thermal limit", margin.result)) gpu.thermal.slowdown_margin_c = signed_of(margin);
  if (ask.settle("count of NVLinks", links.result))
    if (const auto value = unsigned_of(links)) nvlink_count = small(*value);
}

void read_without_fields(const Functions& call, Handle handle, Ask& ask, GpuReading& gpu) {
  const auto ecc = [&](const char* what, int type, int since) -> std::optional<std::uint64_t> {
    return ask.number<unsigned long long>(what, call.total_ecc, handle, type, since);
  };
  gpu.ecc.corrected = ecc("count of corrected memory errors", ecc_corrected_type, ecc_volatile);
  gpu.ecc_uncorrected = ecc("count of uncorrected memory errors", ecc_uncorrected_type, ecc_volatile);
  gpu.ecc.corrected_ever = ecc("lifetime count of corrected memory errors", ecc_corrected_type, ecc_aggregate);
  gpu.ecc.uncorrected_ever = ecc("lifetime count of uncorrected memory errors", ecc_uncorrected_type, ecc_aggregate);
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (ask("state of row remapping", call.remapped_rows, handle, &corrected, &uncorrected, &pending, &failed)) {
    gpu.repair.rows_corrected = corrected;
    gpu.repair.rows_uncorrected = uncorrected;
    gpu.repair.rows_pending = pending != 0;
    gpu.repair.rows_failed = failed != 0;
  }
  gpu.repair.pages_single = pages(call, handle, ask, retired_multiple_single_bit);
  gpu.repair.pages_double = pages(call, handle, ask, retired_double_bit);
  if (const auto is_pending = ask.number<int>("state of page retirement", call.retired_pending, handle))
    gpu.repair.pages_pending = *is_pending != 0;
  if (const auto replays = ask.number<unsigned>("PCIe replay counter", call.pcie_replays, handle))
    gpu.pcie.replays = *replays;
}

void read_load(const Functions& call, Handle handle, Ask& ask, GpuReading& gpu) {
  gpu.thermal.gpu_c = ask.number<unsigned>("temperature", call.temperature, handle, static_cast<int>(sensor_gpu));
  gpu.load.power_mw = ask.number<unsigned>("power draw", call.power_usage, handle);
  if (const auto busy = ask.number<Utilization>("utilisation", call.utilization, handle))
    gpu.load.utilization_percent = busy->gpu;
  if (const auto memory = ask.number<Memory>("memory use", call.memory_info, handle)) {
    gpu.load.memory_used = memory->used;
    gpu.load.memory_total = memory->total;
  }
  gpu.load.sm_clock_mhz = ask.number<unsigned>("clock", call.clock_info, handle, static_cast<int>(clock_sm));
  if (const auto reasons = ask.number<unsigned long long>("clock's limits", call.event_reasons, handle))
    gpu.load.throttle_reasons = *reasons;
  gpu.pcie.generation = ask.number<unsigned>("PCIe generation", call.pcie_generation, handle);
  gpu.pcie.width = ask.number<unsigned>("PCIe width", call.pcie_width, handle);
}

bool Gpu::identify(const Functions& call, GpuReading& gpu, Handle& handle) {
  Ask ask(gpu);
  gpu.uuid = uuid_;
  gpu.pci = pci_;
  if (!ask.settle_vital("GPU", call.handle_by_index(gpu.index, &handle))) return false;
  PciInfo pci{};
  if (!ask.settle_vital("PCI address", call.pci_info(handle, &pci))) return false;
  if (auto text = pci_text(pci); text != pci_) {
    *this = Gpu();  // another GPU has this number now: the driver counts anew after one has gone
    pci_ = std::move(text);
  }
  gpu.pci = pci_;
  if (uuid_.empty()) {
    std::array<char, 96> uuid{};
    int code = success;
    (void)ask_text(call.uuid, handle, uuid, code);
    if (!ask.settle_vital("UUID", code)) return false;
    uuid_ = uuid.data();
  }
  gpu.uuid = uuid_;
  return true;
}

void Gpu::read_limits(const Functions& call, Handle handle, GpuReading& gpu) {
  Ask ask(gpu);
  const auto failed_before = gpu.unreadable.size();
  Limits limits;
  std::array<char, 96> name{};
  int code = success;
  if (ask.may() && ask_text(call.name, handle, name, code) && ask.settle("name", code)) limits.name = name.data();
  const auto threshold = [&](int which) {
    return ask.number<unsigned>("thermal limit", call.temperature_threshold, handle, which);
  };
  limits.slowdown_c = threshold(threshold_slowdown);
  limits.memory_max_c = threshold(threshold_memory_max);
  limits.sm_clock_max_mhz =
      ask.number<unsigned>("highest clock", call.max_clock_info, handle, static_cast<int>(clock_sm));
  limits.pcie_generation_max = ask.number<unsigned>("highest PCIe generation", call.pcie_generation_max, handle);
  limits.pcie_width_max = ask.number<unsigned>("highest PCIe width", call.pcie_width_max, handle);
  limits_whole_ = gpu.readable() && gpu.unreadable.size() == failed_before;
  limits_ = std::move(limits);
}

void Gpu::read_slow(const Functions& call, Handle handle, GpuReading& gpu) {
  Ask ask(gpu);
  const auto failed_before = static_cast<std::ptrdiff_t>(gpu.unreadable.size());
  slow_ = GpuReading();
  RowRemapperHistogram banks{};
  if (ask("spare rows of memory", call.remap_histogram, handle, &banks))
    slow_.repair.histogram = {banks.max, banks.high, banks.partial, banks.low, banks.none};
  SramEccStatusV1 sram{};
  sram.version = sram_ecc_status_v1;
  if (ask("SRAM error status", call.sram_ecc, handle, &sram)) {
    slow_.ecc.sram_threshold_exceeded = sram.threshold_exceeded != 0;
    slow_.ecc.sram_uncorrected = sram.volatile_parity + sram.volatile_sec_ded;
  }
  unsigned mig = 0, mig_pending = 0;
  if (ask("MIG mode", call.mig_mode, handle, &mig, &mig_pending)) {
    slow_.mig_enabled = mig != 0;
    slow_.mig_pending = mig_pending != 0;
  }
  GpuFabricInfoV2 fabric{};
  fabric.version = gpu_fabric_info_v2;
  if (ask("fabric state", call.fabric_info, handle, &fabric)) {
    auto& seen = slow_.fabric.emplace();
    if (fabric.state <= 3) seen.state = static_cast<fault::FabricState>(fabric.state);
    seen.status = fabric.status;
    if (fabric.status != success) seen.status_sentence = sentence(fabric.status);
    seen.health_mask = fabric.health_mask;
  }
  slow_.links = links_.read(call, handle, ask, nvlink_count_);
  // It stays unreadable until the next time that it is asked for.
  slow_.unreadable.assign(gpu.unreadable.begin() + failed_before, gpu.unreadable.end());
  gpu.unreadable.erase(gpu.unreadable.begin() + failed_before, gpu.unreadable.end());
}

void Gpu::add_remembered(GpuReading& gpu) const {
  gpu.name = limits_.name;
  gpu.thermal.slowdown_c = limits_.slowdown_c;
  gpu.thermal.memory_max_c = limits_.memory_max_c;
  gpu.load.sm_clock_max_mhz = limits_.sm_clock_max_mhz;
  gpu.pcie.generation_max = limits_.pcie_generation_max;
  gpu.pcie.width_max = limits_.pcie_width_max;
  gpu.repair.histogram = slow_.repair.histogram;
  gpu.ecc.sram_threshold_exceeded = slow_.ecc.sram_threshold_exceeded;
  gpu.ecc.sram_uncorrected = slow_.ecc.sram_uncorrected;
  gpu.mig_enabled = slow_.mig_enabled;
  gpu.mig_pending = slow_.mig_pending;
  gpu.fabric = slow_.fabric;
  gpu.links = slow_.links;
  for (const auto& failed : slow_.unreadable)
    if (gpu.unreadable.size() < fault::max_unreadable) gpu.unreadable.push_back(failed);
}

GpuReading Gpu::read(const Functions& call, unsigned index) {
  GpuReading gpu{index, {}, {}, false, {}, {}, {}};
  Handle handle = nullptr;
  if (!identify(call, gpu, handle)) return gpu;
  Ask ask(gpu);
  if (!limits_whole_) read_limits(call, handle, gpu);
  if (call.field_values)
    read_fields(call, handle, ask, gpu, nvlink_count_);
  else
    read_without_fields(call, handle, ask, gpu);
  read_load(call, handle, ask, gpu);
  if (looks_++ % slow_every == 0) read_slow(call, handle, gpu);
  MarginTemperatureV1 margin{};
  margin.version = margin_temperature_v1;
  if (!limits_.slowdown_c && gpu.thermal.slowdown_margin_c &&
      ask("thermal margin", call.margin_temperature, handle, &margin))
    gpu.thermal.margin_c = margin.margin_c;
  add_remembered(gpu);
  return gpu;
}

}  // namespace homeostat::io::nvml
