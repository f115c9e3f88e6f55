#include "agent/check.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "agent/sensors.hpp"
#include "agent/topology.hpp"
#include "io/json.hpp"

namespace homeostat::agent {

CheckExit exit_of(fault::NodeVerdict verdict) {
  switch (verdict) {
    case fault::NodeVerdict::healthy:
      return CheckExit::healthy;
    case fault::NodeVerdict::degraded:
      return CheckExit::degraded;
    case fault::NodeVerdict::unhealthy:
      return CheckExit::unhealthy;
    case fault::NodeVerdict::unknown:
      return CheckExit::cannot_say;
  }
  return CheckExit::cannot_say;
}

NodeState::View check(const CheckOptions& options) {
  static io::SystemClock clock;
  const auto until = clock.monotonic() + options.time;
  const auto state = std::make_shared<NodeState>();
  if (options.expected_gpus) state->set_expected_gpus(*options.expected_gpus);
  state->set_topology(read_topology(options.sensors.sys));
  auto list = make_sensors(options.sensors, state);
  std::vector<std::string_view> names;
  names.reserve(list.size());
  for (const auto& sensor : list) names.push_back(sensor->name());
  state->expect_sensors(names);
  auto log = options.log;
  log.state_folder.clear();
  Watcher watcher(log, *state, clock, nullptr, [] {});
  // Before any sensor: a boot begins with nothing known, so what one had told by then would be forgotten.
  bool read = watcher.turn({}) || !watcher.can_read();
  Sensors sensors(
      std::move(list), clock, [state](const Sensor& sensor) { return input_of(sensor, *state, clock); },
      [state](const Sensor& sensor, SensorReport report) {
        (void)state->take_sensor(sensor.name(), sensor.components(), std::move(report), clock.now());
      });
  while (clock.monotonic() < until && !(read && sensors.all_asked())) {
    if (!read)
      read = watcher.turn({}) || !watcher.can_read();
    else
      clock.sleep(Duration(10), {});
    sensors.tick();
  }
  // What an incident's companions are is known of a log that is over: nothing more is waited for.
  return state->view(clock.now());
}

namespace {

std::string padded(std::string_view text, size_t width) {
  std::string out(text);
  out.resize(std::max(width, text.size()), ' ');
  return out;
}

// Columns as wide as their widest cell, two spaces apart.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line.append("  ").append(padded(row[i], widths[i]));
    line.erase(line.find_last_not_of(' ') + 1);
    out.append(line).append("\n");
  }
  return out;
}

}  // namespace

std::string check_text(const NodeState::View& view) {
  const auto& status = view.status;
  std::string out = status.verdict;
  out.append(": ").append(status.message).append("\n\nSensors\n");
  std::vector<std::vector<std::string>> sensors;
  sensors.reserve(status.sensors.size());
  for (const auto& sensor : status.sensors) sensors.push_back({sensor.name, sensor.state, sensor.message});
  out += table(sensors);
  if (!status.devices.empty()) {
    std::vector<std::vector<std::string>> devices;
    devices.reserve(status.devices.size());
    for (const auto& device : status.devices)
      devices.push_back({std::to_string(device.index), device.id, device.state, device.message});
    out.append("\nGPUs (").append(std::to_string(status.expected_gpus)).append(" expected)\n").append(table(devices));
  }
  if (status.findings.empty()) return out.append("\nNo findings.\n");
  std::vector<std::vector<std::string>> findings{{"SEVERITY", "CLASS", "FINDING", "COUNT", "ROLE", "WHAT"}};
  findings.reserve(status.findings.size() + 1);
  for (const auto& finding : status.findings)
    findings.push_back({finding.severity, finding.repair_class, finding.id, std::to_string(finding.count), finding.role,
                        finding.title});
  return out.append("\nFindings\n").append(table(findings));
}

std::string check_json(const NodeState::View& view) {
  return io::to_text(api::encode_node_health_status(view.status)) + "\n";
}

}  // namespace homeostat::agent
