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
  std::string title = {};         // one sentence for people
  std::string repair_class = {};  // after policy; "" from an agent that does not say
  std::string incident = {};      // id of its incident, "" when it belongs to none
  std::string role = {};          // root, companion, cascade, victim; "" without an incident
  bool operator==(const HealthFinding&) const = default;
};

// One source of the agent: a probe that cannot say is Failed or Pending, never silently healthy.
struct SensorHealth {
  std::string name;
  std::string state = "Pending";  // Good, Absent, Pending, Failed
  std::string message;
  bool operator==(const SensorHealth&) const = default;
};

struct IncidentMember {
  std::string finding;  // its id
  std::string role;     // root, companion, cascade, victim
  bool operator==(const IncidentMember&) const = default;
};

// Findings that one fault has made. What is done is done about its root.
struct HealthIncident {
  std::string id;
  std::string root;  // id of the finding that caused the others
  std::string title;
  std::string repair_class;    // the gravest of root and companions, after policy
  std::string state = "Open";  // Gathering (companions are still waited for), Open
  TimePoint first_seen{}, last_seen{};
  std::vector<IncidentMember> members;
  std::int64_t left_out = 0;  // members that did not fit
  bool operator==(const HealthIncident&) const = default;
};

// How fast a job steps, as this node's rank told it.
struct JobPerformance {
  std::string job;        // Slurm's job id
  std::string group;      // of ranks that do the same work, such as a pipeline stage; "" mostly
  std::int64_t uid = -1;  // who owns the reports
  std::int64_t ranks = 0, step = 0;
  // Per step, of the slowest rank here. Compute time: until it waits for other ranks; 0: the job does not tell.
  double step_time_s = 0, compute_time_s = 0, wait_time_s = 0;
  std::int64_t slowest_rank = -1;  // -1: nobody can say
  std::int64_t sm_clock_mhz = 0;   // the lowest of the node's busy GPUs; 0: unknown
  std::int64_t utilisation_percent =
      -1;  // of the GPU that is nearest to half: neither idle nor full, if any is; -1: unknown
  TimePoint updated_at{};
  std::string note;
  bool operator==(const JobPerformance&) const = default;
};

struct NodeHealthStatus {
  std::string boot_id;
  TimePoint last_report{};
  std::int64_t expected_gpus = 0;
  std::vector<DeviceHealth> devices;
  std::vector<HealthFinding> findings;
  std::int64_t dropped_findings = 0;
  std::vector<SensorHealth> sensors;
  std::vector<HealthIncident> incidents;
  std::int64_t left_out_incidents = 0;
  std::vector<JobPerformance> performance;
  std::int64_t forgeries = 0;       // lines of processes that looked like a fault, and drills without a valid token
  std::string verdict = "Unknown";  // Healthy, Degraded, Unhealthy, Unknown
  std::string reason, message;
};

struct NodeHealth {
  std::string name;  // of the Node
  std::string uid, resource_version;
  bool drills_by_kernel_log = false;  // its agent can prove a drill (names::drills_by_annotation); decoded only
  NodeHealthStatus status;
};

NodeHealth decode_node_health(const boost::json::object& object);
// status without conditions: those are kept by kube::set_condition.
boost::json::object encode_node_health_status(const NodeHealthStatus& status);

}  // namespace homeostat::api
