// `homeostat-agent run`: follows the kernel log, asks the sensors, reports. Ends when stop is requested.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "agent/sensor_list.hpp"
#include "agent/watcher.hpp"
#include "core/result.hpp"

namespace homeostat::agent {

struct RunOptions {
  std::string node_name;
  WatcherOptions log{.kmsg_path = "/dev/kmsg",
                     .boot_id_path = "/proc/sys/kernel/random/boot_id",
                     .state_folder = "/var/lib/homeostat/agent"};
  SensorPlaces sensors;
  std::string policy_name = "default";
  std::string kubeconfig;  // "": the pod's own account
  std::string metrics;     // address and port; "": none
  std::string cgroups = "/sys/fs/cgroup";
  bool drill_by_kmsg = false;  // a drill on this node is written into the kernel log
  std::optional<int> expected_gpus;
};

Result<void> run(const RunOptions& options, std::stop_token stop);

}  // namespace homeostat::agent
