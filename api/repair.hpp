// Repair: one incident, its course and its record (api/crds/repairs.yaml), as the resource's JSON and the values that
// core/repair decides on. Decoding never fails: what is missing or of another type reads as empty.
#pragma once

#include <boost/json/object.hpp>

#include "core/repair/record.hpp"

namespace homeostat::api {

repair::Record decode_repair(const boost::json::object& object);
boost::json::object encode_repair_spec(const repair::Record& record);
// status without conditions: those are kept by kube::set_condition.
boost::json::object encode_repair_status(const repair::Record& record);

}  // namespace homeostat::api
