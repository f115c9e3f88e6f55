// What the agent knows about its node: the ledger of findings, how far the kernel log was read, the last probe.
// Threads: the log's reader and the probe write, the reporter reads; everything is under one lock that is never held
// across I/O.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/memory.hpp"
#include "agent/probe.hpp"
#include "api/node_health.hpp"
#include "core/fault/classify.hpp"
#include "core/fault/ledger.hpp"
#include "core/fault/verdict.hpp"
#include "core/time.hpp"

namespace homeostat::agent {

class NodeState {
 public:
  // Starts anew for a boot; findings of another boot are dropped.
  void begin_boot(std::string boot_id);
  // Goes on where an agent of the same boot stopped; a memory of another boot is ignored. Says whether it was taken up.
  bool recall(Memory memory);
  Memory memory() const;

  struct Intake {
    bool changed = false;     // the ledger did
    bool urgent = false;      // a fault that somebody must know at once
    std::uint64_t taken = 0;  // records that were new
  };
  // Records in /dev/kmsg's form. uptime: of the machine now, to date records; zero when nobody knows.
  Intake take_records(const std::vector<std::string>& records, bool overrun, TimePoint now, Duration uptime);
  Intake take_probe(const ProbeReport& report, TimePoint now);

  void set_policy(std::vector<fault::PolicyRule> rules);
  // How many GPUs there should be, said by a person or by the Node. Until then it is the most that the driver has shown
  // since boot.
  void set_expected_gpus(int count);
  int expected_gpus() const;

  struct View {
    api::NodeHealthStatus status;
    fault::Judgement judgement;
    fault::ProbeState probe = fault::ProbeState::pending;
    std::string probe_message;
    std::uint64_t version = 0;
  };
  View view(TimePoint now) const;

  // Waits until a change is urgent, `until` has passed or stop is requested; returns the newest version and whether it
  // is urgent.
  struct Wake {
    std::uint64_t version = 0;
    bool urgent = false;
  };
  Wake wait(std::uint64_t seen_urgent, Duration at_most, std::stop_token stop);
  std::uint64_t urgent_version() const;

 private:
  int expected_now() const;
  void learn_gpus(io::NvmlReading& reading);
  bool take_record(const std::string& text, TimePoint now, Duration uptime, Intake& intake);
  void note(fault::Change change, const fault::Finding& finding, Intake& intake);
  void publish(const Intake& intake);

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::string boot_id_;
  std::optional<std::uint64_t> last_sequence_;
  fault::Ledger ledger_;
  fault::Classifier classifier_;
  std::vector<fault::PolicyRule> rules_;
  ProbeReport probe_;
  std::optional<int> expected_gpus_;
  std::vector<KnownGpu> gpus_;
  std::uint64_t version_ = 0, urgent_version_ = 0;
};

}  // namespace homeostat::agent
