// From what the nodes report to what core/fault/straggler compares, and from its verdicts to what is said of a node.
// Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/node_health.hpp"
#include "core/fault/straggler.hpp"
#include "kube/store.hpp"

namespace homeostat::controller {

// Ranks that may be compared: of one job of one Slurm cluster (two clusters count their jobs alike), that do the same
// work, reported by one user (whoever reports for somebody else's job is compared with himself only).
struct StepsKey {
  std::string cluster;  // "<namespace>.<SlurmCluster>"; "" for nodes of none
  std::string job, group;
  std::int64_t uid = -1;
  auto operator<=>(const StepsKey&) const = default;
};
using JobReports = std::map<StepsKey, std::vector<fault::NodeSpeed>>;

inline constexpr size_t max_compared_jobs = 1024;  // more are not compared

// `nodes` tells the Slurm cluster of a node by its label.
JobReports gather_reports(std::span<const kube::ObjectPtr> healths, const kube::Store& nodes);

// What the condition AcceleratorSlow is to say.
struct SlowCondition {
  std::string status;  // True, False, Unknown; "" for no condition
  std::string reason, message;
  bool operator==(const SlowCondition&) const = default;
};

// The verdicts on one node, of all its jobs, as one condition. `present`: what the node says now.
SlowCondition slow_condition(std::span<const fault::NodePace> paces, const SlowCondition& present);

}  // namespace homeostat::controller
