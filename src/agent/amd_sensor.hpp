// AMD GPUs: RAS counters, metrics, bad pages, links and presence, from sysfs. Component amd-counters.
#pragma once

#include <memory>

#include "agent/sensor.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

std::unique_ptr<Sensor> make_amd_sensor(const io::SysRoots& roots);

}  // namespace homeostat::agent
