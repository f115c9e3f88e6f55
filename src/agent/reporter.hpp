// Writes the node's NodeHealth and its condition AcceleratorHealthy: an urgent change at once, others within a second,
// a sign of life every ten. When the API server is away it keeps trying; what it then writes is the newest state, so
// nothing is lost.
#pragma once

#include <boost/json/array.hpp>
#include <optional>
#include <stop_token>
#include <string>

#include "agent/node_state.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"

namespace homeostat::agent {

struct ReporterOptions {
  std::string node_name;
  std::string policy_name = "default";
  std::optional<int> expected_gpus;  // fixed by the operator; else read from the Node
  Duration batch{1'000};
  Duration heartbeat{10'000};
  Duration node_condition_heartbeat{60'000};
  Duration policy_refresh{60'000};
};

class Reporter {
 public:
  Reporter(ReporterOptions options, NodeState& state, kube::Client& client, io::Clock& clock, io::Random& random)
      : options_(std::move(options)), state_(state), client_(client), clock_(clock), random_(random) {}

  // One round: writes what is due. An error means that nothing newer than before may be visible: call again.
  Result<void> report();
  // Rounds until stop is requested.
  void run(std::stop_token stop);
  // How many GPUs the Node says it should have; nullopt before the Node was seen or when it does not say.
  std::optional<int> gpus_of_node() const { return gpus_of_node_; }

 private:
  Result<void> ensure_object();
  Result<void> write_status(const NodeState::View& view);
  Result<void> write_node_condition(const NodeState::View& view);
  void refresh_policy();
  Duration backoff();

  ReporterOptions options_;
  NodeState& state_;
  kube::Client& client_;
  io::Clock& clock_;
  io::Random& random_;
  bool ensured_ = false;
  int failures_ = 0;
  std::optional<int> gpus_of_node_;
  std::optional<std::uint64_t> written_version_;
  Duration written_at_{0}, condition_written_at_{0}, policy_read_at_{0};
  bool policy_read_ = false;
  boost::json::array conditions_;  // of the NodeHealth
  std::string node_condition_;     // status, reason and message last written to the Node
  TimePoint node_condition_since_{};
  std::string node_condition_status_;
};

}  // namespace homeostat::agent
