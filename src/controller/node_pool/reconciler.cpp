#include "controller/node_pool/reconciler.hpp"

#include <algorithm>
#include <boost/json/array.hpp>

#include "api/node_health.hpp"
#include "api/node_pool.hpp"
#include "api/repair.hpp"
#include "controller/node_pool/plan.hpp"
#include "controller/world/machine_order.hpp"
#include "controller/world/node_writes.hpp"
#include "controller/world/views.hpp"
#include "core/names.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/conditions.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

constexpr Duration look_while_changing{1'000};
constexpr Duration look_when_whole{30'000};

kube::ListOptions of_pool(const std::string& pool) {
  return {.label_selector = std::string(names::pool_label) + "=" + pool, .field_selector = "", .resource_version = ""};
}

Result<std::vector<PoolNode>> read_nodes(kube::Client& client, const api::NodePool& pool, const PlanBook& book) {
  auto objects = client.list(kube::resources::nodes, "", of_pool(pool.name));
  if (!objects) return std::unexpected(objects.error());
  auto healths = client.list(kube::resources::node_healths, "", {});
  if (!healths) return std::unexpected(healths.error());
  std::vector<PoolNode> nodes;
  for (const auto& object : objects->items) {
    repair::NodeView view = view_node(object);
    bool fit = false;
    for (const auto& health : healths->items)
      if (kube::name_of(health) == view.name)
        fit = is_fit(view, view_health(api::decode_node_health(health)), pool.gpus_per_node);
    // A node that works goes on; a spare that nobody watches is given no job.
    if (view.spare && book.unwatched(view.name)) fit = false;
    nodes.push_back(
        {view.name, view.uid, view.workers, view.machine_token, view.spare, fit, view.ready, view.unschedulable});
  }
  return nodes;
}

Result<std::vector<PoolRepair>> read_open_repairs(kube::Client& client, const std::string& pool) {
  auto objects = client.list(kube::resources::repairs, "", {});
  if (!objects) return std::unexpected(objects.error());
  std::vector<PoolRepair> repairs;
  for (const auto& object : objects->items) {
    repair::Record record = api::decode_repair(object);
    if (record.pool == pool && !repair::is_terminal(record.phase))
      repairs.push_back({record.node, record.spare_node, record.replacement.machine});
  }
  return repairs;
}

// The first worker group of any SlurmCluster that names the pool, clusters in the order of their names.
Result<std::string> read_workers(kube::Client& client, const std::string& pool) {
  auto objects = client.list(kube::resources::slurm_clusters, "", {});
  // A cluster without Slurm has no such kind; its pools are kept whole all the same.
  if (!objects && objects.error().kind == ErrorKind::not_found) return std::string();
  if (!objects) return std::unexpected(objects.error());
  std::ranges::sort(objects->items, {}, [](const kube::Object& object) { return kube::key_of(object); });
  for (const auto& object : objects->items)
    for (const auto& group : io::array_at(object, {"spec", "workers"}))
      if (io::string_at(group, {"pool"}) == pool && !kube::is_deleting(object))
        return kube::namespace_of(object) + "." + kube::name_of(object) + "." + io::string_at(group, {"name"});
  return std::string();
}

std::optional<std::vector<PoolMachine>> read_machines(Session& session, const api::NodePool& pool,
                                                      std::string& problem) {
  auto provider = session.provider(pool);
  auto machines =
      provider ? (*provider)->list() : Result<std::vector<provider::Machine>>(std::unexpected(provider.error()));
  if (!machines) {
    problem = machines.error().message;
    session.forget_provider(pool.name);
    return std::nullopt;
  }
  std::vector<PoolMachine> result;
  for (const auto& machine : *machines) {
    if (machine.pool != pool.name) continue;
    bool leaving = machine.state == provider::MachineState::deleting || machine.state == provider::MachineState::failed;
    result.push_back({machine.name, machine.token, leaving});
  }
  return result;
}

// Everything that the plan asks for; the first failure is kept and the rest still tried.
Result<void> carry_out(Session& session, const api::NodePool& pool, const PoolPlan& plan) {
  Result<void> outcome;
  auto note = [&](std::string_view what, const std::string& node, const Result<void>& result) {
    if (!result && outcome) outcome = result;
    if (result)
      io::log_info(what, {{"pool", pool.name}, {"node", node}});
    else
      io::log_warn("a pool's step failed and is tried again",
                   {{"pool", pool.name}, {"node", node}, {"error", result.error().message}});
  };
  for (const auto& task : plan.promotions)
    note("promoted", task.node, promote_node(session.kube(), task.node, task.uid, task.value, "pool"));
  for (const auto& task : plan.labels)
    note("labelled", task.node, set_workers_label(session.kube(), task.node, task.uid, task.value));
  for (const auto& task : plan.tokens)
    note("token noted", task.node, annotate_machine_token(session.kube(), task.node, task.uid, task.value));
  for (const auto& order : plan.orders) {
    auto provider = session.provider(pool);
    auto made = provider ? (*provider)->create(machine_order(pool, order.token, order.name))
                         : Result<provider::Machine>(std::unexpected(provider.error()));
    note("ordered", order.name, made ? Result<void>{} : Result<void>(std::unexpected(made.error())));
  }
  return outcome;
}

Result<bool> write_status(kube::Client& client, kube::Object object, const api::NodePool& pool, const PoolPlan& plan,
                          const std::string& problem, const std::optional<PlanBook::Breaker>& breaker, TimePoint now) {
  api::NodePoolStatus status{pool.size + pool.spares, plan.healthy, plan.spare, plan.in_repair, pool.generation};
  boost::json::array conditions = io::array_at(object, {"status", "conditions"});
  std::string message = plan.message + (problem.empty() ? "" : ": " + problem);
  bool changed = kube::set_condition(
      conditions,
      {"Ready", plan.whole ? "True" : "False", plan.whole ? "Whole" : "Incomplete", message, pool.generation}, now);
  changed |= kube::set_condition(conditions,
                                 {"Oversized", plan.too_many > 0 ? "True" : "False",
                                  plan.too_many > 0 ? "TooManyMachines" : "AsWanted", "", pool.generation},
                                 now);
  // Until every node was looked at after a start, what was written before stands. A breaker that was never open is not
  // worth a word.
  if (breaker && (breaker->open || kube::find_condition(object, "Breaker") != nullptr))
    changed |= kube::set_condition(
        conditions, {"Breaker", breaker->open ? "True" : "False", breaker->reason, breaker->message, pool.generation},
        now);
  if (!changed && api::decode_node_pool_status(object) == status) return false;
  boost::json::object body = api::encode_node_pool_status(status);
  body["conditions"] = std::move(conditions);
  object["status"] = std::move(body);
  auto written = client.replace(kube::resources::node_pools, "", pool.name, object, "status");
  if (!written) return std::unexpected(written.error());
  return true;
}

}  // namespace

Result<kube::ReconcileResult> NodePoolReconciler::reconcile(const kube::ObjectKey& key, std::stop_token) {
  auto session = sessions_.lend();
  kube::Client& client = session->kube();
  auto object = client.get(kube::resources::node_pools, "", key.name);
  if (!object && object.error().kind == ErrorKind::not_found) return kube::ReconcileResult{};
  if (!object) return std::unexpected(object.error());
  api::NodePool pool = api::decode_node_pool(*object);
  // The machines of a pool that is deleted stay: only people take machines away in this form.
  if (pool.deleting) return kube::ReconcileResult{};

  // The machines are read before the repairs and the nodes: a machine that a repair orders in between is then not seen
  // as a stray.
  std::string problem;
  PoolWorld world{pool.name, pool.uid, pool.size, pool.spares, {}, read_machines(*session, pool, problem), {}, {}};
  auto repairs = read_open_repairs(client, pool.name);
  if (!repairs) return std::unexpected(repairs.error());
  auto nodes = read_nodes(client, pool, book_);
  if (!nodes) return std::unexpected(nodes.error());
  auto workers = read_workers(client, pool.name);
  if (!workers) return std::unexpected(workers.error());
  world.repairs = std::move(*repairs);
  world.nodes = std::move(*nodes);
  world.workers = std::move(*workers);

  PoolPlan plan = plan_pool(world);
  auto done = carry_out(*session, pool, plan);
  if (!done && problem.empty()) problem = done.error().message;
  auto written = write_status(client, std::move(*object), pool, plan, problem, book_.breaker(pool.name), clock_.now());
  if (!written && written.error().kind != ErrorKind::conflict) return std::unexpected(written.error());
  return kube::ReconcileResult{plan.whole && plan.in_repair == 0 ? look_when_whole : look_while_changing};
}

}  // namespace homeostat::controller
