#include "kube/conditions.hpp"

#include <boost/json.hpp>

#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::kube {
namespace {

// Sets a member when it differs; says whether it did.
bool update(boost::json::object& entry, std::string_view name, boost::json::value value) {
  boost::json::value& member = entry[name];
  if (member == value) return false;
  member = std::move(value);
  return true;
}

}  // namespace

bool set_condition(boost::json::array& conditions, const Condition& condition, TimePoint now) {
  boost::json::object* entry = nullptr;
  for (auto& item : conditions)
    if (item.is_object() && io::string_at(item, {"type"}) == condition.type) entry = &item.get_object();
  bool changed = entry == nullptr;
  if (entry == nullptr) entry = &conditions.emplace_back(boost::json::object{{"type", condition.type}}).get_object();
  if (update(*entry, "status", boost::json::value(condition.status))) {
    (*entry)["lastTransitionTime"] = meta_time(now);
    changed = true;
  }
  changed |= update(*entry, "reason", boost::json::value(condition.reason));
  changed |= update(*entry, "message", boost::json::value(condition.message));
  if (condition.observed_generation)
    changed |= update(*entry, "observedGeneration", boost::json::value(*condition.observed_generation));
  return changed;
}

const boost::json::object* find_condition(const boost::json::object& object, std::string_view type) {
  for (const auto& item : io::array_at(object, {"status", "conditions"}))
    if (item.is_object() && io::string_at(item, {"type"}) == type) return &item.get_object();
  return nullptr;
}

std::string condition_status(const boost::json::object& object, std::string_view type) {
  const auto* condition = find_condition(object, type);
  return condition ? io::string_at(*condition, {"status"}) : "";
}

}  // namespace homeostat::kube
