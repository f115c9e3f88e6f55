#include "io/infiniband.hpp"

#include <algorithm>
#include <charconv>

#include "io/pci_state.hpp"

namespace homeostat::io {

namespace {

constexpr size_t max_devices = 128, max_ports_each = 8;

// In the order of fault::PortCounter.
constexpr const char* counter_files[] = {
    "counters/link_downed",
    "counters/link_error_recovery",
    "counters/symbol_error",
    "counters/port_rcv_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_xmit_wait",
    "counters/port_rcv_data",
    "counters/port_xmit_data",
};
static_assert(std::size(counter_files) == fault::port_counter_count);

}  // namespace

std::optional<std::uint64_t> leading_number(std::string_view text) {
  text = trimmed(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> rate_gbps_of(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !rest.starts_with(" Gb/sec")) return std::nullopt;
  return value;
}

bool InfinibandReader::open_device(const SysFolder& all, const std::string& name, Device& device) {
  const auto folder = tree_.open(all, name.c_str());
  const auto ports = folder ? tree_.open(folder, "ports") : SysFolder();
  if (!ports) return false;
  Device fresh;
  fresh.pci = pci_address_of(tree_.link(folder, "device"));
  fresh.virtual_function = !tree_.link(folder, "device/physfn").empty();
  fresh.board = tree_.read(folder, "board_id").text;
  const auto net = tree_.open(folder, "device/net");
  const auto names = net ? tree_.list(net) : std::vector<std::string>();
  fresh.net = names.empty() ? "" : "device/net/" + names.front() + "/flags";
  for (auto& number : tree_.list(ports)) {
    if (fresh.ports.size() == max_ports_each) break;
    auto port = tree_.open(ports, number.c_str());
    if (port) fresh.ports.push_back({std::move(number), std::move(port)});
  }
  if (fresh.ports.empty()) return false;
  device = std::move(fresh);
  return true;
}

void InfinibandReader::read_port(Device& device, const SysFolder& folder, fault::PortReading& port) {
  const auto state = tree_.read(folder, "state");
  const auto number = leading_number(state.text);
  if (!state || !number || *number > 5) {
    port.trouble = trouble_of("state", state ? SysFault::garbled : state.fault);
    return;
  }
  port.state = static_cast<fault::PortState>(*number);
  const auto phys = leading_number(tree_.read(folder, "phys_state").text);
  if (phys && *phys <= 6) port.phys = static_cast<fault::PhysState>(*phys);
  port.rate_gbps = rate_gbps_of(tree_.read(folder, "rate").text);
  port.ethernet = tree_.read(folder, "link_layer").text == "Ethernet";
  device.ethernet = port.ethernet;
  for (size_t i = 0; i < fault::port_counter_count; ++i) port.counters[i] = tree_.number(folder, counter_files[i]);
}

bool InfinibandReader::read_device(const std::string& name, Device& device, std::vector<fault::PortReading>& out) {
  for (auto& known : device.ports) {
    fault::PortReading port;
    port.device = name;
    port.port = known.number;
    port.pci = device.pci;
    port.board = device.board;
    port.virtual_function = device.virtual_function;
    if (!tree_.exists(known.folder, "state")) return false;
    read_port(device, known.folder, port);
    out.push_back(std::move(port));
  }
  return true;
}

void InfinibandReader::read_listed(const SysFolder& all, const std::string& name,
                                   std::vector<fault::PortReading>& out) {
  if (!devices_.contains(name) && devices_.size() >= max_devices) return;
  auto& device = devices_[name];
  const auto before = out.size();
  // A driver that was loaded anew leaves us with folders that are no more: one more attempt opens the new ones.
  for (int attempt = 0; attempt < 2 && !device.seen; ++attempt) {
    out.resize(before);
    if ((device.ports.empty() || attempt > 0) && !open_device(all, name, device)) break;
    device.seen = read_device(name, device, out);
  }
  if (!device.seen) out.resize(before);
  if (!device.ethernet || device.net.empty() || !device.seen) return;
  const auto folder = tree_.open(all, name.c_str());
  const auto flags = tree_.number(folder, device.net.c_str());
  for (size_t i = before; i < out.size(); ++i) out[i].admin_down = flags && (*flags & 1u) == 0;
}

// True when nobody needs to look for the device any more.
bool InfinibandReader::report_lost(const std::string& name, Device& device, std::vector<fault::PortReading>& out) {
  // The same function under a new name is not lost.
  const bool renamed = !device.pci.empty() && std::ranges::any_of(devices_, [&](const auto& other) {
    return other.second.seen && other.second.pci == device.pci;
  });
  if (renamed || device.ports.empty()) return true;
  const auto pci = pci_state(tree_, device.pci);
  for (const auto& known : device.ports) {
    fault::PortReading port;
    port.device = name;
    port.port = known.number;
    port.pci = device.pci;
    port.virtual_function = device.virtual_function;
    port.ethernet = device.ethernet;
    port.listed = false;
    port.moved = pci.there && pci.bound;
    out.push_back(std::move(port));
  }
  return pci.there && pci.bound;
}

std::vector<fault::PortReading> InfinibandReader::read() {
  std::vector<fault::PortReading> out;
  for (auto& [name, device] : devices_) device.seen = false;
  if (const auto all = tree_.open("class/infiniband"))
    for (const auto& name : tree_.list(all)) read_listed(all, name, out);
  for (auto at = devices_.begin(); at != devices_.end();)
    at = !at->second.seen && report_lost(at->first, at->second, out) ? devices_.erase(at) : std::next(at);
  return out;
}

}  // namespace homeostat::io
