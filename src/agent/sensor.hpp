// A sensor: one source that says what is wrong with the node at this moment (NVML, AMD, InfiniBand, PCIe, …). The
// agent runs each on a thread of its own (agent/sensors): one that hangs, fails or is missing makes its own report
// Unknown and touches neither the others nor the agent's liveness.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/node_health.hpp"
#include "core/fault/finding.hpp"
#include "core/fault/verdict.hpp"
#include "core/time.hpp"

namespace homeostat::agent {

struct SensorInput {
  TimePoint now{};
  Duration monotonic{0};  // for rates and windows: never jumps
  int expected_gpus = 0;  // of the make that the sensor reads; 0: nobody has said, or they are another make's
};

// One figure of a device. `name` is the whole Prometheus name with its unit ("homeostat_gpu_temperature_celsius");
// labels are few and bounded (device, port, kind).
struct Sample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

struct SensorReport {
  // good: it answered; absent: there is nothing of its kind here; failed: nobody can say (`message` has the reason).
  fault::ProbeState state = fault::ProbeState::pending;
  std::string message;
  std::vector<std::pair<std::string, std::string>>
      names;                             // other names of devices (eth0, mlx5_3), and their PCI addresses
  std::vector<fault::Finding> findings;  // all that is wrong now: what a later report no longer holds has recovered
  std::vector<Sample> samples;           // at most a few per device
  std::vector<api::JobPerformance> performance;  // of the sensor `steps`: news that no write is made for
};

class Sensor {
 public:
  virtual ~Sensor() = default;
  virtual std::string_view name() const = 0;  // "nvml", "infiniband", …: also its name in NodeHealth and in metrics
  // Every component that its findings can have. No two sensors share one, and no kernel line has one of them.
  virtual std::span<const std::string_view> components() const = 0;
  virtual Duration interval() const { return Duration(5'000); }
  virtual Duration patience() const { return Duration(10'000); }  // an unfinished look() counts as hanging after it
  // Looks once. Never called by two threads at once; keeps the state of its windows and counters itself.
  virtual SensorReport look(const SensorInput& input) = 0;
  // The file that look() is reading at this moment, "" for none: names the device that hangs. Any thread, any time.
  virtual std::string now_reading() const { return {}; }
};

}  // namespace homeostat::agent
