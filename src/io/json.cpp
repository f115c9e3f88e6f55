#include "io/json.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>

namespace homeostat::io {

namespace json = boost::json;

Result<json::value> parse_json(std::string_view text, std::string_view what, size_t max_bytes) {
  if (text.size() > max_bytes)
    return fail(ErrorKind::invalid,
                fmt::format("{} has {} bytes, more than the {} allowed", what, text.size(), max_bytes));
  json::parse_options options;
  options.max_depth = 64;
  json::error_code code;
  json::value value = json::parse(json::string_view(text.data(), text.size()), code, {}, options);
  if (code) return fail(ErrorKind::invalid, fmt::format("{} is not valid JSON ({})", what, code.message()));
  return value;
}

Result<json::object> parse_json_object(std::string_view text, std::string_view what, size_t max_bytes) {
  auto value = parse_json(text, what, max_bytes);
  if (!value) return std::unexpected(value.error());
  if (!value->is_object()) return fail(ErrorKind::invalid, fmt::format("{} is not a JSON object", what));
  return std::move(value->get_object());
}

const json::value* find(const json::object& object, JsonPath path) {
  const json::object* level = &object;
  const json::value* found = nullptr;
  for (const auto name : path) {
    if (level == nullptr) return nullptr;
    found = level->if_contains(name);
    if (found == nullptr) return nullptr;
    level = found->if_object();
  }
  return found;
}

const json::value* find(const json::value& value, JsonPath path) {
  if (path.size() == 0) return &value;
  const json::object* object = value.if_object();
  return object ? find(*object, path) : nullptr;
}

json::value* find(json::object& object, JsonPath path) {
  return const_cast<json::value*>(find(static_cast<const json::object&>(object), path));
}

namespace {

std::string text_of(const json::value* value, std::string_view fallback) {
  const json::string* text = value ? value->if_string() : nullptr;
  return text ? std::string(text->data(), text->size()) : std::string(fallback);
}

std::int64_t integer_of(const json::value* value, std::int64_t fallback) {
  if (value == nullptr) return fallback;
  json::error_code code;
  const auto number = value->to_number<std::int64_t>(code);  // also of an integral double; out of range fails
  return code ? fallback : number;
}

double number_of(const json::value* value, double fallback) {
  if (value == nullptr) return fallback;
  json::error_code code;
  const auto number = value->to_number<double>(code);
  return code ? fallback : number;
}

bool truth_of(const json::value* value, bool fallback) {
  const bool* truth = value ? value->if_bool() : nullptr;
  return truth ? *truth : fallback;
}

const json::array& list_of(const json::value* value) {
  static const json::array empty;
  const json::array* list = value ? value->if_array() : nullptr;
  return list ? *list : empty;
}

const json::object& members_of(const json::value* value) {
  static const json::object empty;
  const json::object* members = value ? value->if_object() : nullptr;
  return members ? *members : empty;
}

}  // namespace

std::string string_at(const json::object& object, JsonPath path, std::string_view fallback) {
  return text_of(find(object, path), fallback);
}
std::string string_at(const json::value& value, JsonPath path, std::string_view fallback) {
  return text_of(find(value, path), fallback);
}
std::int64_t int_at(const json::object& object, JsonPath path, std::int64_t fallback) {
  return integer_of(find(object, path), fallback);
}
std::int64_t int_at(const json::value& value, JsonPath path, std::int64_t fallback) {
  return integer_of(find(value, path), fallback);
}
double double_at(const json::object& object, JsonPath path, double fallback) {
  return number_of(find(object, path), fallback);
}
double double_at(const json::value& value, JsonPath path, double fallback) {
  return number_of(find(value, path), fallback);
}
bool bool_at(const json::object& object, JsonPath path, bool fallback) {
  return truth_of(find(object, path), fallback);
}
bool bool_at(const json::value& value, JsonPath path, bool fallback) { return truth_of(find(value, path), fallback); }
const json::array& array_at(const json::object& object, JsonPath path) { return list_of(find(object, path)); }
const json::array& array_at(const json::value& value, JsonPath path) { return list_of(find(value, path)); }
const json::object& object_at(const json::object& object, JsonPath path) { return members_of(find(object, path)); }
const json::object& object_at(const json::value& value, JsonPath path) { return members_of(find(value, path)); }

void set_at(json::object& object, JsonPath path, json::value value) {
  json::object* level = &object;
  size_t left = path.size();
  for (const auto name : path) {
    json::value& next = (*level)[name];
    if (--left == 0) {
      next = std::move(value);
      return;
    }
    if (!next.is_object()) next.emplace_object();
    level = &next.get_object();
  }
}

std::string to_text(const json::value& value) { return json::serialize(value); }
std::string to_text(const json::object& object) { return json::serialize(object); }

}  // namespace homeostat::io
