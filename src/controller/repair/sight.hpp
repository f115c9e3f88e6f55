// Reads, live, what the opener needs beside the node itself: the repairs there are, what shows on other nodes of the
// pool, and for a silent node whoever else may know of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "controller/world/policy.hpp"
#include "controller/world/session.hpp"
#include "core/repair/detectors.hpp"
#include "core/repair/plan.hpp"

namespace homeostat::controller {

kube::ListOptions of_pool(std::string_view pool);

Result<std::vector<repair::OpenRepair>> read_repairs(kube::Client& client);

// Nodes of the pool (`nodes`) other than `node` that want a replacement and have no open repair.
Result<std::vector<repair::SickPeer>> read_peers(kube::Client& client, const api::HealthPolicy& policy,
                                                 const std::string& node, const std::vector<kube::Object>& nodes,
                                                 const std::vector<repair::OpenRepair>& repairs);

// Slurm, the provider and the agent's pod, about a node whose agent is silent. What does not answer stays unknown.
void read_other_signs(Session& session, const Rules& rules, const std::string& workers, repair::NodeSight& sight);

}  // namespace homeostat::controller
