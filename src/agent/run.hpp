// `homeostat-agent run`: follows the kernel log, probes the devices, reports. Ends when stop is requested or when the
// log cannot be read.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::agent {

struct RunOptions {
  std::string node_name;
  std::string kmsg_path = "/dev/kmsg";
  std::string boot_id_path = "/proc/sys/kernel/random/boot_id";
  std::string state_folder = "/var/lib/homeostat/agent";
  std::string nvml_path;  // "": the loader's libnvidia-ml.so.1
  std::string policy_name = "default";
  std::string kubeconfig;  // "": the pod's own account
  std::optional<int> expected_gpus;
};

Result<void> run(const RunOptions& options, std::stop_token stop);

}  // namespace homeostat::agent
