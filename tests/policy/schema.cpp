#include "tests/policy/schema.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "io/json.hpp"

namespace homeostat::policy_test {

namespace {

namespace json = boost::json;

bool has_type(const json::value& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_int64() || value.is_uint64();
  if (type == "boolean") return value.is_bool();
  return false;
}

class Checker {
 public:
  void check(const json::value& value, const json::object& schema, const std::string& where) {
    std::string type = io::string_at(schema, {"type"});
    if (!has_type(value, type)) return wrong(where, "is no " + type);
    if (value.is_object()) check_object(value.get_object(), schema, where);
    if (value.is_array()) check_array(value.get_array(), schema, where);
    if (value.is_string()) check_string(std::string(value.get_string()), schema, where);
  }
  std::vector<std::string> found;

 private:
  void wrong(const std::string& where, const std::string& what) { found.push_back(where + ": " + what); }

  void check_object(const json::object& object, const json::object& schema, const std::string& where) {
    for (const auto& name : io::array_at(schema, {"required"}))
      if (!object.contains(std::string(name.as_string()))) wrong(where, "lacks " + std::string(name.as_string()));
    const json::object& properties = io::object_at(schema, {"properties"});
    if (properties.empty()) return;
    for (const auto& [key, value] : object) {
      std::string inner = where + "." + std::string(key);
      if (const auto* property = properties.if_contains(key); property == nullptr)
        wrong(inner, "is unknown");
      else
        check(value, property->as_object(), inner);
    }
  }

  void check_array(const json::array& array, const json::object& schema, const std::string& where) {
    if (static_cast<std::int64_t>(array.size()) > io::int_at(schema, {"maxItems"}, 1 << 20))
      wrong(where, "is too long");
    for (size_t i = 0; i < array.size(); ++i)
      check(array[i], io::object_at(schema, {"items"}), where + "[" + std::to_string(i) + "]");
  }

  void check_string(const std::string& text, const json::object& schema, const std::string& where) {
    auto length = static_cast<std::int64_t>(text.size());
    if (length > io::int_at(schema, {"maxLength"}, 1 << 20) || length < io::int_at(schema, {"minLength"}))
      wrong(where, "has a bad length");
    const auto& allowed = io::array_at(schema, {"enum"});
    if (!allowed.empty() && std::ranges::find(allowed, json::value(text)) == allowed.end())
      wrong(where, "is none of the allowed words");
  }
};

}  // namespace

std::vector<std::string> violations(const json::object& definition, const json::object& manifest) {
  Checker checker;
  const auto& versions = io::array_at(definition, {"spec", "versions"});
  if (versions.empty()) return {"the definition has no version"};
  const json::object& schema = io::object_at(versions.front(), {"schema", "openAPIV3Schema"});
  checker.check(manifest, schema, io::string_at(manifest, {"kind"}));
  return checker.found;
}

}  // namespace homeostat::policy_test
