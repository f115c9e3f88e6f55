// Reads the ports of all RDMA devices from /sys/class/infiniband. About ten small files a port: each counter of these
// devices costs a command to their firmware, so only those that somebody judges are read. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/fault/link_counters.hpp"
#include "io/sysfs.hpp"

namespace homeostat::io {

class InfinibandReader {
 public:
  explicit InfinibandReader(const SysRoots& roots) : tree_(roots.sys) {}

  // Every port there is, and every device that was there before and is not (listed: false).
  std::vector<fault::PortReading> read();
  const std::shared_ptr<NowReading>& now_reading() const { return tree_.now_reading(); }

 private:
  struct Port {
    std::string number;
    SysFolder folder;
  };
  struct Device {
    std::string pci, net, board;
    bool virtual_function = false, ethernet = false;
    std::vector<Port> ports;
    bool seen = false;
  };
  bool open_device(const SysFolder& all, const std::string& name, Device& device);
  bool read_device(const std::string& name, Device& device, std::vector<fault::PortReading>& out);
  void read_port(Device& device, const SysFolder& folder, fault::PortReading& port);
  void read_listed(const SysFolder& all, const std::string& name, std::vector<fault::PortReading>& out);
  bool report_lost(const std::string& name, Device& device, std::vector<fault::PortReading>& out);

  SysTree tree_;
  std::map<std::string, Device> devices_;
};

// "4: ACTIVE" -> 4; "400 Gb/sec (4X NDR)" -> 400. For tests.
std::optional<std::uint64_t> leading_number(std::string_view text);
std::optional<double> rate_gbps_of(std::string_view text);

}  // namespace homeostat::io
