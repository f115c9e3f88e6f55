// The sensors of this agent, wired to what it knows of its node.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/node_state.hpp"
#include "agent/sensor.hpp"
#include "io/clock.hpp"

namespace homeostat::agent {

struct SensorPlaces {
  std::string nvml_path;          // "": the loader's libnvidia-ml.so.1
  std::string amdsmi_path;        // "": the loader's libamd_smi.so
  bool always_expected = false;   // somebody says that there are GPUs: their missing driver is a failure
  Duration driver_grace{60'000};  // how long a driver may take to start
  std::string sys = "/sys", proc = "/proc";
  std::string steps = "/run/homeostat/steps";
};

// state is shared because a sensor that hangs may outlive whoever started it.
std::vector<std::unique_ptr<Sensor>> make_sensors(const SensorPlaces& places, const std::shared_ptr<NodeState>& state);

SensorInput input_of(const Sensor& sensor, const NodeState& state, const io::Clock& clock);

}  // namespace homeostat::agent
