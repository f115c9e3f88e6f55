// What the agent knows, as Prometheus reads it. Counters only rise, states are one series each with 0 or 1, and every
// label is bounded: a storm of codes or devices ends in "other". Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/sensor.hpp"
#include "core/fault/finding.hpp"
#include "core/time.hpp"

namespace homeostat::agent {

// How often each fault came since the agent started: never a gauge of the last one, which would stick.
class FaultCounts {
 public:
  static constexpr size_t max_codes = 64, max_devices = 64, max_series = 512;

  struct Series {
    std::string component, code, device;
    std::uint64_t count = 0;
    TimePoint last_seen{};
  };
  void add(const fault::Finding& finding, TimePoint seen, std::uint64_t times);
  std::vector<Series> series() const;

 private:
  using Key = std::pair<std::string, std::pair<std::string, std::string>>;  // component, (code, device)
  struct Tally {
    std::uint64_t count = 0;
    TimePoint last_seen{};
  };
  std::vector<std::string> codes_, devices_;
  std::map<Key, Tally> tallies_;
};

struct SensorFigures {
  std::string name;
  fault::ProbeState state = fault::ProbeState::pending;
  TimePoint last_success{};  // epoch: never
  std::vector<Sample> samples;
};

struct KmsgFigures {
  std::uint64_t records = 0, gaps = 0, lost_records = 0;
  TimePoint last_record{};  // epoch: none yet
};

struct ApiWrites {
  std::uint64_t ok = 0, failed = 0;
};

struct MetricsInput {
  std::string version, node, slurm_node, pool;
  std::string verdict;                                  // Healthy, …
  std::map<std::string, std::uint64_t> open_incidents;  // by class of repair
  std::vector<FaultCounts::Series> faults;
  std::vector<SensorFigures> sensors;
  KmsgFigures kmsg;
  std::uint64_t forged_lines = 0;
  std::map<std::string, ApiWrites> api_writes;  // by kind: node-health, node, event
  std::vector<std::string> jobs;                // Slurm's ids of the jobs on this node
};

// Prometheus' text format 0.0.4: each family with HELP and TYPE, its series together, sorted by name.
std::string exposition(const MetricsInput& input);

}  // namespace homeostat::agent
