#include "core/repair/plan.hpp"

#include <algorithm>
#include <set>

namespace homeostat::repair {

namespace {

using fault::RepairClass;

// Rounded up, so that a pool of three with 30 % may repair one; at least one.
int share_of(int nodes, int percent) { return std::max(1, (nodes * percent + 99) / 100); }
int allowed_at_once(int nodes, const Policy& policy) {
  return std::min(policy.max_concurrent, share_of(nodes, policy.max_percent));
}

std::string on_device(const Fault& fault) {
  return spoken(fault) + (fault.device.empty() ? std::string() : " on " + fault.device);
}

bool by_agent(const Finding& finding) { return finding.fault.source.empty(); }

// Findings that one fault has made, the root first. A finding of no incident is one by itself.
struct Cause {
  const Finding* root = nullptr;
  std::vector<const Finding*> others = {};
  bool gathering = false;

  // 0: leave it. 1: after the hold (a reset that nobody can make). 2: replace.
  int weight(const Policy& policy) const {
    int most = weight_of(*root, policy);
    for (const Finding* other : others)
      if (other->role == "companion") most = std::max(most, weight_of(*other, policy));
    return most;
  }
  static int weight_of(const Finding& finding, const Policy& policy) {
    if (finding.repair_class == RepairClass::replace_node) return 2;
    bool stands_in = policy.reset_fallback == RepairClass::replace_node;
    return finding.repair_class == RepairClass::reset && stands_in ? 1 : 0;
  }
  bool at_once() const {
    return root->at_once || std::ranges::any_of(others, [](const Finding* other) {
             return other->role == "companion" && other->at_once && other->repair_class == RepairClass::replace_node;
           });
  }
};

const Incident* incident_of(const SickNode& sick, const Finding& finding) {
  auto found = std::ranges::find(sick.incidents, finding.incident, &Incident::id);
  return finding.incident.empty() || found == sick.incidents.end() ? nullptr : &*found;
}

Cause cause_of(const SickNode& sick, const Finding& root) {
  Cause cause{&root};
  const Incident* incident = incident_of(sick, root);
  if (incident == nullptr) return cause;
  cause.gathering = incident->gathering;
  for (const Finding& other : sick.findings)
    if (&other != &root && other.incident == incident->id) cause.others.push_back(&other);
  return cause;
}

// Victims, cascades and companions open nothing: what is done is done about their root. One whose root did not fit
// into the report stands for itself, unless it is a victim.
bool may_be_root(const SickNode& sick, const Finding& finding) {
  if (finding.role == "victim") return false;
  const Incident* incident = incident_of(sick, finding);
  if (incident == nullptr || incident->root == finding.id) return finding.role != "cascade";
  bool root_known = std::ranges::find(sick.findings, incident->root, &Finding::id) != sick.findings.end();
  return !root_known && finding.role != "cascade";
}

// The gravest: one that replaces before one that only would, then one that acts at once, then the first.
std::optional<Cause> deciding_cause(const SickNode& sick, const Policy& policy) {
  std::optional<Cause> best;
  auto rank = [&](const Cause& cause) {
    bool ready = cause.root->held >= cause.root->wanted && (cause.at_once() || !cause.gathering);
    return cause.weight(policy) * 4 + (ready ? 2 : 0) + (cause.at_once() ? 1 : 0);
  };
  for (const Finding& finding : sick.findings) {
    // What the agent says counts only with its verdict: it takes recoveries and thresholds into account.
    if (by_agent(finding) && sick.verdict != "Unhealthy") continue;
    if (!may_be_root(sick, finding)) continue;
    Cause cause = cause_of(sick, finding);
    if (cause.weight(policy) == 0) continue;
    if (!best || rank(cause) > rank(*best)) best = std::move(cause);
  }
  return best;
}

std::vector<std::string> names_of(const Cause& cause) {
  std::vector<std::string> names;
  for (const Finding* other : cause.others) {
    if (names.size() == max_companions) break;
    if (other->role == "victim") continue;
    std::string name = on_device(other->fault);
    name.resize(std::min<size_t>(name.size(), 256));
    names.push_back(std::move(name));
  }
  return names;
}

// What is said about faults that nobody replaces a machine for.
std::string advice_on(const SickNode& sick) {
  for (const Finding& finding : sick.findings) {
    if (finding.role == "victim" || finding.role == "cascade" || finding.held < finding.wanted) continue;
    std::string what = on_device(finding.fault);
    switch (finding.repair_class) {
      case RepairClass::drain_after_job:
        return what + ": no new jobs should start on " + sick.node +
               " and it wants a repair once the running one has ended. Homeostat does not drain by itself yet: "
               "scontrol "
               "update nodename=" +
               sick.node + " state=drain reason=\"" + finding.fault.code + "\"";
      case RepairClass::reset:
        return what + ": the GPU wants a reset, which Homeostat cannot do yet. Drain " + sick.node +
               " and reset it, or let the policy replace the node (resetFallback: replace-node)";
      case RepairClass::watch:
        if (!by_agent(finding)) return finding.title.empty() ? what + ": watched" : finding.title;
        break;
      default:
        break;
    }
  }
  return "";
}

// Nodes on which one cause has shown, and when it last did.
struct Spread {
  std::set<std::string> nodes;
  std::optional<TimePoint> latest = {};
  bool probing = false;  // a repair of this cause is open

