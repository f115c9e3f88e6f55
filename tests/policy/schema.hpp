// Enough of OpenAPI v3 to hold a manifest against the schema of its CustomResourceDefinition: types, unknown and
// required fields, enumerations and bounds. The rules in CEL are the API server's.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace homeostat::policy_test {

// What is wrong, as "spec.conditions[3].for_s: …"; empty when nothing is.
std::vector<std::string> violations(const boost::json::object& definition, const boost::json::object& manifest);

}  // namespace homeostat::policy_test
