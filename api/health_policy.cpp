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
  return {{"grace_s", policy.grace.count() / 1000},
          {"drainDeadline_s", policy.drain_deadline.count() / 1000},
          {"optOutLabel", policy.opt_out_label},
          {"budget", {{"maxConcurrent", policy.max_concurrent}, {"maxPercent", policy.max_percent}}},
          {"rules", std::move(rules)},
          {"notify", std::move(notify)}};
}

}  // namespace homeostat::api
