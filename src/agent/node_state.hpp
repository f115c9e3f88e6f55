// What the agent knows about its node: the ledger of findings and their incidents, how far the kernel log was read,
// what each sensor said last. Threads: the log's reader and the sensors write, the reporter and the metrics read;
// everything is under one lock that is never held across I/O.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "agent/drill.hpp"
#include "agent/gpu_device.hpp"
#include "agent/memory.hpp"
#include "agent/metrics.hpp"
#include "agent/sensor.hpp"
#include "api/node_health.hpp"
#include "core/fault/classify.hpp"
#include "core/fault/incident.hpp"
#include "core/fault/ledger.hpp"
#include "core/fault/verdict.hpp"
#include "core/time.hpp"

namespace homeostat::agent {

class NodeState {
 public:
  // drills: may be null; outlives this.
  explicit NodeState(DrillBook* drills = nullptr) : drills_(drills) {}

  // Starts anew for a boot; findings of another boot are dropped.
  void begin_boot(std::string boot_id);
  std::string boot_id() const;
  // Goes on where an agent of the same boot stopped; a memory of another boot is ignored. Says whether it was taken up.
  bool recall(Memory memory);
  Memory memory() const;

  struct Intake {
    bool changed = false;     // the ledger did
    bool urgent = false;      // a fault that somebody must know at once
    std::uint64_t taken = 0;  // records that were new
  };
  // Records in /dev/kmsg's form. uptime: of the machine now, to date records; zero when nobody knows.
  Intake take_records(const std::vector<std::string>& records, TimePoint now, Duration uptime);

  // The sensors that there are, so that one that has not spoken yet is shown as pending. The kernel log is one more.
  void expect_sensors(std::span<const std::string_view> names);
  Intake take_sensor(std::string_view name, std::span<const std::string_view> components, SensorReport report,
                     TimePoint now);
  // Whether the kernel log is being read: good, or failed with a sentence.
  void take_log_state(fault::ProbeState state, std::string message, TimePoint now);
  // The log's reader has gone round once more. check_log, from any other thread, finds out when it no longer does.
  void log_turns(Duration monotonic);
  void check_log(Duration monotonic, TimePoint now);
  Duration log_turned() const;
  // The devices of one vendor's sensor. AMD's list is whole: what it no longer holds is not expected any more.
  void take_devices(GpuVendor vendor, std::vector<GpuDevice> devices);
  void set_topology(fault::Topology topology);
  std::vector<KnownGpu> known_gpus(GpuVendor vendor) const;
  size_t known_gpu_count() const;
  std::vector<std::string> open_findings(std::string_view component) const;

  void set_policy(std::vector<fault::PolicyRule> rules);
  // How many GPUs there should be, said by a person or by the Node. Until then it is the most that the driver has shown
  // since boot. Whose they are, where nobody says: see vendor_now.
  void set_expected_gpus(int count, GpuVendor vendor = GpuVendor::unknown);
  // Whose GPUs are on the PCI bus, for as long as no driver has shown any.
  void set_vendor_on_bus(GpuVendor vendor);
  int expected_gpus() const;
  int expected_gpus_of(std::string_view sensor) const;  // 0 for the other vendor's

  struct View {
    api::NodeHealthStatus status;
    fault::Judgement judgement;
    fault::ProbeState probe = fault::ProbeState::pending;  // of all sensors that matter, the worst
    std::string probe_message;
    std::string log_message;  // what the reading of the kernel log has to say of itself
    std::uint64_t version = 0;
    std::uint64_t changes = 0;               // lines and reports that changed something, ever
    std::optional<TimePoint> next_change{};  // when an incident stops gathering without any new line
  };
  View view(TimePoint now) const;

  // What only the metrics tell; the rest of the input is left alone.
  void fill_metrics(MetricsInput& input, TimePoint now) const;
  void count_write(const std::string& kind, bool good);
  void set_pool(std::string pool);

  // Waits until a change is urgent, `at_most` has passed or stop is requested; returns the newest version and whether
  // it is urgent.
  struct Wake {
    std::uint64_t version = 0;
    bool urgent = false;
  };
  Wake wait(std::uint64_t seen_urgent, Duration at_most, std::stop_token stop);
  std::uint64_t urgent_version() const;

 private:
  struct Source {  // a sensor, as it spoke last
    std::string name;
    fault::ProbeState state = fault::ProbeState::pending;
    std::string message;
    TimePoint last_success{};
    std::vector<Sample> samples;
  };
  struct Essential {  // what the sensors that matter say together
    fault::ProbeState state = fault::ProbeState::absent;
    std::string message;
  };

  struct Gpus {
    std::vector<GpuDevice> devices;
    std::vector<KnownGpu> known;
  };
  Gpus& gpus_of(GpuVendor vendor) { return vendor == GpuVendor::amd ? amd_ : nvidia_; }
  const Gpus& gpus_of(GpuVendor vendor) const { return vendor == GpuVendor::amd ? amd_ : nvidia_; }
  int expected_now() const;
  GpuVendor vendor_now() const;
  bool answers(std::string_view sensor) const;
  Source* source(std::string_view name);
  const Source* source(std::string_view name) const;
  Essential essential() const;
  bool turn(Source& source, fault::ProbeState state, std::string message, TimePoint now);
  bool take_record(const std::string& text, TimePoint now, Duration uptime, Intake& intake);
  void take_gap(std::uint64_t lost, std::string_view evidence, TimePoint now, Intake& intake);
  void take_finding(const fault::Finding& finding, TimePoint seen, std::string_view evidence, Intake& intake);
  void note(fault::Change change, const fault::Finding& finding, Intake& intake);
  void judge_into(View& view, const fault::IncidentSet& incidents) const;
  void publish(const Intake& intake);

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  DrillBook* drills_;
  std::string boot_id_;
  std::optional<std::uint64_t> last_sequence_;
  fault::Ledger ledger_;
  fault::Classifier classifier_, drill_classifier_;
  std::vector<fault::PolicyRule> rules_;
  std::vector<Source> sources_;
  Gpus nvidia_, amd_;
  std::vector<api::JobPerformance> performance_;
  std::optional<int> expected_gpus_;
  GpuVendor vendor_ = GpuVendor::unknown, vendor_on_bus_ = GpuVendor::unknown;
  KmsgFigures kmsg_;
  Duration log_turned_{0};
  FaultCounts counts_;
  std::map<std::string, ApiWrites> writes_;
  std::string pool_;
  std::uint64_t forgeries_ = 0;
  std::uint64_t version_ = 0, urgent_version_ = 0, changes_ = 0;
};

}  // namespace homeostat::agent
