#include "api/health_policy.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "io/json.hpp"

namespace homeostat::api {

namespace {

int bounded(const boost::json::object& object, io::JsonPath path, int fallback, int low, int high) {
  return static_cast<int>(std::clamp<std::int64_t>(io::int_at(object, path, fallback), low, high));
}

void decode_rule(const boost::json::object& from, HealthPolicy& into) {
  fault::PolicyRule rule{
      io::string_at(from, {"component"}), io::string_at(from, {"code"}), io::string_at(from, {"action"}), {}};
  const auto text = io::string_at(from, {"class"});
  const auto repair_class = fault::parse_repair_class(text);
  if (!repair_class || (rule.component.empty() && rule.code.empty() && rule.action.empty())) {
    into.problems.push_back("A rule with class \"" + text + "\" and code \"" + rule.code +
                            "\" is not followed: it needs a known class and a code, component or action.");
    return;
  }
  rule.repair_class = *repair_class;
  into.rules.push_back(std::move(rule));
}

Duration seconds_at(const boost::json::object& object, io::JsonPath path, Duration fallback, int low, int high) {
  return std::chrono::seconds(bounded(object, path, static_cast<int>(fallback.count() / 1000), low, high));
}

void decode_condition(const boost::json::object& from, HealthPolicy& into) {
  repair::ConditionRule rule;
  rule.type = io::string_at(from, {"type"});
  rule.status = io::string_at(from, {"status"}, rule.status);
  rule.reason = io::string_at(from, {"reason"});
  rule.stands_for = seconds_at(from, {"for_s"}, rule.stands_for, 0, 86'400);
  rule.component = io::string_at(from, {"component"});
  rule.code = io::string_at(from, {"code"});
  const auto severity = fault::parse_severity(io::string_at(from, {"severity"}, "error"));
  const auto repair_class = fault::parse_repair_class(io::string_at(from, {"class"}, "watch"));
  const bool status_known = rule.status == "True" || rule.status == "False" || rule.status == "Unknown";
  const bool whole = !rule.type.empty() && rule.type != "*" && !rule.component.empty() && !rule.code.empty();
  if (!whole || !status_known || !severity || !repair_class) {
    into.problems.push_back("The rule for Node condition \"" + rule.type +
                            "\" is not followed: it needs a type, a status of True, False or Unknown, a component, a "
                            "code, and a known severity and class.");
    return;
  }
  rule.severity = *severity;
  rule.repair_class = *repair_class;
  into.detectors.conditions.push_back(std::move(rule));
}

boost::json::object encode_condition(const repair::ConditionRule& rule) {
  boost::json::object out{{"type", rule.type},
                          {"status", rule.status},
                          {"for_s", rule.stands_for.count() / 1000},
                          {"component", rule.component},
                          {"code", rule.code},
                          {"severity", fault::to_string(rule.severity)},
                          {"class", fault::to_string(rule.repair_class)}};
  if (!rule.reason.empty()) out["reason"] = rule.reason;
  return out;
}

void decode_breaker(const boost::json::object& object, repair::BreakerPolicy& into) {
  into.max_nodes = bounded(object, {"spec", "breaker", "maxNodes"}, into.max_nodes, 1, 10'000);
  into.max_percent = bounded(object, {"spec", "breaker", "maxPercent"}, into.max_percent, 1, 100);
  into.window = seconds_at(object, {"spec", "breaker", "window_s"}, into.window, 10, 86'400);
  into.quiet = seconds_at(object, {"spec", "breaker", "quiet_s"}, into.quiet, 10, 86'400);
}

void decode_detectors(const boost::json::object& object, HealthPolicy& into) {
  repair::DetectorPolicy& detectors = into.detectors;
  detectors.agent_silence = seconds_at(object, {"spec", "agentSilence_s"}, detectors.agent_silence, 30, 86'400);
  detectors.node_silence = seconds_at(object, {"spec", "nodeSilence_s"}, detectors.node_silence, 60, 86'400);
  detectors.startup = seconds_at(object, {"spec", "startup_s"}, detectors.startup, 0, 86'400);
  for (const auto& rule : io::array_at(object, {"spec", "conditions"}))
    if (rule.is_object()) decode_condition(rule.get_object(), into);
}

}  // namespace

HealthPolicy decode_health_policy(const boost::json::object& object) {
  HealthPolicy policy;
  policy.name = io::string_at(object, {"metadata", "name"}, policy.name);
  policy.grace = std::chrono::seconds(bounded(object, {"spec", "grace_s"}, 120, 0, 3600));
  policy.drain_deadline = std::chrono::seconds(bounded(object, {"spec", "drainDeadline_s"}, 600, 0, 86'400));
  if (const auto label = io::string_at(object, {"spec", "optOutLabel"}); !label.empty()) policy.opt_out_label = label;
  policy.max_concurrent = bounded(object, {"spec", "budget", "maxConcurrent"}, policy.max_concurrent, 1, 1000);
  policy.max_percent = bounded(object, {"spec", "budget", "maxPercent"}, policy.max_percent, 1, 100);
  for (const auto& rule : io::array_at(object, {"spec", "rules"}))
    if (rule.is_object()) decode_rule(rule.get_object(), policy);
  decode_detectors(object, policy);
  decode_breaker(object, policy.breaker);
  if (io::string_at(object, {"spec", "resetFallback"}) == "replace-node")
    policy.reset_fallback = fault::RepairClass::replace_node;
  policy.reset_hold = seconds_at(object, {"spec", "resetHold_s"}, policy.reset_hold, 0, 86'400);
  for (const auto& target : io::array_at(object, {"spec", "notify"})) {
    WebhookTarget webhook{io::string_at(target, {"webhook", "url"}),
                          io::string_at(target, {"webhook", "secretRef", "namespace"}),
                          io::string_at(target, {"webhook", "secretRef", "name"})};
    if (!webhook.url.empty()) policy.notify.push_back(std::move(webhook));
  }
  return policy;
}

boost::json::object encode_health_policy_spec(const HealthPolicy& policy) {
  boost::json::array rules, notify;
  for (const auto& rule : policy.rules) {
    boost::json::object out{{"class", fault::to_string(rule.repair_class)}};
    if (!rule.component.empty()) out["component"] = rule.component;
    if (!rule.code.empty()) out["code"] = rule.code;
    if (!rule.action.empty()) out["action"] = rule.action;
    rules.push_back(std::move(out));
  }
  for (const auto& target : policy.notify) {
    boost::json::object webhook{{"url", target.url}};
    if (!target.secret_name.empty())
      webhook["secretRef"] = {{"namespace", target.secret_namespace}, {"name", target.secret_name}};
    notify.push_back(boost::json::object{{"webhook", std::move(webhook)}});
  }
  boost::json::array conditions;
  for (const auto& rule : policy.detectors.conditions) conditions.push_back(encode_condition(rule));
  const auto& breaker = policy.breaker;
  return {{"grace_s", policy.grace.count() / 1000},
          {"agentSilence_s", policy.detectors.agent_silence.count() / 1000},
          {"nodeSilence_s", policy.detectors.node_silence.count() / 1000},
          {"startup_s", policy.detectors.startup.count() / 1000},
          {"resetFallback", fault::to_string(policy.reset_fallback)},
          {"resetHold_s", policy.reset_hold.count() / 1000},
          {"breaker",
           {{"maxNodes", breaker.max_nodes},
            {"maxPercent", breaker.max_percent},
            {"window_s", breaker.window.count() / 1000},
            {"quiet_s", breaker.quiet.count() / 1000}}},
          {"conditions", std::move(conditions)},
          {"drainDeadline_s", policy.drain_deadline.count() / 1000},
          {"optOutLabel", policy.opt_out_label},
          {"budget", {{"maxConcurrent", policy.max_concurrent}, {"maxPercent", policy.max_percent}}},
          {"rules", std::move(rules)},
          {"notify", std::move(notify)}};
}

}  // namespace homeostat::api
