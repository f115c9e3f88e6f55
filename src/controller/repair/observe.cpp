#include "controller/repair/observe.hpp"

#include <algorithm>
#include <set>

#include "api/node_health.hpp"
#include "api/repair.hpp"
#include "controller/world/views.hpp"
#include "core/names.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

using repair::Fact;

template <class T, class View>
Fact<T> to_fact(const Result<kube::Object>& read, View view) {
  if (read) return Fact<T>::present(view(*read));
  return read.error().kind == ErrorKind::not_found ? Fact<T>::absent() : Fact<T>{};
}

Fact<repair::NodeView> read_node(Session& session, std::string_view name) {
  return to_fact<repair::NodeView>(session.kube().get(kube::resources::nodes, "", name), view_node);
}

Fact<repair::HealthView> read_health(Session& session, std::string_view node) {
  return to_fact<repair::HealthView>(
      session.kube().get(kube::resources::node_healths, "", node),
      [](const kube::Object& object) { return view_health(api::decode_node_health(object)); });
}

// After these the Secrets or the Service may be new ones: connect anew next time.
bool may_need_new_connection(const Error& error) {
  return error.kind == ErrorKind::unauthorized || error.kind == ErrorKind::unreachable ||
         error.kind == ErrorKind::invalid || error.kind == ErrorKind::not_found;
}

void read_slurm(Session& session, const repair::Record& record, repair::Observed& seen) {
  if (record.workers.empty()) return;
  auto slurm = session.slurm(record.workers);
  if (!slurm)
    return io::log_warn("Slurm cannot be reached", {{"repair", record.name}, {"error", slurm.error().message}});
  auto node = (*slurm)->node(record.node);
  auto jobs = node ? (*slurm)->jobs() : Result<std::vector<slurm::Job>>(std::unexpected(node.error()));
  if (node)
    seen.slurm =
        *node ? Fact<repair::SlurmNodeView>::present(view_slurm_node(**node)) : Fact<repair::SlurmNodeView>::absent();
  if (jobs) {
    seen.jobs = Fact<std::vector<repair::JobView>>::present(view_jobs(*jobs));
    return;
  }
  io::log_warn("Slurm does not answer", {{"repair", record.name}, {"error", jobs.error().message}});
  if (may_need_new_connection(jobs.error())) session.forget_slurm(record.workers);
}

Fact<std::vector<repair::PodView>> read_pods(Session& session, const repair::Record& record,
                                             const RepairContext& context) {
  auto pods = session.kube().list(
      kube::resources::pods, "",
      {.label_selector = "", .field_selector = "spec.nodeName=" + record.node, .resource_version = ""});
  if (!pods) return {};
  std::vector<repair::PodView> views;
  for (const auto& pod : pods->items) views.push_back(view_pod(pod, context.policy.opt_out_label));
  return Fact<std::vector<repair::PodView>>::present(std::move(views));
}

// Spares that another open repair has claimed are not free.
Result<std::set<std::string>> claimed_spares(Session& session, const repair::Record& record) {
  auto repairs = session.kube().list(kube::resources::repairs, "", {});
  if (!repairs) return std::unexpected(repairs.error());
  std::set<std::string> claimed;
  for (const auto& object : repairs->items) {
    repair::Record other = api::decode_repair(object);
    if (other.name == record.name || repair::is_terminal(other.phase)) continue;
    claimed.insert(other.spare_node);
    claimed.insert(other.node);
  }
  return claimed;
}

Fact<std::vector<repair::NodeView>> read_spares(Session& session, const repair::Record& record,
                                                const RepairContext& context) {
  auto claimed = claimed_spares(session, record);
  auto nodes = session.kube().list(kube::resources::nodes, "",
                                   {.label_selector = std::string(names::pool_label) + "=" + record.pool,
                                    .field_selector = "",
                                    .resource_version = ""});
  if (!claimed || !nodes) return {};
  std::vector<repair::NodeView> spares;
  for (const auto& object : nodes->items) {
    repair::NodeView node = view_node(object);
    if (!node.spare || node.name == record.node || claimed->contains(node.name)) continue;
    if (context.book != nullptr && context.book->unwatched(node.name)) continue;
    auto health = read_health(session, node.name);
    if (health.is_present() && is_fit(node, health.value, context.pool ? context.pool->gpus_per_node : 0))
      spares.push_back(std::move(node));
  }
  return Fact<std::vector<repair::NodeView>>::present(std::move(spares));
}

Fact<std::vector<repair::MachineView>> read_machines(Session& session, const RepairContext& context) {
  if (!context.pool) return {};
  auto provider = session.provider(*context.pool);
  if (!provider) {
    io::log_warn("the provider cannot be reached", {{"pool", context.pool->name}, {"error", provider.error().message}});
    return {};
  }
  auto machines = (*provider)->list();
  if (!machines) {
    io::log_warn("the provider does not answer", {{"pool", context.pool->name}, {"error", machines.error().message}});
    if (may_need_new_connection(machines.error())) session.forget_provider(context.pool->name);
    return {};
  }
  std::vector<repair::MachineView> views;
  for (const auto& machine : *machines) views.push_back(view_machine(machine));
  return Fact<std::vector<repair::MachineView>>::present(std::move(views));
}

}  // namespace

repair::Observed observe(Session& session, const repair::Record& record, const RepairContext& context) {
  repair::Needs needs = repair::needs(record);
  repair::Observed seen;
  if (needs.node) seen.node = read_node(session, record.node);
  if (needs.health) seen.health = read_health(session, record.node);
  if (needs.slurm) read_slurm(session, record, seen);
  if (needs.pods) seen.pods = read_pods(session, record, context);
  bool promoted = !record.spare_node.empty() && repair::finished(record, "promote_spare/" + record.spare_node);
  if (needs.spares && record.spare_node.empty() && record.phase != repair::Phase::verifying)
    seen.spares = read_spares(session, record, context);
  if (needs.spares && !record.spare_node.empty() && !promoted) seen.spare = read_node(session, record.spare_node);
  if (needs.machines) seen.machines = read_machines(session, context);
  if (needs.replacement) {
    seen.replacement = read_node(session, record.replacement.machine);
    seen.replacement_health = read_health(session, record.replacement.machine);
  }
  return seen;
}

}  // namespace homeostat::controller
