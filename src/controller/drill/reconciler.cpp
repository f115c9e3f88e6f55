#include "controller/drill/reconciler.hpp"

#include <map>
#include <optional>
#include <thread>

#include "api/repair.hpp"
#include "controller/drill/decide.hpp"
#include "controller/world/policy.hpp"
#include "controller/world/views.hpp"
#include "core/names.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

constexpr Duration after_conflict{20};
constexpr size_t token_bytes = 16;

bool is_absent(const Error& error) { return error.kind == ErrorKind::not_found; }

Result<std::optional<DrillPool>> read_pool(kube::Client& client, const std::string& name, repair::Policy& policy) {
  if (name.empty()) return std::nullopt;
  auto object = client.get(kube::resources::node_pools, "", name);
  if (!object && is_absent(object.error())) return std::nullopt;
  if (!object) return std::unexpected(object.error());
  auto rules = read_rules(client, name);
  if (!rules) return std::unexpected(rules.error());
  auto nodes = client.list(
      kube::resources::nodes, "",
      {.label_selector = std::string(names::pool_label) + "=" + name, .field_selector = "", .resource_version = ""});
  if (!nodes) return std::unexpected(nodes.error());
  policy = view_policy(rules->policy);
  const auto pool = api::decode_node_pool(*object);
  repair::PoolFacts facts;
  facts.name = name;
  facts.nodes = static_cast<int>(nodes->items.size());
  facts.gpus_per_node = pool.gpus_per_node;
  facts.healing = pool.healing;
  facts.dry_run = pool.dry_run;
  return judge_pool(std::move(facts), pool.provider.type, kube::label_of(*object, names::production_label));
}

Result<void> read_records(kube::Client& client, const api::Drill& drill, DrillWorld& world) {
  auto others = client.list(kube::resources::drills, "", {});
  if (!others) return std::unexpected(others.error());
  for (const auto& object : others->items) {
    auto other = api::decode_drill(object);
    if (other.node == drill.node && other.name != drill.name) world.others.push_back(std::move(other));
  }
  if (drill.status.phase == api::DrillPhase::armed) return {};
  auto repairs = client.list(kube::resources::repairs, "", {});
  if (!repairs) return std::unexpected(repairs.error());
  for (const auto& object : repairs->items) world.repairs.push_back(api::decode_repair(object));
  return {};
}

// What a phase does not decide on is not read.
Result<DrillWorld> read_world(kube::Client& client, const api::Drill& drill) {
  DrillWorld world;
  if (!api::is_active(drill.status.phase)) return world;
  auto health = client.get(kube::resources::node_healths, "", drill.node);
  if (health)
    world.health = api::decode_node_health(*health);
  else if (!is_absent(health.error()))
    return std::unexpected(health.error());
  if (auto read = read_records(client, drill, world); !read) return std::unexpected(read.error());
  if (drill.status.phase == api::DrillPhase::armed) return world;
  auto node = client.get(kube::resources::nodes, "", drill.node);
  if (!node && is_absent(node.error())) return world;
  if (!node) return std::unexpected(node.error());
  world.node_exists = true;
  auto pool = read_pool(client, kube::label_of(*node, names::pool_label), world.policy);
  if (!pool) return std::unexpected(pool.error());
  world.pool = std::move(*pool);
  return world;
}

std::string_view event_reason(api::DrillPhase phase) {
  switch (phase) {
    case api::DrillPhase::armed:
      return "DrillArmed";
    case api::DrillPhase::seen:
      return "DrillSeen";
    case api::DrillPhase::done:
      return "DrillDone";
    case api::DrillPhase::refused:
      return "DrillRefused";
    case api::DrillPhase::expired:
      return "DrillExpired";
    case api::DrillPhase::pending:
      break;
  }
  return "DrillOrdered";
}

void tell(const EventSink& events, kube::Client& client, const kube::Object& object, const api::Drill& drill,
          const api::DrillStatus& now) {
  const std::string text = "Drill " + drill.name + " (" + drill.fault + " on " + drill.node + "): " + now.message;
  io::log_info("drill", {{"drill", drill.name},
                         {"node", drill.node},
                         {"fault", drill.fault},
                         {"phase", std::string(api::to_string(now.phase))},
                         {"message", now.message}});
  if (!events) return;
  const bool warning = now.phase == api::DrillPhase::refused || now.phase == api::DrillPhase::expired;
  events(kube::resources::drills, object, warning, event_reason(now.phase), text);
  // Who looks at the node must learn that its trouble was ordered.
  if (now.phase != api::DrillPhase::armed && now.phase != api::DrillPhase::seen) return;
  if (const auto node = client.get(kube::resources::nodes, "", drill.node))
    events(kube::resources::nodes, *node, false, event_reason(now.phase), text);
}

}  // namespace

Result<kube::ReconcileResult> DrillReconciler::reconcile(const kube::ObjectKey& key, std::stop_token) {
  if (client_ == nullptr) client_ = clients_();
  auto object = client_->get(kube::resources::drills, "", key.name);
  if (!object && is_absent(object.error())) return kube::ReconcileResult{};
  if (!object) return std::unexpected(object.error());
  const auto drill = api::decode_drill(*object);
  if (kube::is_deleting(*object)) return kube::ReconcileResult{};
  const auto world = read_world(*client_, drill);
  if (!world) return std::unexpected(world.error());
  const auto decision = decide_drill(drill, *world, io::random_hex(random_, token_bytes), clock_.now());
  if (decision.remove) {
    auto removed = client_->remove(kube::resources::drills, "", drill.name, {.uid = drill.uid});
    if (!removed) return std::unexpected(removed.error());
    return kube::ReconcileResult{};
  }
  if (decision.next == drill.status) return kube::ReconcileResult{decision.look_again};
  (*object)["status"] = api::encode_drill_status(decision.next);
  auto written = client_->replace(kube::resources::drills, "", drill.name, *object, "status");
  if (!written) {
    if (written.error().kind == ErrorKind::conflict || written.error().kind == ErrorKind::unknown_outcome)
      return kube::ReconcileResult{after_conflict};
    return std::unexpected(written.error());
  }
  if (decision.next.phase != drill.status.phase) tell(events_, *client_, *written, drill, decision.next);
  return kube::ReconcileResult{decision.look_again};
}

void DrillOperator::run(const EventSink& events, std::stop_token stop) {
  DrillReconciler reconciler(clients_, events, clock_, random_);
  kube::Controller controller("drill", reconciler, clock_, random_);
  controller.watch(drills_);
  const std::jthread watching([this, stop] { drills_.run(stop); });
  controller.run(stop);
}

std::string DrillOperator::metrics() const {
  std::map<api::DrillPhase, int> phases;
  for (auto phase : {api::DrillPhase::pending, api::DrillPhase::armed, api::DrillPhase::seen, api::DrillPhase::done,
                     api::DrillPhase::refused, api::DrillPhase::expired})
    phases[phase] = 0;
  for (const auto& object : drills_.store().list()) ++phases[api::decode_drill(*object).status.phase];
  std::string text =
      "# HELP homeostat_drills Ordered faults by phase, of the last day.\n# TYPE homeostat_drills gauge\n";
  for (const auto& [phase, count] : phases)
    text.append("homeostat_drills{phase=\"")
        .append(api::to_string(phase))
        .append("\"} ")
        .append(std::to_string(count))
        .append("\n");
  return text;
}

}  // namespace homeostat::controller
