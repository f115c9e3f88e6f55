// InfiniBand and RoCE ports: state, rate, flaps, error rates, presence. Component infiniband.
#pragma once

#include <memory>

#include "agent/sensor.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

std::unique_ptr<Sensor> make_infiniband_sensor(const io::SysRoots& roots);

}  // namespace homeostat::agent
