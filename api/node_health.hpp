// NodeHealth: how one node's accelerators are (api/crds/nodehealths.yaml). Plain data and its JSON; decoding never
// fails, what is missing or of another type reads as empty.
#pragma once

#include <boost/json/fwd.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/time.hpp"

namespace homeostat::api {

struct DeviceHealth {
  std::string id;  // PCI address without function
  std::int64_t index = 0;
  std::string uuid;
  std::string state = "Unknown";  // Good, Sick, Lost, Unknown
  std::string message;
  bool operator==(const DeviceHealth&) const = default;
};

struct HealthFinding {
  std::string id, component, code, device;
  std::string severity;  // fatal, error, warn, info
  std::string action;
  TimePoint first_seen{}, last_seen{};
  std::int64_t count = 1;
  std::string evidence;
  bool drill = false;
  bool operator==(const HealthFinding&) const = default;
};

struct NodeHealthStatus {
  std::string boot_id;
  TimePoint last_report{};
  std::int64_t expected_gpus = 0;
  std::vector<DeviceHealth> devices;
  std::vector<HealthFinding> findings;
  std::int64_t dropped_findings = 0;
  std::string verdict = "Unknown";  // Healthy, Degraded, Unhealthy, Unknown
  std::string reason, message;
};

struct NodeHealth {
  std::string name;  // of the Node
  std::string uid, resource_version;
  NodeHealthStatus status;
};

NodeHealth decode_node_health(const boost::json::object& object);
// status without conditions: those are kept by kube::set_condition.
boost::json::object encode_node_health_status(const NodeHealthStatus& status);

}  // namespace homeostat::api
