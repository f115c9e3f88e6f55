#include "io/amd.hpp"

#include <algorithm>

#include "io/pci_state.hpp"

namespace homeostat::io {

namespace {

constexpr size_t max_gpus = 64, max_blocks = 32;
constexpr size_t longest_page_list = 1u << 18, longest_name = 64;
constexpr std::uint64_t accelerator_memory = 16ull << 30;  // bytes: no graphics-only GPU of a server has as much
// The driver writes an error line when its xGMI counters are off, and keeps a count until it is read: seldom is enough.
constexpr Duration xgmi_every = std::chrono::minutes(10), partitions_every = std::chrono::minutes(1);

bool accelerator_class(std::uint64_t pci_class) {
  return pci_class >> 16 == 0x12 || pci_class >> 8 == 0x0380 || pci_class >> 8 == 0x0302;
}

bool is_accelerator(SysTree& tree, const SysFolder& folder) {
  return accelerator_class(tree.number(folder, "class").value_or(0)) ||
         tree.number(folder, "mem_info_vram_total").value_or(0) >= accelerator_memory;
}

// "feature mask: 0x4fff": the first bit is the memory's.
std::optional<bool> memory_ecc_of(std::string_view features) {
  const auto colon = features.find(": ");
  if (colon == std::string_view::npos) return std::nullopt;
  features.remove_prefix(colon + 2);
  const auto mask = parse_number(features.substr(0, features.find('\n')));
  return mask ? std::optional((*mask & 1) != 0) : std::nullopt;
}

bool is_unique_id(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

void AmdReader::remember(const std::vector<std::string>& known) {
  for (const auto& pci : known) {
    const auto address = pci + ".0";
    if (!is_pci_address(address) || gpus_.size() >= max_gpus) continue;
    gpus_[address].accelerator = any_ = true;
  }
}

void AmdReader::identify(const SysFolder& driver, const std::string& address, Gpu& gpu) {
  Gpu fresh;
  fresh.folder = tree_.open(driver, address.c_str());
  fresh.accelerator = is_accelerator(tree_, fresh.folder);
  gpu = std::move(fresh);
  if (!gpu.accelerator) return;
  any_ = true;
  // The name that ROCm's programs give the GPU, which none of the graphics cards has.
  if (const auto id = tree_.read(gpu.folder, "unique_id"); id && is_unique_id(id.text))
    gpu.uuid = "GPU-" + std::string(id.text);
  if (const auto name = tree_.read(gpu.folder, "product_name")) gpu.model = name.text.substr(0, longest_name);
  gpu.ras = tree_.open(gpu.folder, "ras");
  if (gpu.ras)
    if (const auto features = tree_.read(gpu.ras, "features")) gpu.memory_ecc = memory_ecc_of(features.text);
  if (gpu.ras)
    for (auto& name : tree_.list(gpu.ras))
      if (name.ends_with("_err_count") && gpu.blocks.size() < max_blocks) gpu.blocks.push_back(std::move(name));
  const auto sensors = tree_.open(gpu.folder, "hwmon");
  if (!sensors) return;
  for (const auto& name : tree_.list(sensors)) {
    const auto sensor = tree_.open(sensors, name.c_str());
    // The second temperature is the hottest spot's; in thousandths of a degree.
    if (const auto critical = tree_.number(sensor, "temp2_crit")) gpu.critical_c = *critical / 1000;
  }
}

void AmdReader::read_ras(Gpu& gpu, fault::AmdReading& reading) {
  for (const auto& file : gpu.blocks) {
    const auto text = tree_.read(gpu.ras, file.c_str());
    fault::RasBlock block;
    block.name = file.substr(0, file.size() - std::string_view("_err_count").size());
    if (text && fault::parse_ras_counts(text.text, block)) {
      reading.blocks.push_back(std::move(block));
    } else if (reading.trouble.empty()) {
      reading.trouble = "its file ras/" + file + " is ";
      reading.trouble += to_string(text ? SysFault::garbled : text.fault);
    }
  }
  const auto pages = tree_.read_long(gpu.ras, "gpu_vram_bad_pages", longest_page_list);
  if (pages || pages.fault == SysFault::empty) reading.bad_pages = fault::parse_bad_pages(pages.text);
}

void AmdReader::read_gpu(Gpu& gpu, Duration now, fault::AmdReading& reading) {
  read_ras(gpu, reading);
  const auto table = tree_.read_long(gpu.folder, "gpu_metrics", SysTree::page);
  fault::AmdMetrics metrics;
  const auto state = table ? fault::parse_gpu_metrics(table.text, metrics) : fault::MetricsState::unknown;
  if (state == fault::MetricsState::good) reading.metrics = metrics;
  const bool silent = !table && table.fault != SysFault::missing;
  if (reading.trouble.empty() && (silent || state == fault::MetricsState::garbled)) {
    reading.trouble = "its file gpu_metrics is ";
    reading.trouble += to_string(silent ? table.fault : SysFault::garbled);
  }
  reading.vram_total = tree_.number(gpu.folder, "mem_info_vram_total");
  reading.vram_used = tree_.number(gpu.folder, "mem_info_vram_used");
  reading.busy_percent = tree_.number(gpu.folder, "gpu_busy_percent");
  reading.pcie_replays = tree_.number(gpu.folder, "pcie_replay_count");
  reading.critical_c = gpu.critical_c;
  reading.memory_ecc = gpu.memory_ecc;
  read_partitions(gpu, now, reading);
  if (gpu.xgmi_read && now - *gpu.xgmi_read < xgmi_every) return;
  const bool first = !gpu.xgmi_read;
  gpu.xgmi_read = now;
  const auto errors = tree_.number(gpu.folder, "xgmi_error");
  // The first reading clears what came before we looked.
  if (errors) reading.xgmi_errors = first ? 0 : *errors;
}

// They change only when somebody sets them.
void AmdReader::read_partitions(Gpu& gpu, Duration now, fault::AmdReading& reading) {
  if (!gpu.partitions_read || now - *gpu.partitions_read >= partitions_every) {
    gpu.partitions_read = now;
    const auto read = [&](const char* file) {
      const auto text = tree_.read(gpu.folder, file);
      return text ? std::string(text.text.substr(0, longest_name)) : std::string();
    };
    gpu.compute_partition = read("current_compute_partition");
    gpu.memory_partition = read("current_memory_partition");
  }
  reading.compute_partition = gpu.compute_partition;
  reading.memory_partition = gpu.memory_partition;
}

void AmdReader::report_lost(const std::string& address, const Gpu& gpu, std::vector<fault::AmdReading>& out) {
  if (!gpu.accelerator) return;
  const auto pci = pci_state(tree_, address);
  fault::AmdReading reading;
  reading.pci = address.substr(0, address.rfind('.'));
  // One that was remembered without its function may be there under another.
  if (std::ranges::find(out, reading.pci, &fault::AmdReading::pci) != out.end()) return;
  reading.uuid = gpu.uuid;
  reading.model = gpu.model;
  reading.listed = false;
  reading.there = pci.there;
  reading.moved = pci.there && pci.bound;
  out.push_back(std::move(reading));
}

// A node whose driver did not load has accelerators all the same.
void AmdReader::look_for_unbound() {
  constexpr unsigned every = 12;
  if (any_ || looks_++ % every != 0) return;
  const auto all = tree_.open("bus/pci/devices");
  if (!all) return;
  for (const auto& address : tree_.list(all)) {
    const auto folder = tree_.open(all, address.c_str());
    if (tree_.number(folder, "vendor") != 0x1002u) continue;
    const auto pci_class = tree_.number(folder, "class").value_or(0);
    any_ |= accelerator_class(pci_class) && tree_.link(folder, "driver").empty();
  }
}

bool only_amd_on_bus(SysTree& tree) {
  constexpr std::uint64_t amd = 0x1002, nvidia = 0x10de, display = 0x03;
  const auto all = tree.open("bus/pci/devices");
  if (!all) return false;
  bool any = false;
  for (const auto& address : tree.list(all)) {
    const auto folder = tree.open(all, address.c_str());
    const auto vendor = tree.number(folder, "vendor");
    const auto pci_class = tree.number(folder, "class").value_or(0);
    if (vendor == nvidia && pci_class >> 16 == display) return false;
    if (vendor != amd || !is_accelerator(tree, folder)) continue;
    const auto driver = tree.link(folder, "driver");
    any |= driver.empty() || driver.ends_with("/amdgpu");
  }
  return any;
}

std::vector<std::string> accelerators_of_amdgpu(SysTree& tree) {
  std::vector<std::string> out;
  const auto driver = tree.open("bus/pci/drivers/amdgpu");
  if (!driver) return out;
  for (const auto& address : tree.list(driver))
    if (is_pci_address(address) && out.size() < max_gpus && is_accelerator(tree, tree.open(driver, address.c_str())))
      out.push_back(address.substr(0, address.rfind('.')));
  return out;
}

std::vector<fault::AmdReading> AmdReader::read(Duration monotonic) {
  std::vector<fault::AmdReading> out;
  for (auto& [address, gpu] : gpus_) gpu.seen = false;
  if (const auto driver = tree_.open("bus/pci/drivers/amdgpu"))
    for (const auto& address : tree_.list(driver)) {
      if (!is_pci_address(address) || (!gpus_.contains(address) && gpus_.size() >= max_gpus)) continue;
      auto& gpu = gpus_[address];
      // A driver that was loaded anew leaves us with a folder that is no more.
      if (!gpu.folder || !tree_.exists(gpu.folder, "vendor")) identify(driver, address, gpu);
      gpu.seen = static_cast<bool>(gpu.folder);
      if (!gpu.seen || !gpu.accelerator) continue;
      fault::AmdReading reading;
      reading.pci = address.substr(0, address.rfind('.'));
      reading.uuid = gpu.uuid;
      reading.model = gpu.model;
      read_gpu(gpu, monotonic, reading);
      out.push_back(std::move(reading));
    }
  for (const auto& [address, gpu] : gpus_)
    if (!gpu.seen) report_lost(address, gpu, out);
  std::ranges::sort(out, {}, &fault::AmdReading::pci);
  std::erase_if(gpus_, [](const auto& entry) { return !entry.second.seen && !entry.second.accelerator; });
  look_for_unbound();
  return out;
}

}  // namespace homeostat::io
