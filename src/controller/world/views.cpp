#include "controller/world/views.hpp"

#include <algorithm>

#include "core/fault/verdict.hpp"
#include "core/names.hpp"
#include "core/slurm/states.hpp"
#include "io/json.hpp"
#include "kube/conditions.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

repair::JobState job_state(const slurm::StateSet& states) {
  if (slurm::job_is_ended(states)) return repair::JobState::ended;
  // A requeued job that is still completing is PENDING with a flag; a cancelled one is completing towards its end.
  if (states.contains("PENDING")) return repair::JobState::pending;
  return slurm::job_is_active(states) ? repair::JobState::running : repair::JobState::ended;
}

// More conditions than any node has: a bound, not a choice.
constexpr size_t max_conditions = 256;

}  // namespace

repair::NodeView view_node(const kube::Object& node) {
  repair::NodeView view;
  view.name = kube::name_of(node);
  view.uid = kube::uid_of(node);
  view.ready = kube::condition_status(node, "Ready") == "True" && !kube::is_deleting(node);
  view.unschedulable = io::bool_at(node, {"spec", "unschedulable"});
  for (const auto& taint : io::array_at(node, {"spec", "taints"}))
    if (io::string_at(taint, {"key"}) == names::spare_taint) view.spare = true;
  view.workers = kube::label_of(node, names::workers_label);
  view.promoted_for = kube::annotation_of(node, names::promoted_for_annotation);
  view.cordoned_by = kube::annotation_of(node, names::cordoned_by_annotation);
  view.machine_token = kube::annotation_of(node, names::machine_token_annotation);
  view.conditions = view_conditions(node);
  return view;
}

std::vector<repair::NodeCondition> view_conditions(const kube::Object& node) {
  std::vector<repair::NodeCondition> conditions;
  for (const auto& from : io::array_at(node, {"status", "conditions"})) {
    if (conditions.size() == max_conditions) break;
    conditions.push_back({io::string_at(from, {"type"}), io::string_at(from, {"status"}),
                          io::string_at(from, {"reason"}), io::string_at(from, {"message"}).substr(0, 1024),
                          parse_rfc3339(io::string_at(from, {"lastTransitionTime"})),
                          parse_rfc3339(io::string_at(from, {"lastHeartbeatTime"}))});
  }
  return conditions;
}

repair::NodeSight view_sight(const kube::Object& node, const api::NodeHealth* health) {
  repair::NodeSight sight;
  sight.node = kube::name_of(node);
  sight.node_uid = kube::uid_of(node);
  sight.boot_id = io::string_at(node, {"status", "nodeInfo", "bootID"});
  sight.conditions = view_conditions(node);
  sight.created_at = parse_rfc3339(io::string_at(node, {"metadata", "creationTimestamp"}));
  sight.cordoned_by_others =
      io::bool_at(node, {"spec", "unschedulable"}) && kube::annotation_of(node, names::cordoned_by_annotation).empty();
  if (health == nullptr) return sight;
  // The agent's is the machine's own; a kubelet in a container may report its host's.
  if (!health->status.boot_id.empty()) sight.boot_id = health->status.boot_id;
  if (health->status.last_report != TimePoint{}) sight.last_report = health->status.last_report;
  return sight;
}

repair::HealthView view_health(const api::NodeHealth& health) {
  auto good = std::ranges::count_if(health.status.devices,
                                    [](const api::DeviceHealth& device) { return device.state == "Good"; });
  std::optional<TimePoint> reported;
  if (health.status.last_report != TimePoint{}) reported = health.status.last_report;
  return {health.status.verdict, health.status.boot_id, static_cast<int>(good), reported};
}

repair::PodView view_pod(const kube::Object& pod, std::string_view opt_out_label) {
  repair::PodView view;
  view.ns = kube::namespace_of(pod);
  view.name = kube::name_of(pod);
  view.uid = kube::uid_of(pod);
  view.worker = kube::label_of(pod, names::component_label) == "worker" && kube::has_label(pod, names::cluster_label);
  view.terminating = kube::is_deleting(pod);
  view.opted_out = kube::label_of(pod, opt_out_label) == "true";
  bool daemon = false;
  for (const auto& owner : io::array_at(pod, {"metadata", "ownerReferences"}))
    if (io::bool_at(owner, {"controller"}) && io::string_at(owner, {"kind"}) == "DaemonSet") daemon = true;
  std::string phase = io::string_at(pod, {"status", "phase"});
  bool finished = phase == "Succeeded" || phase == "Failed";
  // A pod that has ended protects nothing any more.
  if (finished) view.opted_out = false;
  bool mirror = !kube::annotation_of(pod, "kubernetes.io/config.mirror").empty();
  view.evictable = !daemon && !mirror && !finished;
  return view;
}

