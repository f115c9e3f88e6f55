#include "controller/repair/act.hpp"

#include "controller/world/machine_order.hpp"
#include "controller/world/node_writes.hpp"
#include "core/names.hpp"

namespace homeostat::controller {

namespace {

using namespace repair;

struct Actor {
  Session& session;
  Notifications& notifications;
  const Record& record;
  const RepairContext& context;
  const std::vector<api::WebhookTarget>& targets;

  Result<slurm::Client*> slurm() { return session.slurm(record.workers); }

  Result<void> order(const std::string& node, slurm::NodeOrder what, const std::string& reason) {
    auto client = slurm();
    if (!client) return std::unexpected(client.error());
    return (*client)->set_node_state(node, what, reason);
  }

  Result<provider::Provider*> provider() {
    if (!context.pool)
      return fail(ErrorKind::not_found, "NodePool " + record.pool + " is gone: make it again or delete this Repair");
    return session.provider(*context.pool);
  }

  Result<void> operator()(const Notify&) { return notifications.send(record, targets), Result<void>{}; }
  Result<void> operator()(const SlurmDrain& effect) {
    return order(effect.node, slurm::NodeOrder::drain, effect.reason);
  }
  Result<void> operator()(const SlurmDown& effect) { return order(effect.node, slurm::NodeOrder::down, effect.reason); }

  Result<void> operator()(const SlurmUndrain& effect) {
    auto client = slurm();
    if (!client) return std::unexpected(client.error());
    auto node = (*client)->node(effect.node);
    if (!node) return std::unexpected(node.error());
    // A drain that someone else has set since then stays.
    if (!*node || !(*node)->reason.starts_with(effect.reason)) return {};
    return (*client)->set_node_state(effect.node, slurm::NodeOrder::undrain, effect.reason);
  }

  Result<void> operator()(const TellJobOwner& effect) {
    auto client = slurm();
    if (!client) return std::unexpected(client.error());
    return (*client)->set_job_admin_comment(effect.job, effect.text);
  }

  Result<void> operator()(const MakeJobEligible& effect) {
    auto client = slurm();
    if (!client) return std::unexpected(client.error());
    return (*client)->make_job_eligible_now(effect.job);
  }

  Result<void> operator()(const RemoveWorkersLabel& effect) {
    return remove_workers_label(session.kube(), effect.node, effect.uid);
  }
  Result<void> operator()(const Cordon& effect) {
    return cordon_node(session.kube(), effect.node, effect.uid, record.name);
  }

  // One that is refused does not keep the others; the last refusal is told.
  Result<void> operator()(const EvictPods& effect) {
    Result<void> outcome;
    for (const PodView& pod : effect.pods) {
      auto evicted = session.kube().evict(pod.ns, pod.name, pod.uid);
      if (!evicted) outcome = fail(evicted.error().kind, pod.ns + "/" + pod.name + ": " + evicted.error().message);
    }
    return outcome;
  }

  Result<void> operator()(const PromoteSpare& effect) {
    return promote_node(session.kube(), effect.node, effect.uid, effect.workers, record.name);
  }

  Result<void> operator()(const DeleteMachine& effect) {
    auto machines = provider();
    if (!machines) return std::unexpected(machines.error());
    return (*machines)->remove(effect.machine);
  }

  Result<void> operator()(const OrderMachine& effect) {
    auto machines = provider();
    if (!machines) return std::unexpected(machines.error());
    auto made = (*machines)->create(machine_order(*context.pool, effect.token, effect.machine));
    if (!made) return std::unexpected(made.error());
    return {};
  }

  Result<void> operator()(const DeleteNodeObject& effect) {
    kube::DeleteOptions options;
    options.uid = effect.uid;
    return session.kube().remove(kube::resources::nodes, "", effect.node, options);
  }

  Result<void> operator()(const DeleteSlurmNode& effect) {
    auto client = slurm();
    if (!client) return std::unexpected(client.error());
    return (*client)->delete_node(effect.node);
  }
};

}  // namespace

Result<void> act(Session& session, Notifications& notifications, const repair::Effect& effect,
                 const repair::Record& record, const RepairContext& context,
                 const std::vector<api::WebhookTarget>& targets) {
  return std::visit(Actor{session, notifications, record, context, targets}, effect);
}

}  // namespace homeostat::controller
