#include "io/ethernet.hpp"

#include "io/pci_state.hpp"

namespace homeostat::io {

namespace {

constexpr size_t max_known = SysTree::max_entries;
constexpr std::uint64_t ethernet_type = 1;  // ARPHRD_ETHER
constexpr std::uint64_t highest_mbps = 10'000'000;

// "pf0vf3", "c1pf0sf88": the switch side of a virtual function, down while that is unused.
bool is_representor(std::string_view port_name) {
  return port_name.find("pf") != std::string_view::npos &&
         (port_name.find("vf") != std::string_view::npos || port_name.find("sf") != std::string_view::npos);
}

}  // namespace

void EthernetReader::identify(const SysFolder& all, const std::string& name, Port& port) {
  Port fresh;
  fresh.folder = tree_.open(all, name.c_str());
  if (fresh.folder && tree_.exists(fresh.folder, "device")) {
    fresh.physical = tree_.number(fresh.folder, "type") == ethernet_type &&
                     !is_representor(tree_.read(fresh.folder, "phys_port_name").text);
    fresh.pci = last_pci_address_in(tree_.link(all, name.c_str()));
    fresh.virtual_function = !tree_.link(fresh.folder, "device/physfn").empty();
    fresh.rdma = tree_.exists(fresh.folder, "device/infiniband");
  }
  if (!fresh.physical) fresh.folder = SysFolder();
  port = std::move(fresh);
}

fault::NetReading EthernetReader::read_port(const std::string& name, Port& port) {
  fault::NetReading reading;
  reading.name = name;
  reading.pci = port.pci;
  reading.virtual_function = port.virtual_function;
  reading.rdma = port.rdma;
  SysFault why = SysFault::none;
  const auto flags = tree_.number(port.folder, "flags", &why);
  if (!flags) {
    reading.trouble = trouble_of("flags", why);
    return reading;
  }
  reading.admin_up = (*flags & 1u) != 0;
  // The kernel refuses to tell the carrier of an interface that is taken down.
  const auto carrier = tree_.number(port.folder, "carrier", &why);
  if (carrier) reading.carrier = *carrier != 0;
  if (!carrier && reading.admin_up) reading.trouble = trouble_of("carrier", why);
  reading.carrier_downs = tree_.number(port.folder, "carrier_down_count");
  const auto speed = tree_.number(port.folder, "speed");
  if (speed && *speed > 0 && *speed <= highest_mbps) reading.speed_mbps = speed;
  reading.half_duplex = tree_.read(port.folder, "duplex").text == "half";
  reading.receive_errors = tree_.number(port.folder, "statistics/rx_errors");
  const auto master = tree_.exists(port.folder, "bonding_slave") ? tree_.link(port.folder, "master") : std::string();
  reading.bond = master.substr(master.rfind('/') + 1);
  reading.receive_bytes = tree_.number(port.folder, "statistics/rx_bytes");
  reading.transmit_bytes = tree_.number(port.folder, "statistics/tx_bytes");
  return reading;
}

void EthernetReader::read_listed(const SysFolder& all, const std::string& name, std::vector<fault::NetReading>& out) {
  auto known = ports_.find(name);
  if (known == ports_.end()) {
    if (ports_.size() >= max_known) return;
    known = ports_.emplace(name, Port()).first;
    identify(all, name, known->second);
  }
  auto& port = known->second;
  // A driver that was loaded anew leaves us with a folder that is no more.
  if (port.physical && !tree_.exists(port.folder, "flags")) identify(all, name, port);
  port.seen = true;
  if (!port.physical) return;
  out.push_back(read_port(name, port));
}

std::vector<std::pair<std::string, std::string>> EthernetReader::names() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, port] : ports_)
    if (!port.pci.empty() && !port.virtual_function) out.emplace_back(name, port.pci);
  return out;
}

std::vector<fault::NetReading> EthernetReader::read() {
  std::vector<fault::NetReading> out;
  for (auto& [name, port] : ports_) port.seen = false;
  if (const auto all = tree_.open("class/net"))
    for (const auto& name : tree_.list(all)) read_listed(all, name, out);
  for (auto at = ports_.begin(); at != ports_.end();) {
    auto& [name, port] = *at;
    if (port.seen) {
      ++at;
      continue;
    }
    bool forget = !port.physical;
    if (port.physical) {
      fault::NetReading reading;
      reading.name = name;
      reading.pci = port.pci;
      reading.virtual_function = port.virtual_function;
      reading.rdma = port.rdma;
      reading.listed = false;
      const auto pci = pci_state(tree_, port.pci);
      reading.moved = forget = pci.there && pci.bound;
      out.push_back(std::move(reading));
    }
    at = forget ? ports_.erase(at) : std::next(at);
  }
  return out;
}

}  // namespace homeostat::io
