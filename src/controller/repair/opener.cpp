#include "controller/repair/opener.hpp"

#include "api/node_health.hpp"
#include "api/repair.hpp"
#include "controller/world/policy.hpp"
#include "controller/world/views.hpp"
#include "core/names.hpp"
#include "core/repair/plan.hpp"
#include "io/log.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

Result<std::vector<repair::OpenRepair>> read_repairs(kube::Client& client) {
  auto objects = client.list(kube::resources::repairs, "", {});
  if (!objects) return std::unexpected(objects.error());
  std::vector<repair::OpenRepair> repairs;
  for (const auto& object : objects->items) {
    repair::Record record = api::decode_repair(object);
    repairs.push_back({record.name, record.node, record.node_uid, record.pool, record.phase});
  }
  return repairs;
}

// A node that is already promoted or waits as a spare counts; nodes of other pools do not.
Result<int> count_nodes(kube::Client& client, std::string_view pool) {
  auto nodes = client.list(kube::resources::nodes, "",
                           {.label_selector = std::string(names::pool_label) + "=" + std::string(pool),
                            .field_selector = "",
                            .resource_version = ""});
  if (!nodes) return std::unexpected(nodes.error());
  return static_cast<int>(nodes->items.size());
}

repair::Record new_record(const repair::SickNode& sick, const repair::Plan& plan) {
  repair::Record record;
  record.name = plan.name;
  record.node = sick.node;
  record.node_uid = sick.node_uid;
  record.pool = sick.pool->name;
  record.workers = sick.workers;
  record.boot_id = sick.boot_id;
  record.fault = plan.fault;
  record.fault.evidence.resize(std::min<size_t>(record.fault.evidence.size(), 4096));
  return record;
}

}  // namespace

Result<kube::ReconcileResult> RepairOpener::reconcile(const kube::ObjectKey& key, std::stop_token) {
  auto session = sessions_.lend();
  kube::Client& client = session->kube();
  auto health_object = client.get(kube::resources::node_healths, "", key.name);
  if (!health_object && health_object.error().kind == ErrorKind::not_found) return kube::ReconcileResult{};
  if (!health_object) return std::unexpected(health_object.error());
  api::NodeHealth health = api::decode_node_health(*health_object);
  if (health.status.verdict != "Unhealthy") return kube::ReconcileResult{};

  auto node = client.get(kube::resources::nodes, "", key.name);
  if (!node && node.error().kind == ErrorKind::not_found) return kube::ReconcileResult{};
  if (!node) return std::unexpected(node.error());
  std::string pool = kube::label_of(*node, names::pool_label);
  auto rules = read_rules(client, pool);
  if (!rules) return std::unexpected(rules.error());
  auto repairs = read_repairs(client);
  if (!repairs) return std::unexpected(repairs.error());
  auto nodes = count_nodes(client, pool);
  if (!nodes) return std::unexpected(nodes.error());

  repair::SickNode sick{key.name,
                        kube::uid_of(*node),
                        health.status.boot_id,
                        kube::label_of(*node, names::workers_label),
                        health.status.verdict,
                        view_findings(health, rules->policy),
                        std::nullopt};
  if (rules->pool)
    sick.pool = repair::PoolFacts{pool, *nodes, rules->pool->gpus_per_node, rules->pool->healing, rules->pool->dry_run};
  repair::Plan plan = repair::plan(sick, *repairs, view_policy(rules->policy));
  if (plan.answer != repair::Answer::open) {
    bool told = plan.answer == repair::Answer::dry_run || plan.answer == repair::Answer::budget;
    if (told && events_)
      events_(kube::resources::nodes, *node, true,
              plan.answer == repair::Answer::budget ? "RepairWaits" : "RepairDryRun", plan.reason);
    io::log(told ? io::LogLevel::info : io::LogLevel::debug, "no repair is opened",
            {{"node", key.name}, {"reason", plan.reason}});
    return kube::ReconcileResult{plan.look_again};
  }
  kube::Object body = kube::new_object(kube::resources::repairs, "", plan.name);
  body["spec"] = api::encode_repair_spec(new_record(sick, plan));
  auto created = client.create(kube::resources::repairs, "", body);
  if (!created && created.error().kind != ErrorKind::already_exists) return std::unexpected(created.error());
  io::log_info("a repair is opened", {{"repair", plan.name}, {"node", key.name}, {"reason", plan.reason}});
  if (events_)
    events_(kube::resources::nodes, *node, true, "RepairOpened",
            plan.reason + " (repair " + plan.name + "). No action is needed.");
  return kube::ReconcileResult{};
}

}  // namespace homeostat::controller
