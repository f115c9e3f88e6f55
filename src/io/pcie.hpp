// Reads the PCI Express state of accelerators, network cards and NVSwitches, and of the bridges above them, from
// /sys/bus/pci/devices. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/fault/host_counters.hpp"
#include "io/sysfs.hpp"

namespace homeostat::io {

class PcieReader {
 public:
  explicit PcieReader(const SysRoots& roots) : tree_(roots.sys) {}

  std::vector<fault::PciReading> read();
  const std::shared_ptr<NowReading>& now_reading() const { return tree_.now_reading(); }

 private:
  struct Device {
    bool watched = false, seen = false;
    fault::PciKind kind = fault::PciKind::bridge;
    std::string model, above;  // the bridge above
    SysFolder folder;
  };
  void identify(const SysFolder& all, const std::string& address);
  void watch_bridges(const SysFolder& all, std::string_view path);
  void read_device(const std::string& address, Device& device, fault::PciReading& reading);
  void limit_to_port_above(const Device& device, fault::PciReading& reading);

  SysTree tree_;
  std::map<std::string, Device> devices_;
};

// "16.0 GT/s PCIe" -> 160; nullopt for "Unknown".
std::optional<std::uint64_t> link_speed_of(std::string_view text);

}  // namespace homeostat::io
