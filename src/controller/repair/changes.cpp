#include "controller/repair/changes.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

using boost::json::array;
using boost::json::object;

object health_summary(const kube::Object& health) {
  array findings, incidents;
  for (const auto& finding : io::array_at(health, {"status", "findings"}))
    findings.push_back(array{io::string_at(finding, {"id"}), io::string_at(finding, {"severity"}),
                             io::string_at(finding, {"class"}), io::string_at(finding, {"role"}),
                             io::string_at(finding, {"incident"}), io::bool_at(finding, {"drill"})});
  for (const auto& incident : io::array_at(health, {"status", "incidents"}))
    incidents.push_back(array{io::string_at(incident, {"id"}), io::string_at(incident, {"root"}),
                              io::string_at(incident, {"state"}), io::string_at(incident, {"class"})});
  return {{"uid", kube::uid_of(health)},
          {"verdict", io::string_at(health, {"status", "verdict"})},
          {"boot", io::string_at(health, {"status", "bootId"})},
          {"findings", std::move(findings)},
          {"incidents", std::move(incidents)}};
}

object node_summary(const kube::Object& node) {
  array conditions;
  for (const auto& condition : io::array_at(node, {"status", "conditions"}))
    conditions.push_back(array{io::string_at(condition, {"type"}), io::string_at(condition, {"status"}),
                               io::string_at(condition, {"reason"}), io::string_at(condition, {"lastTransitionTime"})});
  return {{"uid", kube::uid_of(node)},
          {"pool", kube::label_of(node, names::pool_label)},
          {"workers", kube::label_of(node, names::workers_label)},
          {"unschedulable", io::bool_at(node, {"spec", "unschedulable"})},
          {"boot", io::string_at(node, {"status", "nodeInfo", "bootID"})},
          {"conditions", std::move(conditions)}};
}

template <class Summary>
bool has_news(const kube::ObjectPtr& old, const kube::ObjectPtr& now, Summary summary) {
  if (old == nullptr || now == nullptr || old == now) return true;
  return summary(*old) != summary(*now);
}

}  // namespace

bool health_has_news(const kube::ObjectPtr& old, const kube::ObjectPtr& now) {
  return has_news(old, now, health_summary);
}
bool node_has_news(const kube::ObjectPtr& old, const kube::ObjectPtr& now) { return has_news(old, now, node_summary); }
bool rules_have_news(const kube::ObjectPtr& old, const kube::ObjectPtr& now) {
  return old == nullptr || now == nullptr || kube::uid_of(*old) != kube::uid_of(*now) ||
         kube::generation_of(*old) != kube::generation_of(*now);
}

}  // namespace homeostat::controller
