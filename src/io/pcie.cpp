#include "io/pcie.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace homeostat::io {

namespace {

constexpr size_t max_watched = 256;

std::optional<fault::PciKind> kind_of(std::uint64_t pci_class, std::uint64_t vendor) {
  constexpr std::uint64_t nvidia = 0x10de, amd = 0x1002;
  const auto base = pci_class >> 16, sub = pci_class >> 8;
  if (base == 0x02) return fault::PciKind::network;
  if (base == 0x12 || sub == 0x0302) return fault::PciKind::accelerator;
  const bool gpu_maker = vendor == nvidia || vendor == amd;
  // Displays of a server's management controller are of other makers. 0680: NVSwitch.
  if (gpu_maker && (base == 0x03 || (vendor == nvidia && sub == 0x0680))) return fault::PciKind::accelerator;
  return std::nullopt;
}

std::optional<std::uint64_t> lanes_of(std::optional<std::uint64_t> width) {
  // 0 and 63 or 255 are what a device without an answer, or a virtual one, shows.
  return width && *width > 0 && *width <= 32 ? width : std::nullopt;
}

std::optional<std::uint64_t> less_of(std::optional<std::uint64_t> a, std::optional<std::uint64_t> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

}  // namespace

std::optional<std::uint64_t> link_speed_of(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !rest.starts_with(" GT/s") || value <= 0 || value > 1000) return std::nullopt;
  return static_cast<std::uint64_t>(std::lround(value * 10));
}

void PcieReader::identify(const SysFolder& all, const std::string& address) {
  auto& device = devices_[address];
  device.seen = true;
  auto folder = tree_.open(all, address.c_str());
  const auto pci_class = tree_.number(folder, "class"), vendor = tree_.number(folder, "vendor");
  if (!pci_class || !vendor) return;
  const auto kind = kind_of(*pci_class, *vendor);
  // Virtual functions share the link of the real one.
  if (!kind || tree_.exists(folder, "physfn")) return;
  const auto model = tree_.read(folder, "device");
  device.watched = true;
  device.kind = *kind;
  device.model = std::to_string(*vendor);
  device.model += ':';
  device.model += model.text;
  device.folder = std::move(folder);
  const auto path = tree_.link(all, address.c_str());
  device.above = last_pci_address_in(std::string_view(path).substr(0, path.rfind('/')));
  watch_bridges(all, path);
}

// "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0": all between the root and the device.
void PcieReader::watch_bridges(const SysFolder& all, std::string_view path) {
  path = path.substr(0, path.rfind('/'));
  while (!path.empty()) {
    const auto slash = path.find('/');
    const auto part = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (!is_pci_address(part) || devices_.size() >= SysTree::max_entries) continue;
    auto& bridge = devices_[std::string(part)];
    if (bridge.watched) continue;
    bridge.watched = bridge.seen = true;
    bridge.kind = fault::PciKind::bridge;
    bridge.folder = tree_.open(all, std::string(part).c_str());
  }
}

void PcieReader::limit_to_port_above(const Device& device, fault::PciReading& reading) {
  if (device.above.empty()) return;
  const auto port = devices_.find(device.above);
  if (port == devices_.end() || !port->second.folder) return;
  const auto& folder = port->second.folder;
  reading.max_lanes = less_of(reading.max_lanes, lanes_of(tree_.number(folder, "max_link_width")));
  reading.max_speed = less_of(reading.max_speed, link_speed_of(tree_.read(folder, "max_link_speed").text));
}

void PcieReader::read_device(const std::string& address, Device& device, fault::PciReading& reading) {
  reading.address = address;
  reading.kind = device.kind;
  reading.model = device.model;
  const auto note = [&](const char* file, SysFault why) {
    if (why == SysFault::none || why == SysFault::missing || !reading.trouble.empty()) return;
    reading.trouble = "its file ";
    reading.trouble += file;
    reading.trouble += " is ";
    reading.trouble += to_string(why);
  };
  const auto aer = [&](const char* file, std::string_view without) {
    const auto text = tree_.read(device.folder, file);
    const auto total = text ? fault::aer_total(text.text, without) : std::nullopt;
    note(file, text && !total ? SysFault::garbled : text.fault);
    return total;
  };
  reading.correctable = aer("aer_dev_correctable", "");
  reading.nonfatal = aer("aer_dev_nonfatal", "UnsupReq");
  reading.fatal = aer("aer_dev_fatal", "");
  if (device.kind == fault::PciKind::bridge) return;
  SysFault why = SysFault::none;
  reading.lanes = lanes_of(tree_.number(device.folder, "current_link_width", &why));
  note("current_link_width", why);
  const auto speed = tree_.read(device.folder, "current_link_speed");
  note("current_link_speed", speed.fault);
  reading.speed = link_speed_of(speed.text);
  reading.max_lanes = lanes_of(tree_.number(device.folder, "max_link_width"));
  reading.max_speed = link_speed_of(tree_.read(device.folder, "max_link_speed").text);
  limit_to_port_above(device, reading);
}

std::vector<fault::PciReading> PcieReader::read() {
  std::vector<fault::PciReading> out;
  for (auto& [address, device] : devices_) device.seen = false;
  const auto all = tree_.open("bus/pci/devices");
  if (!all) return out;
  for (const auto& address : tree_.list(all)) {
    const auto known = devices_.find(address);
    // A function that went and came back leaves us with a folder that is no more.
    if (known != devices_.end() && (!known->second.watched || tree_.exists(known->second.folder, "vendor")))
      known->second.seen = true;
    else if (known != devices_.end() || devices_.size() < SysTree::max_entries)
      devices_.erase(address), identify(all, address);
  }
  std::erase_if(devices_, [](const auto& entry) { return !entry.second.seen; });
  for (auto& [address, device] : devices_) {
    if (!device.watched || out.size() == max_watched) continue;
    read_device(address, device, out.emplace_back());
  }
  return out;
}

}  // namespace homeostat::io
