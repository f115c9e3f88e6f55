#include "controller/repair/sight.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "api/node_health.hpp"
#include "api/repair.hpp"
#include "controller/world/views.hpp"
#include "core/names.hpp"
#include "core/slurm/states.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

repair::SlurmSight slurm_sight(Session& session, const std::string& workers, const std::string& node) {
  if (workers.empty()) return repair::SlurmSight::not_in_slurm;
  auto slurm = session.slurm(workers);
  if (!slurm) return repair::SlurmSight::unknown;
  auto found = (*slurm)->node(node);
  if (!found) return session.forget_slurm(workers), repair::SlurmSight::unknown;
  if (!*found) return repair::SlurmSight::not_in_slurm;
  // slurmctld sets a node that it has missed for SlurmdTimeout DOWN with this reason.
  bool given_up = slurm::node_is_down((*found)->states) && (*found)->reason.starts_with("Not responding");
  return given_up || !slurm::node_answers((*found)->states) ? repair::SlurmSight::silent : repair::SlurmSight::answers;
}

repair::MachineSight machine_sight(Session& session, const Rules& rules, const std::string& node) {
  if (!rules.pool) return repair::MachineSight::unknown;
  auto provider = session.provider(*rules.pool);
  if (!provider) return repair::MachineSight::unknown;
  auto machines = (*provider)->list();
  if (!machines) return session.forget_provider(rules.pool->name), repair::MachineSight::unknown;
  auto found = std::ranges::find(*machines, node, &provider::Machine::name);
  bool there = found != machines->end() && found->state != provider::MachineState::deleting;
  return there ? repair::MachineSight::there : repair::MachineSight::gone;
}

std::string agent_pod(kube::Client& client, const std::string& node) {
  auto pods = client.list(kube::resources::pods, names::system_namespace,
                          {.label_selector = "app.kubernetes.io/name=homeostat-agent",
                           .field_selector = "spec.nodeName=" + node,
                           .resource_version = ""});
  if (!pods) return "";
  if (pods->items.empty()) return "there is none on this node";
  const kube::Object& pod = pods->items.front();
  std::string text = kube::name_of(pod) + " is " + io::string_at(pod, {"status", "phase"}, "Unknown");
  for (const auto& container : io::array_at(pod, {"status", "containerStatuses"}))
    if (std::string why = io::string_at(container, {"state", "waiting", "reason"}); !why.empty()) text += ", " + why;
  return text;
}

// Whether another detector asks for the node, however long it has done so: for counting.
const repair::ConditionRule* replacing_rule(const std::vector<repair::NodeCondition>& conditions,
                                            const std::vector<repair::ConditionRule>& rules,
                                            const repair::NodeCondition*& which) {
  for (const auto& condition : conditions) {
    auto rule = std::ranges::find_if(rules, [&](const auto& candidate) { return rule_fits(candidate, condition); });
    if (rule == rules.end() || rule->repair_class != fault::RepairClass::replace_node) continue;
    which = &condition;
    return &*rule;
  }
  return nullptr;
}

}  // namespace

kube::ListOptions of_pool(std::string_view pool) {
  std::string selector(names::pool_label);
  selector.append("=").append(pool);
  return {.label_selector = std::move(selector), .field_selector = "", .resource_version = ""};
}

Result<std::vector<repair::OpenRepair>> read_repairs(kube::Client& client) {
  auto objects = client.list(kube::resources::repairs, "", {});
  if (!objects) return std::unexpected(objects.error());
  std::vector<repair::OpenRepair> repairs;
  repairs.reserve(objects->items.size());
  for (const auto& object : objects->items) {
    repair::Record record = api::decode_repair(object);
    repairs.push_back({record.name, record.node, record.node_uid, record.pool, record.phase, record.fault.component,
                       record.fault.code, record.fault.drill,
                       parse_rfc3339(io::string_at(object, {"metadata", "creationTimestamp"}))});
  }
  return repairs;
}

Result<std::vector<repair::SickPeer>> read_peers(kube::Client& client, const api::HealthPolicy& policy,
                                                 const std::string& node, const std::vector<kube::Object>& nodes,
                                                 const std::vector<repair::OpenRepair>& repairs) {
  auto healths = client.list(kube::resources::node_healths, "", {});
  if (!healths) return std::unexpected(healths.error());
  std::set<std::string> others;
  for (const auto& other : nodes) others.insert(kube::name_of(other));
  others.erase(node);
  for (const auto& repair : repairs)
    if (!repair::is_terminal(repair.phase)) others.erase(repair.node);

  std::vector<repair::SickPeer> peers;
  repair::Policy view = view_policy(policy);
  for (const auto& object : healths->items) {
    api::NodeHealth health = api::decode_node_health(object);
    if (health.status.verdict != "Unhealthy" || !others.contains(health.name)) continue;
    repair::SickNode sick;
    sick.node = health.name, sick.verdict = health.status.verdict;
    sick.findings = view_findings(health, policy), sick.incidents = view_incidents(health);
    if (const auto* finding = repair::replacing_finding(sick, view); finding != nullptr && !finding->fault.drill)
      peers.push_back({health.name, finding->fault.component, finding->fault.code, finding->fault.observed_at});
  }
  for (const auto& object : nodes) {
    if (!others.contains(kube::name_of(object))) continue;
    auto conditions = view_conditions(object);
    const repair::NodeCondition* which = nullptr;
    if (const auto* rule = replacing_rule(conditions, policy.detectors.conditions, which); rule != nullptr)
      peers.push_back({kube::name_of(object), rule->component, rule->code, which->transition_at});
  }
  return peers;
}

void read_other_signs(Session& session, const Rules& rules, const std::string& workers, repair::NodeSight& sight) {
  sight.agent_pod = agent_pod(session.kube(), sight.node);
  const auto* ready = repair::find_condition(sight.conditions, "Ready");
  if (ready == nullptr || ready->status != "Unknown" || !sight.fleet.empty() || sight.cordoned_by_others) return;
  sight.slurm = slurm_sight(session, workers, sight.node);
  if (sight.slurm != repair::SlurmSight::answers) sight.machine = machine_sight(session, rules, sight.node);
}

}  // namespace homeostat::controller
