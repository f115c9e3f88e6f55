#include "controller/straggler/gather.hpp"

#include <algorithm>
#include <array>

#include "core/names.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

constexpr size_t max_facts = 8, max_before = 400;

std::string cluster_of(std::string_view node, const kube::Store& nodes) {
  const auto object = nodes.get({"", std::string(node)});
  if (!object) return {};
  auto label = kube::label_of(*object, names::workers_label);
  return label.substr(0, label.rfind('.'));  // without the worker group
}

std::vector<fault::HardwareFact> facts_of(const api::NodeHealthStatus& status) {
  std::vector<fault::HardwareFact> facts;
  for (const auto& finding : status.findings) {
    if (facts.size() == max_facts) break;
    if (auto fact = fault::hardware_fact(finding.component, finding.code, finding.device, finding.title))
      facts.push_back(std::move(*fact));
  }
  return facts;
}

// How much a verdict weighs against another one on the same node.
int weight(const fault::NodePace& pace) {
  switch (pace.pace) {
    case fault::Pace::straggler:
      return 3;
    case fault::Pace::suspect:
      return 2;
    case fault::Pace::ok:
      return 1;
    case fault::Pace::unknown:
      return 0;
  }
  return 0;
}

// Nothing was compared, or nothing can be said yet: a node that has no condition gets none for it.
bool says_nothing(const std::string& reason) {
  constexpr std::array<std::string_view, 3> silent = {"WarmingUp", "Alone", "StepsOnly"};
  return std::ranges::find(silent, reason) != silent.end();
}

// Nobody reports any more: what was known is not forgotten, but it is no longer known to be so.
SlowCondition after(const SlowCondition& present) {
  if (present.status.empty() || present.reason == "NoReports") return present;
  SlowCondition next{"Unknown", "NoReports", "No job on this node reports its steps."};
  if (present.status == "True") next.message += " Before: " + present.message.substr(0, max_before);
  return next;
}

}  // namespace

JobReports gather_reports(std::span<const kube::ObjectPtr> healths, const kube::Store& nodes) {
  JobReports jobs;
  for (const auto& object : healths) {
    const auto health = api::decode_node_health(*object);
    if (health.status.performance.empty()) continue;
    const auto cluster = cluster_of(health.name, nodes);
    const auto facts = facts_of(health.status);
    for (const auto& told : health.status.performance) {
      const StepsKey key{cluster, told.job, told.group, told.uid};
      if (jobs.size() >= max_compared_jobs && !jobs.contains(key)) continue;
      auto& reports = jobs[key];
      if (std::ranges::any_of(reports, [&](const auto& other) { return other.node == health.name; })) continue;
      reports.push_back({health.name, told.compute_time_s, told.wait_time_s, told.step_time_s, told.step,
                         told.updated_at, told.sm_clock_mhz, told.utilisation_percent, facts});
    }
  }
  return jobs;
}

SlowCondition slow_condition(std::span<const fault::NodePace> paces, const SlowCondition& present) {
  if (paces.empty()) return after(present);
  const auto& gravest = *std::ranges::max_element(paces, {}, weight);
  switch (gravest.pace) {
    case fault::Pace::straggler:
      return {"True", gravest.reason, gravest.message};
    case fault::Pace::ok:
      return {"False", gravest.reason, gravest.message};
    case fault::Pace::suspect:
      if (gravest.reason == "OneOfTwo") return {"Unknown", gravest.reason, gravest.message};
      if (gravest.reason == "UnevenWork") return {"False", gravest.reason, gravest.message};
      // It is watched; until that has lasted nothing is said anew.
      return present.status.empty() ? SlowCondition{"False", "AsFastAsOthers", gravest.message} : present;
    case fault::Pace::unknown:
      break;
  }
  if (says_nothing(gravest.reason)) return present.status == "True" ? after(present) : present;
  return {"Unknown", gravest.reason, gravest.message};
}

}  // namespace homeostat::controller
