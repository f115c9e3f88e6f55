#include "api/node_health.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "core/names.hpp"
#include "io/json.hpp"

namespace homeostat::api {

namespace {

TimePoint time_at(const boost::json::object& object, io::JsonPath path) {
  return parse_rfc3339(io::string_at(object, path)).value_or(TimePoint{});
}

HealthFinding decode_finding(const boost::json::object& from) {
  HealthFinding finding;
  finding.id = io::string_at(from, {"id"});
  finding.component = io::string_at(from, {"component"});
  finding.code = io::string_at(from, {"code"});
  finding.device = io::string_at(from, {"device"});
  finding.severity = io::string_at(from, {"severity"});
  finding.action = io::string_at(from, {"action"});
  finding.first_seen = time_at(from, {"firstSeen"});
  finding.last_seen = time_at(from, {"lastSeen"});
  finding.count = io::int_at(from, {"count"}, 1);
  finding.evidence = io::string_at(from, {"evidence"});
  finding.drill = io::bool_at(from, {"drill"});
  finding.title = io::string_at(from, {"title"});
  finding.repair_class = io::string_at(from, {"class"});
  finding.incident = io::string_at(from, {"incident"});
  finding.role = io::string_at(from, {"role"});
  return finding;
}

SensorHealth decode_sensor(const boost::json::object& from) {
  return {io::string_at(from, {"name"}), io::string_at(from, {"state"}, "Pending"), io::string_at(from, {"message"})};
}

HealthIncident decode_incident(const boost::json::object& from) {
  HealthIncident incident;
  incident.id = io::string_at(from, {"id"});
  incident.root = io::string_at(from, {"root"});
  incident.title = io::string_at(from, {"title"});
  incident.repair_class = io::string_at(from, {"class"});
  // Who waits for companions waits rather too long than for ever: an unknown state reads as open.
  incident.state = io::string_at(from, {"state"}, "Open");
  incident.first_seen = time_at(from, {"firstSeen"});
  incident.last_seen = time_at(from, {"lastSeen"});
  for (const auto& member : io::array_at(from, {"members"}))
    if (member.is_object())
      incident.members.push_back({io::string_at(member, {"finding"}), io::string_at(member, {"role"})});
  incident.left_out = io::int_at(from, {"leftOut"});
  return incident;
}

JobPerformance decode_performance(const boost::json::object& from) {
  JobPerformance job;
  job.job = io::string_at(from, {"job"});
  job.ranks = io::int_at(from, {"ranks"});
  job.step = io::int_at(from, {"step"});
  job.group = io::string_at(from, {"group"});
  job.uid = io::int_at(from, {"uid"}, -1);
  job.step_time_s = io::double_at(from, {"stepTime_s"});
  job.compute_time_s = io::double_at(from, {"computeTime_s"});
  job.wait_time_s = io::double_at(from, {"waitTime_s"});
  job.sm_clock_mhz = io::int_at(from, {"smClock_MHz"});
  job.utilisation_percent = io::int_at(from, {"utilisation_percent"}, -1);
  job.slowest_rank = io::int_at(from, {"slowestRank"}, -1);
  job.updated_at = time_at(from, {"updatedAt"});
  job.note = io::string_at(from, {"note"});
  return job;
}

DeviceHealth decode_device(const boost::json::object& from) {
  return {io::string_at(from, {"id"}), io::int_at(from, {"index"}), io::string_at(from, {"uuid"}),
          io::string_at(from, {"state"}, "Unknown"), io::string_at(from, {"message"})};
}

boost::json::object encode_finding(const HealthFinding& finding) {
  boost::json::object out{{"id", finding.id},
                          {"component", finding.component},
                          {"code", finding.code},
                          {"device", finding.device},
                          {"severity", finding.severity},
                          {"action", finding.action},
                          {"firstSeen", format_rfc3339(finding.first_seen)},
                          {"lastSeen", format_rfc3339(finding.last_seen)},
                          {"count", finding.count},
                          {"evidence", finding.evidence},
                          {"drill", finding.drill}};
  // Absent rather than empty where nobody has said: the schema knows these words only.
  if (!finding.title.empty()) out["title"] = finding.title;
  if (!finding.repair_class.empty()) out["class"] = finding.repair_class;
  if (!finding.incident.empty()) out["incident"] = finding.incident;
  if (!finding.role.empty()) out["role"] = finding.role;
  return out;
}

boost::json::object encode_sensor(const SensorHealth& sensor) {
  return {{"name", sensor.name}, {"state", sensor.state}, {"message", sensor.message}};
}

boost::json::object encode_incident(const HealthIncident& incident) {
  boost::json::array members;
  members.reserve(incident.members.size());
  for (const auto& member : incident.members)
    members.push_back(boost::json::object{{"finding", member.finding}, {"role", member.role}});
  boost::json::object out{{"id", incident.id},
                          {"root", incident.root},
                          {"title", incident.title},
                          {"class", incident.repair_class},
                          {"state", incident.state},
                          {"firstSeen", format_rfc3339(incident.first_seen)},
                          {"lastSeen", format_rfc3339(incident.last_seen)},
                          {"members", std::move(members)}};
  if (incident.left_out > 0) out["leftOut"] = incident.left_out;
  return out;
}

boost::json::object encode_performance(const JobPerformance& job) {
  return {{"job", job.job},
          {"group", job.group},
          {"uid", job.uid},
          {"ranks", job.ranks},
          {"step", job.step},
          {"stepTime_s", job.step_time_s},
          {"computeTime_s", job.compute_time_s},
          {"waitTime_s", job.wait_time_s},
          {"slowestRank", job.slowest_rank},
          {"smClock_MHz", job.sm_clock_mhz},
          {"utilisation_percent", job.utilisation_percent},
          {"updatedAt", format_rfc3339(job.updated_at)},
          {"note", job.note}};
}

template <class Item>
boost::json::array encode_all(const std::vector<Item>& items, boost::json::object (*encode)(const Item&)) {
  boost::json::array out;
  out.reserve(items.size());
  for (const auto& item : items) out.push_back(encode(item));
  return out;
}

template <class Item>
std::vector<Item> decode_all(const boost::json::array& from, Item (*decode)(const boost::json::object&)) {
  std::vector<Item> out;
  out.reserve(from.size());
  for (const auto& item : from)
    if (item.is_object()) out.push_back(decode(item.get_object()));
  return out;
}

boost::json::object encode_device(const DeviceHealth& device) {
  return {{"id", device.id},
          {"index", device.index},
          {"uuid", device.uuid},
          {"state", device.state},
          {"message", device.message}};
}

}  // namespace

NodeHealth decode_node_health(const boost::json::object& object) {
  NodeHealth health;
  health.name = io::string_at(object, {"metadata", "name"});
  health.uid = io::string_at(object, {"metadata", "uid"});
  health.resource_version = io::string_at(object, {"metadata", "resourceVersion"});
  health.drills_by_kernel_log =
      io::string_at(object, {"metadata", "annotations", names::drills_by_annotation}) == names::drills_by_kernel_log;
  auto& status = health.status;
  status.boot_id = io::string_at(object, {"status", "bootId"});
  status.last_report = time_at(object, {"status", "lastReport"});
  status.expected_gpus = io::int_at(object, {"status", "expectedGpus"});
  status.dropped_findings = io::int_at(object, {"status", "droppedFindings"});
  status.verdict = io::string_at(object, {"status", "verdict"}, "Unknown");
  status.reason = io::string_at(object, {"status", "reason"});
  status.message = io::string_at(object, {"status", "message"});
  status.forgeries = io::int_at(object, {"status", "forgeries"});
  status.left_out_incidents = io::int_at(object, {"status", "leftOutIncidents"});
  status.devices = decode_all(io::array_at(object, {"status", "devices"}), decode_device);
  status.findings = decode_all(io::array_at(object, {"status", "findings"}), decode_finding);
  status.sensors = decode_all(io::array_at(object, {"status", "sensors"}), decode_sensor);
  status.incidents = decode_all(io::array_at(object, {"status", "incidents"}), decode_incident);
  status.performance = decode_all(io::array_at(object, {"status", "performance"}), decode_performance);
  return health;
}

boost::json::object encode_node_health_status(const NodeHealthStatus& status) {
  return {{"bootId", status.boot_id},
          {"lastReport", format_rfc3339(status.last_report)},
          {"expectedGpus", status.expected_gpus},
          {"devices", encode_all(status.devices, encode_device)},
          {"findings", encode_all(status.findings, encode_finding)},
          {"droppedFindings", status.dropped_findings},
          {"sensors", encode_all(status.sensors, encode_sensor)},
          {"incidents", encode_all(status.incidents, encode_incident)},
          {"leftOutIncidents", status.left_out_incidents},
          {"performance", encode_all(status.performance, encode_performance)},
          {"forgeries", status.forgeries},
          {"verdict", status.verdict},
          {"reason", status.reason},
          {"message", status.message}};
}

}  // namespace homeostat::api
