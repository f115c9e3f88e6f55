#include "core/repair/detectors.hpp"

#include <algorithm>

namespace homeostat::repair {

namespace {

// A detector that writes heartbeats proves a duration by its own clock, over a restart of ours too; but we must have
// seen it stand for this long ourselves.
constexpr Duration own_look{10'000};
// A transition before the Node object existed (less this) was written by a clock that was wrong.
constexpr Duration clock_slack{60'000};

bool text_fits(std::string_view pattern, std::string_view text) {
  if (pattern.ends_with('*')) return text.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == text;
}

std::string time_text(const std::optional<TimePoint>& time) { return time ? format_rfc3339(*time) : "never"; }

// Readings of one node, put into findings.
class Look {
 public:
  Look(const NodeSight& sight, const DetectorPolicy& policy, Continuity& continuity, TimePoint now, Duration monotonic)
      : sight_(sight), policy_(policy), continuity_(continuity), now_(now), monotonic_(monotonic) {}

  Detection run() {
    for (const NodeCondition& condition : sight_.conditions) by_rule(condition);
    silence();
    // What stands is noted from the start; it only proves nothing yet.
    if (Duration left = startup_left(); left > Duration{0}) {
      out_ = {};
      look_after(left);
    }
    return std::move(out_);
  }

 private:
  std::string key(std::string_view what) const { return sight_.node + "/" + std::string(what); }

  void look_after(Duration wait) {
    wait = std::max(wait, Duration{1'000});
    if (!out_.look_again || wait < *out_.look_again) out_.look_again = wait;
  }

  Duration startup_left() {
    Duration left{0};
    if (sight_.created_at && *sight_.created_at <= now_) left = policy_.startup - (now_ - *sight_.created_at);
    if (auto booted = continuity_.since_change(key("boot"), sight_.boot_id, monotonic_))
      left = std::max(left, policy_.startup - *booted);
    return left;
  }

  // By the writer's own clock, where it writes heartbeats.
  Duration proved_by_writer(const NodeCondition& condition) const {
    if (!condition.heartbeat_at || !condition.transition_at) return Duration{0};
    if (sight_.created_at && *condition.transition_at < *sight_.created_at - clock_slack) return Duration{0};
    return std::max(Duration{0}, *condition.heartbeat_at - *condition.transition_at);
  }

  static std::string mark_of(const NodeCondition& condition) {
    return condition.status + "|" + time_text(condition.transition_at);
  }

  void by_rule(const NodeCondition& condition) {
    auto rule = std::ranges::find_if(policy_.conditions,
                                     [&](const ConditionRule& candidate) { return rule_fits(candidate, condition); });
    if (rule == policy_.conditions.end() || rule->repair_class == fault::RepairClass::ignore) return;
    Duration own = continuity_.held(key("condition/" + condition.type + "/" + rule->component + "/" + rule->code),
                                    mark_of(condition), monotonic_);
    Finding finding;
    finding.held = own >= own_look ? std::max(own, proved_by_writer(condition)) : own;
    finding.wanted = rule->stands_for;
    finding.repair_class = rule->repair_class;
    finding.epoch = condition.type + "/" + mark_of(condition);
    finding.title = "Node condition " + condition.type + " is " + condition.status +
                    (condition.reason.empty() ? "" : " (" + condition.reason + ")");
    finding.fault.component = rule->component;
    finding.fault.code = rule->code;
    finding.fault.severity = fault::to_string(rule->severity);
    finding.fault.evidence = finding.title + (condition.message.empty() ? "" : ": " + condition.message);
    finding.fault.observed_at = condition.transition_at.value_or(now_);
    finding.fault.source = condition_source(condition.type, condition.status);
    if (finding.held < finding.wanted) look_after(finding.wanted - own);
    out_.findings.push_back(std::move(finding));
  }

  struct Told {
    std::string_view component, code;
    fault::RepairClass repair_class = fault::RepairClass::watch;
    std::string title;
  };

  void silence() {
    const NodeCondition* ready = find_condition(sight_.conditions, "Ready");
    if (ready == nullptr) return;
    const bool lost = ready->status == "Unknown", broken = ready->status == "False";
    Duration kubelet = continuity_.held(key("ready"), mark_of(*ready), monotonic_);
    const bool agent = agent_is_silent(sight_, policy_);
    if (sight_.agent_silent_for > Duration{0} && !agent) look_after(policy_.agent_silence - sight_.agent_silent_for);
    // A kubelet that restarts is back before this.
    if ((lost || broken) && !agent && kubelet < policy_.agent_silence) look_after(policy_.agent_silence - kubelet);
    // Whether it still is silent, and still among many, is looked at again; of many, less often.
    if (agent) look_after(Duration{sight_.fleet.empty() ? 30'000 : 60'000});
    if (lost && agent) return node_silent(*ready, kubelet);
    if ((lost || broken) && kubelet >= policy_.agent_silence)
      return tell({"node", lost ? "KUBELET_SILENT" : "KUBELET_NOT_READY", fault::RepairClass::watch,
                   kubelet_story(*ready, lost, agent)},
                  *ready, Duration{0}, Duration{0});
    if (agent && !broken)
      tell({"agent", "AGENT_SILENT", fault::RepairClass::watch,
            "The kubelet of this node is well but its Homeostat agent is silent, so nobody watches its GPUs: look at "
            "the agent's pod" +
                (sight_.agent_pod.empty() ? std::string() : " (" + sight_.agent_pod + ")") +
                " and restart it. The machine is not to blame and is left alone"},
           *ready, Duration{0}, Duration{0});
  }

  static std::string kubelet_story(const NodeCondition& ready, bool lost, bool agent) {
    if (lost)
      return "The kubelet has fallen silent but the agent of this node reports, so the machine lives: look at the "
             "kubelet there";
    return "The kubelet says that it is not ready" +
           (ready.reason.empty() ? std::string() : " (" + ready.reason + ")") +
           (agent ? "; the agent is silent, its pod may not be able to run" : "") +
           ": look at the container runtime and the network of this node";
  }

  // Neither kubelet nor agent is heard. What else knows the machine decides.
  void node_silent(const NodeCondition& ready, Duration kubelet) {
    Duration held = std::min(kubelet, sight_.agent_silent_for);
    auto only_told = [&](std::string why) {
      tell({"node", "NODE_SILENT", fault::RepairClass::watch, "Kubelet and agent are silent, " + std::move(why)}, ready,
           Duration{0}, Duration{0});
    };
    if (!sight_.fleet.empty()) return only_told("but " + sight_.fleet);
    if (sight_.cordoned_by_others)
      return only_told("but someone has cordoned the node: it is taken for maintenance and left alone");
    if (sight_.slurm == SlurmSight::answers)
      return only_told("but its slurmd answers: the machine lives, look at its kubelet and its way to the API server");
    if (sight_.slurm == SlurmSight::unknown)
      return only_told("and Slurm cannot be asked whether its slurmd answers: nothing is done on half of the facts");
    if (sight_.machine == MachineSight::gone)
      return only_told("and its machine is gone at the provider: the NodePool orders another");
    std::string rest = sight_.slurm == SlurmSight::silent ? ", and so is its slurmd" : "; no Slurm runs on it";
    tell({"node", "NODE_LOST", fault::RepairClass::replace_node, "Kubelet and agent are silent" + rest}, ready, held,
         policy_.node_silence);
    if (held < policy_.node_silence) look_after(policy_.node_silence - held);
  }

  void tell(Told told, const NodeCondition& ready, Duration held, Duration wanted) {
    Finding finding;
    finding.repair_class = told.repair_class;
    finding.held = held;
    finding.wanted = wanted;
    finding.epoch = "silence/" + time_text(sight_.last_report);
    finding.fault.component = told.component;
    finding.fault.code = told.code;
    finding.fault.severity =
        fault::to_string(told.code == "NODE_LOST" ? fault::Severity::fatal : fault::Severity::error);
    finding.fault.evidence = told.title + ". Kubelet: Ready " + ready.status + " since " +
                             time_text(ready.transition_at) + "; agent: last report " + time_text(sight_.last_report);
    finding.fault.observed_at = sight_.last_report.value_or(ready.transition_at.value_or(now_));
    finding.fault.source = std::string(silence_source);
    finding.title = std::move(told.title);
    out_.findings.push_back(std::move(finding));
  }

  const NodeSight& sight_;
  const DetectorPolicy& policy_;
  Continuity& continuity_;
  TimePoint now_;
  Duration monotonic_;
  Detection out_;
};

}  // namespace

const NodeCondition* find_condition(std::span<const NodeCondition> conditions, std::string_view type) {
  auto found = std::ranges::find(conditions, type, &NodeCondition::type);
  return found == conditions.end() ? nullptr : &*found;
}

bool rule_fits(const ConditionRule& rule, const NodeCondition& condition) {
  return text_fits(rule.type, condition.type) && rule.status == condition.status &&
         (rule.reason.empty() || text_fits(rule.reason, condition.reason));
}

Continuity::Entry& Continuity::look(const std::string& key, std::string_view mark, Duration monotonic) {
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    make_room();
    found = entries_.emplace(key, Entry{std::string(mark), monotonic, monotonic, false}).first;
  } else if (found->second.mark != mark) {
    found->second = {std::string(mark), monotonic, monotonic, true};
  }
  found->second.seen = monotonic;
  return found->second;
}

void Continuity::make_room() {
  if (entries_.size() < max_keys) return;
  entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.seen; }));
}

Duration Continuity::held(const std::string& key, std::string_view mark, Duration monotonic) {
  return monotonic - look(key, mark, monotonic).since;
}

std::optional<Duration> Continuity::since_change(const std::string& key, std::string_view mark, Duration monotonic) {
  const Entry& entry = look(key, mark, monotonic);
  return entry.changed ? std::optional(monotonic - entry.since) : std::nullopt;
}

void Continuity::forget(const std::string& key_prefix) {
  auto first = entries_.lower_bound(key_prefix);
  auto last = first;
  while (last != entries_.end() && last->first.starts_with(key_prefix)) ++last;
  entries_.erase(first, last);
}

bool agent_is_silent(const NodeSight& sight, const DetectorPolicy& policy) {
  return sight.agent_silent_for >= policy.agent_silence;
}

Detection detect(const NodeSight& sight, const DetectorPolicy& policy, Continuity& continuity, TimePoint now,
                 Duration monotonic) {
  return Look(sight, policy, continuity, now, monotonic).run();
}

std::string silence_of_many(std::string_view node, std::span<const FleetNode> fleet, const FleetLimits& limits) {
  auto ours = std::ranges::find(fleet, node, &FleetNode::node);
  if (ours == fleet.end() || !ours->silent) return "";
  auto with_us = std::ranges::count_if(fleet, [&](const FleetNode& other) {
    return other.silent && std::chrono::abs(other.since - ours->since) <= limits.within;
  });
  auto most =
      std::max<std::ptrdiff_t>(limits.min_nodes, static_cast<std::ptrdiff_t>(fleet.size()) * limits.percent / 100);
  if (with_us <= most) return "";
  return std::to_string(with_us) + " of " + std::to_string(fleet.size()) +
         " nodes fell silent within a minute: that is the control plane or the network, so nothing is replaced for "
         "silence until fewer than " +
         std::to_string(most + 1) + " are";
}

}  // namespace homeostat::repair
