// NVMe controllers, disks that answer no more, filesystems that turned read-only or have errors, degraded RAID.
// Component disk-counters.
#pragma once

#include <memory>

#include "agent/sensor.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

std::unique_ptr<Sensor> make_disk_sensor(const io::SysRoots& roots);

}  // namespace homeostat::agent
