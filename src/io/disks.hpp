// Reads NVMe controllers, request counts of disks, mounts, error counts of ext4 and RAID arrays. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/fault/host_counters.hpp"
#include "io/sysfs.hpp"

namespace homeostat::io {

class DiskReader {
 public:
  explicit DiskReader(const SysRoots& roots) : sys_(roots.sys), proc_(roots.proc) {}

  fault::DiskReading read();
  // What is read in /sys and what in /proc.
  const std::shared_ptr<NowReading>& now_reading() const { return sys_.now_reading(); }
  const std::shared_ptr<NowReading>& now_reading_proc() const { return proc_.now_reading(); }

 private:
  struct Nvme {
    std::string pci;
    bool fabric = false, seen = false;
  };
  void read_nvme(fault::DiskReading& reading);
  void read_blocks(fault::DiskReading& reading);
  void read_mounts(fault::DiskReading& reading);
  void read_filesystems(fault::DiskReading& reading);

  SysTree sys_, proc_;
  std::map<std::string, Nvme> nvme_;
};

}  // namespace homeostat::io
