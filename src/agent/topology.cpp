#include "agent/topology.hpp"

#include <dirent.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string_view>

#include "io/files.hpp"

namespace homeostat::agent {

namespace {

constexpr int max_devices = 4096;
constexpr size_t max_depth = 16;

// "0000:17:00.0"
bool is_address(std::string_view text) {
  if (text.size() != 12 || text[4] != ':' || text[7] != ':' || text[10] != '.') return false;
  return text.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

// Display controllers, processing accelerators and network controllers. Source: the PCI code and ID assignment.
bool is_watched(const std::string& device_class) {
  return device_class.starts_with("0x03") || device_class.starts_with("0x12") || device_class.starts_with("0x02");
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// "../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0": the ports, nearest last, then the device.
void add_ports(fault::Topology& topology, std::string_view link, std::string_view device) {
  const std::string key(device.substr(0, device.find('.')));
  for (size_t depth = 0; depth < max_depth && !link.empty(); ++depth) {
    const auto slash = link.rfind('/');
    const auto name = slash == std::string_view::npos ? link : link.substr(slash + 1);
    if (is_address(name) && name != device) topology.above.emplace_back(key, name);
    link = slash == std::string_view::npos ? std::string_view{} : link.substr(0, slash);
  }
}

}  // namespace

fault::Topology read_topology(const std::string& sys) {
  fault::Topology topology;
  const auto root = sys + "/bus/pci/devices";
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(root.c_str()));
  if (!folder) return topology;
  for (int i = 0; i < max_devices; ++i) {
    const auto* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::string device = entry->d_name;
    if (!is_address(device)) continue;
    const auto path = std::string(root).append("/").append(device);
    const auto device_class = io::read_head(path + "/class", 16);
    if (!device_class || !is_watched(*device_class)) continue;
    std::array<char, 1024> link{};
    const ssize_t size = ::readlink(path.c_str(), link.data(), link.size());
    if (size > 0) add_ports(topology, {link.data(), static_cast<size_t>(size)}, device);
  }
  return topology;
}

}  // namespace homeostat::agent
