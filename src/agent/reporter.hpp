// Writes the node's NodeHealth and its condition AcceleratorHealthy, and tells people by events: an urgent change at
// once, others within a second, a sign of life every ten. In a storm what has changed is gathered and written once a
// second. When the API server is away it keeps trying; what it then writes is the newest state, so nothing is lost.
#pragma once

#include <boost/json/array.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "agent/events.hpp"
#include "agent/node_state.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"
#include "kube/event_recorder.hpp"

namespace homeostat::agent {

struct ReporterOptions {
  std::string node_name;
  std::string policy_name = "default";
  std::optional<int> expected_gpus;   // fixed by the operator; else read from the Node
  bool drills_by_kernel_log = false;  // said on the NodeHealth, so that a drill that nobody can prove is refused
  Duration batch{1'000};
  Duration heartbeat{10'000};
  Duration node_condition_heartbeat{60'000};
  Duration policy_refresh{60'000};
};

// How soon the next write may be. Changes that come one by one, even ten a second, are each written at once; a write
// that has gathered many changes has met a storm, and the next one waits a second. Pure.
class WriteBudget {
 public:
  // How long an urgent write must wait, zero for not at all.
  Duration wait(Duration monotonic) const;
  void spend(std::uint64_t changes, Duration monotonic);

 private:
  double tokens_at(Duration monotonic) const;

  double tokens_ = 40;
  Duration at_{0};
};

class Reporter {
 public:
  Reporter(ReporterOptions options, NodeState& state, const kube::ClientFactory& clients, io::Clock& clock,
           io::Random& random);

  // One round: writes what is due. An error means that nothing newer than before may be visible: call again.
  Result<void> report();
  // Rounds until stop is requested.
  void run(std::stop_token stop);
  // How many GPUs the Node says it should have; nullopt before the Node was seen or when it does not say.
  std::optional<int> gpus_of_node() const { return gpus_of_node_; }

 private:
  Result<void> read_node();
  Result<void> ensure_object();
  void tell(const NodeState::View& view);
  void rest(std::uint64_t seen_urgent, std::stop_token stop);
  Result<void> write_status(const NodeState::View& view);
  Result<void> write_node_condition(const NodeState::View& view);
  void refresh_policy();
  Duration backoff();

  ReporterOptions options_;
  NodeState& state_;
  std::unique_ptr<kube::Client> client_;
  io::Clock& clock_;
  io::Random& random_;
  kube::EventRecorder recorder_;
  EventTeller teller_;
  WriteBudget budget_;
  boost::json::object node_;  // as it was read: what events are about
  bool ensured_ = false, told_before_ = false;
  int failures_ = 0;
  std::optional<int> gpus_of_node_;
  std::optional<std::uint64_t> written_version_;
  std::optional<TimePoint> next_change_;  // of what was written, without any new line
  std::uint64_t written_changes_ = 0;
  Duration written_at_{0}, condition_written_at_{0}, policy_read_at_{0};
  bool policy_read_ = false;
  boost::json::array conditions_;  // of the NodeHealth
  std::string node_condition_;     // status, reason and message last written to the Node
  TimePoint node_condition_since_{};
  std::string node_condition_status_;
};

}  // namespace homeostat::agent
