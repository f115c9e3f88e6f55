// Physical Ethernet ports: carrier, flaps, speed, errors, presence. Component ethernet.
#pragma once

#include <memory>

#include "agent/sensor.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

std::unique_ptr<Sensor> make_ethernet_sensor(const io::SysRoots& roots);

}  // namespace homeostat::agent
