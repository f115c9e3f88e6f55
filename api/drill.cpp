#include "api/drill.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <iterator>
#include <utility>

#include "api/fields.hpp"
#include "io/json.hpp"

namespace homeostat::api {

namespace {

using boost::json::array;
using boost::json::object;

constexpr std::pair<DrillPhase, std::string_view> phase_names[] = {
    {DrillPhase::pending, "Pending"}, {DrillPhase::armed, "Armed"},     {DrillPhase::seen, "Seen"},
    {DrillPhase::done, "Done"},       {DrillPhase::refused, "Refused"}, {DrillPhase::expired, "Expired"},
};

DrillStatus decode_status(const object& from) {
  DrillStatus status;
  status.phase = parse_drill_phase(io::string_at(from, {"phase"})).value_or(DrillPhase::pending);
  status.token = io::string_at(from, {"token"});
  status.message = io::string_at(from, {"message"});
  status.device = io::string_at(from, {"device"});
  status.repair = io::string_at(from, {"repair"});
  for (const auto& id : io::array_at(from, {"findings"}))
    if (id.is_string()) status.findings.emplace_back(id.get_string());
  for (const auto& line : io::array_at(from, {"lines"}))
    status.lines.push_back({static_cast<int>(std::clamp<std::int64_t>(io::int_at(line, {"level"}, 3), 0, 7)),
                            io::string_at(line, {"text"})});
  status.armed_at = time_at(from, {"armedAt"});
  status.expires_at = time_at(from, {"expiresAt"});
  status.seen_at = time_at(from, {"seenAt"});
  status.finished_at = time_at(from, {"finishedAt"});
  return status;
}

}  // namespace

std::string_view to_string(DrillPhase phase) {
  for (const auto& [known, name] : phase_names)
    if (known == phase) return name;
  return "Pending";
}

std::optional<DrillPhase> parse_drill_phase(std::string_view text) {
  for (const auto& [phase, name] : phase_names)
    if (name == text) return phase;
  return std::nullopt;
}

bool is_active(DrillPhase phase) {
  return phase == DrillPhase::pending || phase == DrillPhase::armed || phase == DrillPhase::seen;
}

Drill decode_drill(const object& from) {
  Drill drill;
  drill.name = io::string_at(from, {"metadata", "name"});
  drill.uid = io::string_at(from, {"metadata", "uid"});
  drill.resource_version = io::string_at(from, {"metadata", "resourceVersion"});
  drill.created_at = time_at(from, {"metadata", "creationTimestamp"}).value_or(TimePoint{});
  drill.node = io::string_at(from, {"spec", "nodeName"});
  drill.fault = io::string_at(from, {"spec", "fault"});
  drill.device = io::string_at(from, {"spec", "device"});
  drill.allow_production = io::bool_at(from, {"spec", "allowProduction"});
  drill.status = decode_status(io::object_at(from, {"status"}));
  return drill;
}

object encode_drill_spec(const Drill& drill) {
  object spec{{"nodeName", drill.node}, {"fault", drill.fault}};
  put_text(spec, "device", drill.device);
  if (drill.allow_production) spec["allowProduction"] = true;
  return spec;
}

object encode_drill_status(const DrillStatus& status) {
  object into{{"phase", to_string(status.phase)}};
  put_text(into, "token", status.token);
  put_text(into, "message", status.message);
  put_text(into, "device", status.device);
  put_text(into, "repair", status.repair);
  array findings, lines;
  for (const auto& id : status.findings) findings.emplace_back(id);
  for (const auto& line : status.lines) lines.push_back(object{{"level", line.level}, {"text", line.text}});
  into["findings"] = std::move(findings);
  into["lines"] = std::move(lines);
  put_time(into, "armedAt", status.armed_at);
  put_time(into, "expiresAt", status.expires_at);
  put_time(into, "seenAt", status.seen_at);
  put_time(into, "finishedAt", status.finished_at);
  return into;
}

object without_token(object drill) {
  if (auto* status = drill.if_contains("status"); status != nullptr && status->is_object())
    status->get_object().erase("token");
  return drill;
}

}  // namespace homeostat::api
