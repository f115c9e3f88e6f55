// Reads the physical Ethernet ports from /sys/class/net: those with a device behind them. Virtual interfaces, of which
// a Kubernetes node has hundreds, are told once and then skipped; so are the representors of virtual functions. One
// thread at a time. The view is that of the network namespace in which the root was mounted: the host's, for a host's
// /sys.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/fault/link_counters.hpp"
#include "io/sysfs.hpp"

namespace homeostat::io {

class EthernetReader {
 public:
  explicit EthernetReader(const SysRoots& roots) : tree_(roots.sys) {}

  // Every physical port there is, and every one that was there before and is not (listed: false).
  std::vector<fault::NetReading> read();
  // Every interface with a PCI device behind it and that device's address, as the last read() saw them: those of
  // InfiniBand too, no virtual functions.
  std::vector<std::pair<std::string, std::string>> names() const;
  const std::shared_ptr<NowReading>& now_reading() const { return tree_.now_reading(); }

 private:
  struct Port {
    bool physical = false, virtual_function = false, rdma = false, seen = false;
    std::string pci;
    SysFolder folder;
  };
  void identify(const SysFolder& all, const std::string& name, Port& port);
  fault::NetReading read_port(const std::string& name, Port& port);
  void read_listed(const SysFolder& all, const std::string& name, std::vector<fault::NetReading>& out);

  SysTree tree_;
  std::map<std::string, Port> ports_;
};

}  // namespace homeostat::io
