// status.conditions as the API conventions want them: keyed by type, lastTransitionTime changes only when status
// changes.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/time.hpp"

namespace homeostat::kube {

struct Condition {
  std::string type = {};
  std::string status = "Unknown";  // True, False, Unknown
  std::string reason = {};         // CamelCase, never empty in our own kinds
  std::string message = {};
  std::optional<std::int64_t> observed_generation = {};  // left out of conditions of core kinds such as Node
};

// Adds or updates in place; foreign members of the entry are kept. Says whether anything changed.
bool set_condition(boost::json::array& conditions, const Condition& condition, TimePoint now);

// nullptr when there is none. `object` is a whole object with status.conditions.
const boost::json::object* find_condition(const boost::json::object& object, std::string_view type);
// "True", "False", "Unknown", or "" when there is none.
std::string condition_status(const boost::json::object& object, std::string_view type);

}  // namespace homeostat::kube
