#include "lab/config.hpp"

#include <boost/json.hpp>
#include <cstdlib>

#include "io/files.hpp"

namespace homeostat::lab {
namespace json = boost::json;
namespace {

std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string text(const json::object& object, std::string_view key) {
  auto* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

}  // namespace

std::string default_state() { return from_environment("HOMEOSTAT_STATE", "/var/lib/homeostat/lab"); }
std::string default_cache() { return from_environment("HOMEOSTAT_CACHE", "/var/cache/homeostat"); }

Result<void> save_config(const LabConfig& c) {
  json::object object{{"instance", c.instance},
                      {"nodeRange", c.ranges.nodes},
                      {"podRange", c.ranges.pods},
                      {"serviceRange", c.ranges.services},
                      {"balancerRange", c.ranges.balancers},
                      {"kubernetes", c.kubernetes},
                      {"images", c.images},
                      {"cache", c.cache},
                      {"nvml", c.nvml},
                      {"program", c.program}};
  return io::write_file(c.path("lab.json"), json::serialize(object) + "\n");
}

Result<LabConfig> load_config(const std::string& state) {
  auto content = io::read_file(state + "/lab.json");
  if (!content && content.error().kind == ErrorKind::not_found)
    return fail(ErrorKind::not_found, "there is no lab in " + state + "; bring one up with: homeostat-lab up");
  if (!content) return std::unexpected(content.error());
  boost::system::error_code error;
  auto parsed = json::parse(*content, error);
  if (error || !parsed.is_object())
    return fail(ErrorKind::invalid,
                state + "/lab.json is not readable as JSON; take the lab down with: homeostat-lab down");
  const auto& object = parsed.get_object();
  LabConfig c;
  c.state = state;
  c.instance = text(object, "instance");
  c.ranges = {text(object, "nodeRange"), text(object, "podRange"), text(object, "serviceRange"),
              text(object, "balancerRange")};
  c.kubernetes = text(object, "kubernetes");
  c.images = text(object, "images");
  c.cache = text(object, "cache");
  c.nvml = text(object, "nvml");
  c.program = text(object, "program");
  auto plan = make_plan(c.ranges);
  if (!plan) return std::unexpected(plan.error());
  c.plan = *plan;
  return c;
}

}  // namespace homeostat::lab
