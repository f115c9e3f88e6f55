#include "api/node_health.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

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
  return finding;
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
  auto& status = health.status;
  status.boot_id = io::string_at(object, {"status", "bootId"});
  status.last_report = time_at(object, {"status", "lastReport"});
  status.expected_gpus = io::int_at(object, {"status", "expectedGpus"});
  status.dropped_findings = io::int_at(object, {"status", "droppedFindings"});
  status.verdict = io::string_at(object, {"status", "verdict"}, "Unknown");
  status.reason = io::string_at(object, {"status", "reason"});
  status.message = io::string_at(object, {"status", "message"});
  for (const auto& device : io::array_at(object, {"status", "devices"}))
    if (device.is_object()) status.devices.push_back(decode_device(device.get_object()));
  for (const auto& finding : io::array_at(object, {"status", "findings"}))
    if (finding.is_object()) status.findings.push_back(decode_finding(finding.get_object()));
  return health;
}

boost::json::object encode_node_health_status(const NodeHealthStatus& status) {
  boost::json::array devices, findings;
  for (const auto& device : status.devices) devices.push_back(encode_device(device));
  for (const auto& finding : status.findings) findings.push_back(encode_finding(finding));
  return {{"bootId", status.boot_id},
          {"lastReport", format_rfc3339(status.last_report)},
          {"expectedGpus", status.expected_gpus},
          {"devices", std::move(devices)},
          {"findings", std::move(findings)},
          {"droppedFindings", status.dropped_findings},
          {"verdict", status.verdict},
          {"reason", status.reason},
          {"message", status.message}};
}

}  // namespace homeostat::api
