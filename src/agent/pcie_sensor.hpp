// PCI Express of accelerators, network cards and the bridges above them: AER counters, link width and speed.
// Component pcie-counters.
#pragma once

#include <memory>

#include "agent/sensor.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

std::unique_ptr<Sensor> make_pcie_sensor(const io::SysRoots& roots);

}  // namespace homeostat::agent
