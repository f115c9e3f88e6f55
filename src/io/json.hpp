// Small, safe accessors over boost::json: a missing field or one of another type gives the fallback, never an
// exception. Pure functions, safe from any thread.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace homeostat::io {

// One member name per level: {"metadata", "labels", "homeostat.dev/pool"}. Never through arrays.
using JsonPath = std::initializer_list<std::string_view>;

// Refuses (kind invalid) texts beyond max_bytes, nesting beyond 64 and anything that is not one JSON value.
// `what` names the text in the message: "the answer of slurmrestd".
Result<boost::json::value> parse_json(std::string_view text, std::string_view what = "the text",
                                      size_t max_bytes = 64u << 20);
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view what = "the text",
                                              size_t max_bytes = 64u << 20);

// nullptr when a level is missing or is not an object.
const boost::json::value* find(const boost::json::object& object, JsonPath path);
const boost::json::value* find(const boost::json::value& value, JsonPath path);
boost::json::value* find(boost::json::object& object, JsonPath path);

std::string string_at(const boost::json::object& object, JsonPath path, std::string_view fallback = {});
std::string string_at(const boost::json::value& value, JsonPath path, std::string_view fallback = {});
std::int64_t int_at(const boost::json::object& object, JsonPath path, std::int64_t fallback = 0);
std::int64_t int_at(const boost::json::value& value, JsonPath path, std::int64_t fallback = 0);
double double_at(const boost::json::object& object, JsonPath path, double fallback = 0);
double double_at(const boost::json::value& value, JsonPath path, double fallback = 0);
bool bool_at(const boost::json::object& object, JsonPath path, bool fallback = false);
bool bool_at(const boost::json::value& value, JsonPath path, bool fallback = false);
// An empty array or object (of static lifetime) when there is none.
const boost::json::array& array_at(const boost::json::object& object, JsonPath path);
const boost::json::array& array_at(const boost::json::value& value, JsonPath path);
const boost::json::object& object_at(const boost::json::object& object, JsonPath path);
const boost::json::object& object_at(const boost::json::value& value, JsonPath path);

// Sets the member, making the objects on the way; a level of another type is replaced by an object.
void set_at(boost::json::object& object, JsonPath path, boost::json::value value);

// Compact text.
std::string to_text(const boost::json::value& value);
std::string to_text(const boost::json::object& object);

}  // namespace homeostat::io
