#include "controller/repair/opener.hpp"

#include <algorithm>
#include <set>

#include "api/node_health.hpp"
#include "api/repair.hpp"
#include "controller/repair/sight.hpp"
#include "controller/repair/slot.hpp"
#include "controller/world/views.hpp"
#include "core/names.hpp"
#include "core/repair/plan.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

// For looking only: before a Repair is made its rules are read live.
constexpr Duration rules_are_fresh{5'000};
constexpr Duration told_again_after{600'000};
constexpr size_t max_told = 4'096;
constexpr Duration slot_poll{250};

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
  record.companions = plan.companions;
  return record;
}

// "AGENT_SILENT" -> "AgentSilent", as events spell their reasons.
std::string camel_case(std::string_view code) {
  std::string text;
  bool upper = true;
  for (char c : code) {
    if (c == '_' || c == '/' || c == '-' || c == '.') {
      upper = true;
      continue;
    }
    bool letter = c >= 'A' && c <= 'Z';
    text += letter && !upper ? static_cast<char>(c - 'A' + 'a') : c;
    upper = false;
  }
  return text;
}

std::string_view event_reason(repair::Answer answer) {
  switch (answer) {
    case repair::Answer::budget:
      return "RepairWaits";
    case repair::Answer::breaker:
      return "RepairHeldByBreaker";
    case repair::Answer::dry_run:
      return "RepairDryRun";
    case repair::Answer::advice:
      return "FaultShown";
    default:
      return "";
  }
}

std::optional<Duration> sooner(std::optional<Duration> a, std::optional<Duration> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

bool names_repair(const std::vector<repair::OpenRepair>& repairs, const std::string& name) {
  return std::ranges::find(repairs, name, &repair::OpenRepair::name) != repairs.end();
}

}  // namespace

struct RepairOpener::Look {
  Session& session;
  kube::Object node;
  api::NodeHealth health;  // empty when it has none
  std::string pool;
  Rules rules;
  repair::NodeSight sight;
  repair::SickNode sick;
  std::vector<repair::Finding> detected;
  std::optional<Duration> look_again;
};

Result<kube::ReconcileResult> RepairOpener::reconcile(const kube::ObjectKey& key, std::stop_token) {
  auto session = sessions_.lend();
  kube::Client& client = session->kube();
  auto node = client.get(kube::resources::nodes, "", key.name);
  if (!node && node.error().kind == ErrorKind::not_found) return forget(key.name), kube::ReconcileResult{};
  if (!node) return std::unexpected(node.error());
  auto health = client.get(kube::resources::node_healths, "", key.name);
  if (!health && health.error().kind != ErrorKind::not_found) return std::unexpected(health.error());
  fleet_.see_node(*node);
  if (health) (void)fleet_.see_health(*health);

  Look look{*session, std::move(*node), {}, {}, {}, {}, {}, {}, {}};
  if (health) look.health = api::decode_node_health(*health);
  look.pool = kube::label_of(look.node, names::pool_label);
  auto rules = rules_of(client, look.pool);
  if (!rules) return std::unexpected(rules.error());
  look.rules = std::move(*rules);
  look.sight = view_sight(look.node, health ? &look.health : nullptr);
  return look_at(look);
}

void RepairOpener::rules_changed() {
  std::lock_guard lock(mutex_);
  rules_.clear();
  ++rules_age_;
}

Result<Rules> RepairOpener::rules_of(kube::Client& client, const std::string& pool) {
  std::uint64_t age = 0;
  {
    std::lock_guard lock(mutex_);
    age = rules_age_;
    auto known = rules_.find(pool);
    if (known != rules_.end() && clock_.monotonic() - known->second.read_at < rules_are_fresh)
      return known->second.rules;
  }
  auto rules = read_rules(client, pool);
  if (!rules) return rules;
  std::lock_guard lock(mutex_);
  if (age != rules_age_) return rules;
  if (rules_.size() >= 1024) rules_.clear();
  rules_[pool] = {*rules, clock_.monotonic()};
  return rules;
}

void RepairOpener::detect(Look& look) {
  // Nodes of no pool are nobody's that heals them: what is said of them is not ours to read.
  if (look.pool.empty()) return;
  const repair::DetectorPolicy& policy = look.rules.policy.detectors;
  look.sight.agent_silent_for = fleet_.silent_for(look.sight.node);
  if (repair::agent_is_silent(look.sight, policy)) {
    look.sight.fleet = fleet_.silence_of_many(look.sight.node);
    read_other_signs(look.session, look.rules, look.sick.workers, look.sight);
  }
  std::lock_guard lock(mutex_);
  auto detection = repair::detect(look.sight, policy, continuity_, clock_.now(), clock_.monotonic());
  look.detected = std::move(detection.findings);
  look.look_again = detection.look_again;
}

// How long a GPU has wanted its reset, by our own clock.
void RepairOpener::hold_resets(Look& look) {
  std::lock_guard lock(mutex_);
  for (repair::Finding& finding : look.sick.findings) {
    if (finding.repair_class != fault::RepairClass::reset || !finding.fault.source.empty()) continue;
    std::string first_seen = finding.fault.observed_at ? format_rfc3339(*finding.fault.observed_at) : "";
    finding.held =
        continuity_.held(look.sick.node + "/reset/" + finding.id, look.sick.boot_id + first_seen, clock_.monotonic());
  }
}

Result<kube::ReconcileResult> RepairOpener::look_at(Look& look) {
  repair::SickNode& sick = look.sick;
  sick.node = look.sight.node, sick.node_uid = look.sight.node_uid, sick.boot_id = look.sight.boot_id;
  sick.workers = kube::label_of(look.node, names::workers_label);
  sick.verdict = look.health.status.verdict;
  sick.findings = view_findings(look.health, look.rules.policy);
  sick.incidents = view_incidents(look.health);
  detect(look);
  for (const repair::Finding& finding : look.detected) sick.findings.push_back(finding);
  hold_resets(look);
  auto plan = decide(look);
  if (!plan) return std::unexpected(plan.error());
  tell_detected(look);
  return settle(look, *plan);
}

// Cheap as long as nothing asks for a replacement.
Result<repair::Plan> RepairOpener::decide(Look& look) {
  kube::Client& client = look.session.kube();
  repair::SickNode& sick = look.sick;
  repair::Policy policy = view_policy(look.rules.policy);
  if (repair::replacing_finding(sick, policy) == nullptr) return repair::plan(sick, {}, policy, clock_.now());

  auto rules = read_rules(client, look.pool);
  if (!rules) return std::unexpected(rules.error());
  look.rules = std::move(*rules);
  policy = view_policy(look.rules.policy);
  Slot slot;
  if (look.rules.pool) {
    auto read = read_slot(client, look.pool);
    if (!read) return std::unexpected(read.error());
    slot = std::move(*read);
  }
  auto repairs = read_repairs(client);
  if (!repairs) return std::unexpected(repairs.error());
  auto nodes = client.list(kube::resources::nodes, "", of_pool(look.pool));
  if (!nodes) return std::unexpected(nodes.error());
  if (look.rules.pool)
    sick.pool = repair::PoolFacts{look.pool, static_cast<int>(nodes->items.size()), look.rules.pool->gpus_per_node,
                                  look.rules.pool->healing, look.rules.pool->dry_run};
  repair::Plan plan = repair::plan(sick, *repairs, policy, clock_.now());
  if (plan.answer != repair::Answer::open) return plan;

  auto peers = read_peers(client, look.rules.policy, sick.node, nodes->items, *repairs);
  if (!peers) return std::unexpected(peers.error());
  plan = repair::plan(sick, *repairs, policy, clock_.now(), *peers);
  if (plan.answer != repair::Answer::open) return plan;
  if (slot_is_taken(slot, plan.name, names_repair(*repairs, slot.claimed_by), clock_.now())) {
    plan.answer = repair::Answer::budget;
    plan.reason = "repair " + slot.claimed_by + " of this pool is just being opened: this one comes after it";
    plan.look_again = slot_poll;
    return plan;
  }
  if (auto taken = take_slot(client, slot, plan.name, clock_.now()); !taken) return std::unexpected(taken.error());
  kube::Object body = kube::new_object(kube::resources::repairs, "", plan.name);
  body["spec"] = api::encode_repair_spec(new_record(sick, plan));
  auto created = client.create(kube::resources::repairs, "", body);
  if (!created && created.error().kind != ErrorKind::already_exists) return std::unexpected(created.error());
  return plan;
}

Result<kube::ReconcileResult> RepairOpener::settle(Look& look, const repair::Plan& plan) {
  book_.note(look.sick.node, {look.pool, plan.answer, plan.reason, look.sight.fleet, look.detected});
  if (plan.answer == repair::Answer::open) {
    io::log_info("a repair is opened", {{"repair", plan.name}, {"node", look.sick.node}, {"reason", plan.reason}});
    if (events_)
      events_(kube::resources::nodes, look.node, true, "RepairOpened",
              plan.reason + " (repair " + plan.name + "). No action is needed.");
    return kube::ReconcileResult{look.look_again};
  }
  std::string_view reason = event_reason(plan.answer);
  bool by_detector =
      std::ranges::any_of(look.detected, [&](const repair::Finding& finding) { return finding.title == plan.reason; });
  io::log(reason.empty() || by_detector ? io::LogLevel::debug : io::LogLevel::info, "no repair is opened",
          {{"node", look.sick.node}, {"answer", std::string(repair::to_string(plan.answer))}, {"reason", plan.reason}});
  if (!reason.empty() && !by_detector) tell(kube::resources::nodes, look.node, true, reason, plan.reason);
  return kube::ReconcileResult{sooner(plan.look_again, look.look_again)};
}

// What detectors see and nobody acts on is told by its own name; the silence of many once, of their pool.
void RepairOpener::tell_detected(const Look& look) {
  const bool many = !look.sight.fleet.empty();
  if (many && look.rules.pool) {
    kube::Object pool = kube::new_object(kube::resources::node_pools, "", look.pool);
    io::set_at(pool, {"metadata", "uid"}, boost::json::value(look.rules.pool->uid));
    tell(kube::resources::node_pools, pool, true, "ManyNodesSilent", look.sight.fleet);
  }
  for (const repair::Finding& finding : look.detected) {
    if (many && finding.fault.source == repair::silence_source) continue;
    if (finding.repair_class != fault::RepairClass::watch || finding.held < finding.wanted) continue;
    bool warning = finding.fault.severity == "fatal" || finding.fault.severity == "error";
    tell(kube::resources::nodes, look.node, warning, camel_case(finding.fault.code), finding.title);
  }
}

void RepairOpener::tell(const kube::Resource& resource, const kube::Object& about, bool warning,
                        std::string_view reason, const std::string& message) {
  if (!events_) return;
  {
    std::lock_guard lock(mutex_);
    if (told_.size() >= max_told) told_.clear();
    Told& last = told_[resource.plural + "/" + kube::name_of(about) + "/" + std::string(reason)];
    if (last.message == message && clock_.monotonic() - last.at < told_again_after) return;
    last = {message, clock_.monotonic()};
  }
  events_(resource, about, warning, reason, message);
}

void RepairOpener::forget(const std::string& node) {
  fleet_.forget_node(node);
  book_.forget(node);
  std::lock_guard lock(mutex_);
  continuity_.forget(node + "/");
}

}  // namespace homeostat::controller
