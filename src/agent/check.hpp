// `homeostat-agent check`: one look at everything, by the same code that `run` uses: the kernel log as it stands and
// every sensor once. Always ends within the time that it is given, also when a driver hangs.
#pragma once

#include <optional>
#include <string>

#include "agent/node_state.hpp"
#include "agent/sensor_list.hpp"
#include "agent/watcher.hpp"
#include "core/result.hpp"

namespace homeostat::agent {

struct CheckOptions {
  WatcherOptions log;
  SensorPlaces sensors;
  std::optional<int> expected_gpus;
  Duration time{15'000};
  bool json = false;
};

// What the exit code says, for scripts such as Slurm's prolog.
enum class CheckExit { healthy = 0, cannot_say = 1, degraded = 5, unhealthy = 6 };
CheckExit exit_of(fault::NodeVerdict verdict);

NodeState::View check(const CheckOptions& options);
std::string check_text(const NodeState::View& view);  // for people
std::string check_json(const NodeState::View& view);  // the status of a NodeHealth

}  // namespace homeostat::agent
