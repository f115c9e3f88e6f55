// The status of a SlurmCluster from what its objects report. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/slurm_cluster.hpp"
#include "core/time.hpp"
#include "kube/client.hpp"

namespace homeostat::controller {

// Each missing part is nullopt: it was not there, or could not be read.
struct SlurmClusterParts {
  std::optional<kube::Object> controller, rest, login, login_service;
  std::vector<kube::Object> workers;  // DaemonSets
};

// What keeps the cluster from being Ready, as a sentence; "" when nothing does.
std::string not_ready_because(const api::SlurmCluster& cluster, const SlurmClusterParts& parts);

// The new status. `before` is the whole object as read: conditions keep their times. problem: why reconciling failed,
// "" when it did not.
kube::Object slurm_cluster_status(const api::SlurmCluster& cluster, const kube::Object& before,
                                  const SlurmClusterParts& parts, const std::string& problem, TimePoint now);

}  // namespace homeostat::controller
