// Orders a drill and follows it: a Drill is created, the controller arms it, the node's agent says that it is ready,
// the fault strikes, the agent shows it, a Repair is opened or not. Used by `homeostat inject` and by everything that
// breaks a GPU on purpose (demo, end-to-end test, benchmark). One thread.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "api/drill.hpp"
#include "api/node_health.hpp"
#include "core/result.hpp"
#include "core/time.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"

namespace homeostat::cli {

struct DrillOrder {
  std::string node, fault, device;
  bool production = false;
};

struct DrillTimes {
  Duration armed{0}, ready{0};            // since the order
  std::optional<Duration> seen, verdict;  // since the fault struck
};

struct DrillOutcome {
  api::Drill drill;  // as last read, without its token
  DrillTimes times;
  std::optional<TimePoint> struck_at;
  std::optional<api::HealthFinding> finding;  // that showed it
  std::string verdict;                        // of the node
};

class DrillDriver {
 public:
  // tell: a line of progress. client, clock and tell outlive this.
  DrillDriver(kube::Client& client, io::Clock& clock, io::Random& random, std::stop_token stop,
              std::function<void(const std::string&)> tell)
      : client_(client), clock_(clock), random_(random), stop_(std::move(stop)), tell_(std::move(tell)) {}

  // Until it is armed and the agent is ready. forbidden: the controller refused it, with its sentence; timeout: nobody
  // armed it, or no agent is ready, and it is taken back; cancelled: interrupted, and it is taken back.
  Result<void> order(const DrillOrder& order);
  // Strikes: gives the instant just before. Taken back when that fails.
  Result<TimePoint> strike(const std::function<Result<void>()>& act);
  // A real node's agent strikes by itself as soon as it is ready.
  void struck_by_agent();
  // Until the agent shows it. timeout: it expired; the message says what was missing.
  Result<void> wait_seen();
  // Until a Repair is named or it is clear that there will be none.
  Result<void> wait_decision();

  const DrillOutcome& outcome() const { return outcome_; }

 private:
  Result<void> wait_armed(Duration begun);
  Result<void> wait_ready(Duration begun);
  Result<void> read();
  Result<void> look_for_finding();
  std::unexpected<Error> take_back(Error error);

  kube::Client& client_;
  io::Clock& clock_;
  io::Random& random_;
  std::stop_token stop_;
  std::function<void(const std::string&)> tell_;
  DrillOutcome outcome_;
  Duration struck_monotonic_{0};
};

// "gpu-x7k2p-3f9a01bc": the node's name and something of its own.
std::string new_drill_name(std::string_view node, io::Random& random);

}  // namespace homeostat::cli