  void add(const std::string& node, std::optional<TimePoint> at, TimePoint now) {
    nodes.insert(node);
    if (!at) return;
    TimePoint bounded = std::min(*at, now);  // a node's clock may run ahead
    latest = latest ? std::max(*latest, bounded) : bounded;
  }
};

Spread spread_of(const SickNode& sick, const Fault& fault, const std::vector<OpenRepair>& repairs,
                 const BreakerPolicy& policy, TimePoint now, std::span<const SickPeer> peers) {
  Spread spread;
  spread.add(sick.node, fault.observed_at, now);
  for (const OpenRepair& repair : repairs) {
    // A drill says nothing about a cause, and a repair that was withdrawn changed nothing.
    if (repair.drill || repair.pool != sick.pool->name || repair.phase == Phase::cancelled) continue;
    if (repair.component != fault.component || repair.code != fault.code) continue;
    bool open = !is_terminal(repair.phase);
    bool recent = repair.opened_at && now - *repair.opened_at <= policy.window;
    if (!open && !recent) continue;
    spread.add(repair.node, repair.opened_at, now);
    spread.probing |= open;
  }
  for (const SickPeer& peer : peers)
    if (peer.component == fault.component && peer.code == fault.code) spread.add(peer.node, peer.since, now);
  return spread;
}

// True when the breaker holds the repair back; `plan` then says so.
bool breaker_holds(const SickNode& sick, const std::vector<OpenRepair>& repairs, const BreakerPolicy& policy,
                   TimePoint now, std::span<const SickPeer> peers, Plan& plan) {
  if (plan.fault.drill) return false;
  Spread spread = spread_of(sick, plan.fault, repairs, policy, now, peers);
  int most = std::max(policy.max_nodes, share_of(sick.pool->nodes, policy.max_percent));
  if (static_cast<int>(spread.nodes.size()) <= most) return false;
  TimePoint quiet_at = spread.latest.value_or(now) + policy.quiet;
  if (now >= quiet_at && !spread.probing) return false;  // half open: this one shows whether the cause is over
  plan.answer = Answer::breaker;
  plan.reason = spoken(plan.fault) + " shows on " + std::to_string(spread.nodes.size()) + " nodes of pool " +
                sick.pool->name + " (the breaker allows " + std::to_string(most) +
                "): one cause on many nodes is rarely that many broken machines, look for a rollout, the fabric or the "
                "power. No further node is replaced for it; " +
                (spread.probing ? std::string("one repair goes on as a trial")
                                : "one is let through as a trial at " + format_rfc3339(quiet_at));
  plan.look_again = spread.probing ? Duration{5'000} : std::clamp(quiet_at - now, Duration{1'000}, Duration{60'000});
  return true;
}

// True when a repair of this node stands in the way; `plan` then says which.
bool repaired_already(const SickNode& sick, const Finding& root, const std::vector<OpenRepair>& repairs, Plan& plan) {
  for (const OpenRepair& repair : repairs) {
    bool over = is_terminal(repair.phase);
    bool same = repair.name == plan.name;
    bool same_node = repair.node == sick.node && (!over || repair.node_uid == sick.node_uid);
    // What another detector has seen since before a repair of this node is what that repair was about.
    bool older = over && same_node && !by_agent(root) && repair.opened_at && root.fault.observed_at &&
                 *root.fault.observed_at <= *repair.opened_at;
    if (!same && !older && !(same_node && !over)) continue;
    plan.answer = Answer::already;
    plan.reason = over ? "repair " + repair.name + " of this node and boot has ended as " +
                             std::string(to_string(repair.phase)) + ": delete it to let a new one begin"
                       : "repair " + repair.name + " of this node is under way";
    return true;
  }
  return false;
}

bool budget_is_spent(const SickNode& sick, const std::vector<OpenRepair>& repairs, const Policy& policy, Plan& plan) {
  int open = 0, open_in_pool = 0;
  for (const OpenRepair& repair : repairs) {
    if (is_terminal(repair.phase)) continue;
    ++open;
    if (repair.pool == sick.pool->name) ++open_in_pool;
  }
  int allowed = allowed_at_once(sick.pool->nodes, policy);
  if (open < policy.max_concurrent && open_in_pool < allowed) return false;
  plan.answer = Answer::budget;
  plan.reason = "the budget allows " + std::to_string(std::min(policy.max_concurrent, allowed)) +
                " repairs at once and " + std::to_string(open) + " are open: this one waits for them";
  plan.look_again = Duration{5'000};
  return true;
}

// True when it is too early to act; `plan` then says for how long.
bool too_early(const Cause& cause, const Policy& policy, Plan& plan) {
  if (cause.gathering && !cause.at_once()) {
    plan.answer = Answer::gathering;
    plan.reason = on_device(plan.fault) + ": waiting a moment for its companions, which may name another cause";
    plan.look_again = Duration{1'000};
    return true;
  }
  bool reset = cause.weight(policy) == 1;
  Duration wanted = reset ? std::max(policy.reset_hold, cause.root->wanted) : cause.root->wanted;
  if (cause.root->held >= wanted) return false;
  plan.answer = Answer::holding;
  plan.reason = on_device(plan.fault) + " has to stand for " + format_duration(wanted) +
                " before the node is replaced" +
                (reset ? ": Homeostat cannot reset a GPU yet, somebody else may do it until then" : "");
  plan.look_again = std::max(Duration{500}, wanted - cause.root->held);
  return true;
}

Plan without_cause(const SickNode& sick) {
  Plan plan;
  if (std::string advice = advice_on(sick); !advice.empty()) {
    plan.answer = Answer::advice;
    plan.reason = std::move(advice);
    return plan;
  }
  plan.reason = sick.verdict == "Unhealthy"
                    ? std::string("no finding that the policy answers with a replacement")
                    : "the node's verdict is " + (sick.verdict.empty() ? "Unknown" : sick.verdict);
  return plan;
}

}  // namespace

std::string_view to_string(Answer answer) {
  switch (answer) {
    case Answer::open:
      return "open";
    case Answer::nothing:
      return "nothing";
    case Answer::advice:
      return "advice";
    case Answer::holding:
      return "holding";
    case Answer::gathering:
      return "gathering";
    case Answer::dry_run:
      return "dry_run";
    case Answer::already:
      return "already";
    case Answer::budget:
      return "budget";
    case Answer::breaker:
      return "breaker";
  }
  return "nothing";
}

const Finding* replacing_finding(const SickNode& sick, const Policy& policy) {
  auto cause = deciding_cause(sick, policy);
  return cause ? cause->root : nullptr;
}

Plan plan(const SickNode& sick, const std::vector<OpenRepair>& repairs, const Policy& policy, TimePoint now,
          std::span<const SickPeer> peers) {
  auto cause = deciding_cause(sick, policy);
  if (!cause) return without_cause(sick);
  Plan result;
  if (sick.boot_id.empty()) {
    result.reason = "nobody knows which boot of " + sick.node + " this is about: its health report names none";
    return result;
  }
  std::string epoch = sick.boot_id;
  if (!cause->root->epoch.empty()) epoch.append("\n").append(cause->root->epoch);
  result.name = repair_name(sick.node_uid, epoch);
  result.fault = cause->root->fault;
  result.companions = names_of(*cause);
  if (!sick.pool) {
    result.reason = "the node belongs to no NodePool: label it homeostat.dev/pool=<pool> to have it healed";
    return result;
  }
  if (!sick.pool->healing) {
    result.reason = "healing is off in NodePool " + sick.pool->name + " (spec.healing.enabled)";
    return result;
  }
  if (repaired_already(sick, *cause->root, repairs, result)) return result;
  if (too_early(*cause, policy, result)) return result;
  if (sick.pool->dry_run) {
    result.answer = Answer::dry_run;
    result.reason = "dry run: " + spoken(result.fault) +
                    " would have the node replaced (spec.healing.dryRun of NodePool " + sick.pool->name + ")";
    return result;
  }
  if (breaker_holds(sick, repairs, policy.breaker, now, peers, result)) return result;
  if (budget_is_spent(sick, repairs, policy, result)) return result;
  result.answer = Answer::open;
  result.reason = spoken(result.fault) + " on " + sick.node + ": the node is replaced";
  return result;
}

}  // namespace homeostat::repair
