#include "lab/zone_spec.hpp"

#include <algorithm>
#include <boost/json.hpp>

namespace homeostat::lab {
namespace json = boost::json;
namespace {

json::array strings(const std::vector<std::string>& from) { return json::array(from.begin(), from.end()); }

// Throws boost::system::system_error or std::exception on a shape that is not ours; parse_zone_spec turns that into an
// Error.
std::string text(const json::object& object, std::string_view key) { return std::string(object.at(key).as_string()); }

std::vector<std::string> texts(const json::object& object, std::string_view key) {
  std::vector<std::string> result;
  for (const auto& item : object.at(key).as_array()) result.emplace_back(item.as_string());
  return result;
}

ZoneSpec convert(const json::object& o) {
  ZoneSpec spec;
  spec.name = text(o, "name");
  spec.netns = text(o, "netns");
  spec.cgroup = text(o, "cgroup");
  spec.record = text(o, "record");
  spec.folder = text(o, "folder");
  spec.own_dev = o.at("ownDev").as_bool();
  for (const auto& item : o.at("mounts").as_array()) {
    const auto& m = item.as_object();
    auto kind = text(m, "kind") == "tmpfs" ? ZoneMount::Kind::tmpfs : ZoneMount::Kind::bind;
    spec.mounts.push_back({kind, text(m, "source"), text(m, "target"), m.at("readOnly").as_bool()});
  }
  for (const auto& item : o.at("devices").as_array()) {
    const auto& d = item.as_object();
    spec.devices.push_back({text(d, "name"), d.at("major").to_number<unsigned>(), d.at("minor").to_number<unsigned>()});
  }
  for (const auto& item : o.at("programs").as_array()) {
    const auto& p = item.as_object();
    spec.programs.push_back({text(p, "name"), texts(p, "argv"), texts(p, "env"), text(p, "waitFor")});
  }
  return spec;
}

}  // namespace

std::string to_json(const ZoneSpec& spec) {
  json::array mounts, devices, programs;
  for (const auto& m : spec.mounts)
    mounts.push_back(json::object{{"kind", m.kind == ZoneMount::Kind::tmpfs ? "tmpfs" : "bind"},
                                  {"source", m.source},
                                  {"target", m.target},
                                  {"readOnly", m.read_only}});
  for (const auto& d : spec.devices)
    devices.push_back(json::object{{"name", d.name}, {"major", d.major}, {"minor", d.minor}});
  for (const auto& p : spec.programs)
    programs.push_back(
        json::object{{"name", p.name}, {"argv", strings(p.argv)}, {"env", strings(p.env)}, {"waitFor", p.wait_for}});
  return json::serialize(json::object{{"name", spec.name},
                                      {"netns", spec.netns},
                                      {"cgroup", spec.cgroup},
                                      {"record", spec.record},
                                      {"folder", spec.folder},
                                      {"ownDev", spec.own_dev},
                                      {"mounts", mounts},
                                      {"devices", devices},
                                      {"programs", programs}}) +
         "\n";
}

Result<ZoneSpec> parse_zone_spec(std::string_view text) {
  boost::system::error_code error;
  auto parsed = json::parse(text, error);
  if (error) return fail(ErrorKind::invalid, "the zone's specification is not JSON: " + error.message());
  try {
    auto spec = convert(parsed.as_object());
    if (spec.name.empty() || spec.record.empty() || spec.folder.empty())
      return fail(ErrorKind::invalid, "the zone's specification lacks its name, record or folder");
    return spec;
  } catch (const std::exception& e) {
    return fail(ErrorKind::invalid, std::string("the zone's specification has a wrong shape: ") + e.what());
  }
}

int next_backoff_ms(int last_backoff_ms, long long ran_ms) {
  constexpr int first = 200, most = 5'000;
  if (ran_ms >= 10'000 || last_backoff_ms <= 0) return first;
  return std::min(last_backoff_ms * 2, most);
}

}  // namespace homeostat::lab