repair::SlurmNodeView view_slurm_node(const slurm::Node& node) {
  return {slurm::node_is_down(node.states), slurm::node_is_drain(node.states), node.reason};
}

std::vector<repair::JobView> view_jobs(const std::vector<slurm::Job>& jobs) {
  std::vector<repair::JobView> views;
  views.reserve(jobs.size());
  for (const slurm::Job& job : jobs) {
    repair::JobView view;
    view.id = static_cast<std::uint32_t>(job.id);
    view.name = job.name;
    view.user = job.user;
    view.state = job_state(job.states);
    view.completing = slurm::job_is_completing(job.states);
    view.requeueable = job.requeueable();
    view.restart_count = static_cast<std::uint32_t>(std::max(0, job.restart_count));
    view.nodes = job.nodes;
    view.begin = job.begin_time;
    view.state_text = slurm::to_string(job.states);
    view.reason = job.state_reason;
    views.push_back(std::move(view));
  }
  return views;
}

repair::MachineView view_machine(const provider::Machine& machine) {
  using State = repair::MachineView::State;
  State state = State::creating;
  switch (machine.state) {
    case provider::MachineState::creating:
      state = State::creating;
      break;
    case provider::MachineState::running:
      state = State::running;
      break;
    case provider::MachineState::deleting:
      state = State::deleting;
      break;
    case provider::MachineState::failed:
      state = State::failed;
      break;
  }
  return {machine.name, machine.token, machine.message, state};
}

repair::Policy view_policy(const api::HealthPolicy& policy) {
  repair::Policy view;
  view.grace = policy.grace;
  view.opt_out_label = policy.opt_out_label;
  view.max_concurrent = policy.max_concurrent;
  view.max_percent = policy.max_percent;
  view.drain_deadline = policy.drain_deadline;
  view.reset_fallback = policy.reset_fallback;
  view.reset_hold = policy.reset_hold;
  view.breaker = policy.breaker;
  return view;
}

std::vector<repair::Finding> view_findings(const api::NodeHealth& health, const api::HealthPolicy& policy) {
  std::vector<repair::Finding> findings;
  findings.reserve(health.status.findings.size());
  for (const api::HealthFinding& found : health.status.findings) {
    repair::Finding finding;
    finding.fault.component = found.component, finding.fault.code = found.code, finding.fault.device = found.device;
    finding.fault.severity = found.severity, finding.fault.action = found.action;
    finding.fault.evidence = found.evidence, finding.fault.observed_at = found.first_seen;
    finding.fault.drill = found.drill;
    finding.id = found.id, finding.incident = found.incident, finding.role = found.role, finding.title = found.title;
    auto severity = fault::parse_severity(found.severity).value_or(fault::Severity::none);
    auto treatment = fault::treatment(found.component, found.code, severity, found.action, policy.rules);
    auto by_catalogue = fault::treatment(found.component, found.code, severity, found.action, {});
    finding.repair_class = treatment.repair_class;
    finding.at_once = treatment.unambiguous;
    // The agent may know better than the code alone (repetitions, thresholds); a rule of this pool's policy decides
    // over both.
    auto by_agent = fault::parse_repair_class(found.repair_class);
    if (by_agent && treatment.repair_class == by_catalogue.repair_class) finding.repair_class = *by_agent;
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<repair::Incident> view_incidents(const api::NodeHealth& health) {
  std::vector<repair::Incident> incidents;
  incidents.reserve(health.status.incidents.size());
  for (const api::HealthIncident& incident : health.status.incidents)
    incidents.push_back({incident.id, incident.root, incident.state == "Gathering"});
  return incidents;
}

bool is_fit(const repair::NodeView& node, const repair::HealthView& health, int gpus_per_node) {
  return node.ready && !node.unschedulable && health.verdict == "Healthy" && !health.boot_id.empty() &&
         health.gpus >= gpus_per_node;
}

}  // namespace homeostat::controller
