// EDAC memory controllers: corrected and uncorrected errors. Component memory-counters.
#pragma once

#include <memory>

#include "agent/sensor.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

std::unique_ptr<Sensor> make_memory_sensor(const io::SysRoots& roots);

}  // namespace homeostat::agent
