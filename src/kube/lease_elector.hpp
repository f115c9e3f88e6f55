// Leader election over a coordination.k8s.io Lease. Judges others by changes observed against the local monotonic
// clock, never by their timestamps. It does not promise a single leader at every instant: each write must be safe under
// two leaders (compare-and-swap, deterministic names, uid preconditions). Whoever loses the lease must exit the
// process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "core/result.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"

namespace homeostat::kube {

struct ElectionOptions {
  std::string ns = {};
  std::string name = {};
  std::string identity = {};  // unique per process: "<pod>_<random>"
  Duration lease_duration{15'000};
  Duration renew_deadline{10'000};
  Duration retry_period{2'000};
};

// The decision, without clock and network. Feed what the last GET said, do what it answers.
class ElectionCore {
 public:
  enum class Do { create, update, wait, lost };
  struct Observed {
    bool exists = false;
    std::string holder = {};
    std::string resource_version = {};
    Duration duration{15'000};  // spec.leaseDurationSeconds
  };
  explicit ElectionCore(ElectionOptions options) : options_(std::move(options)) {}

  Do decide(const Observed& lease, Duration now);  // after a successful GET
  Do failed(Duration now);                         // GET or write failed
  void written(Duration now);                      // our create or update succeeded
  bool leading() const { return leading_; }

 private:
  ElectionOptions options_;
  bool leading_ = false;
  Duration renewed_{0};
  std::string seen_version_;
  Duration seen_at_{0};
};

class LeaseElector {
 public:
  enum class End { stopped, lost };

  LeaseElector(std::unique_ptr<Client> client, ElectionOptions options, io::Clock& clock, io::Random& random);

  // Waits for the lease, then runs `lead` on another thread and renews. On loss: on_lost is called at once (it should
  // end the process), lead's stop_token fires, and run returns when lead has. On stop: the lease is released after lead
  // has returned.
  End run(std::stop_token stop, const std::function<void(std::stop_token)>& lead, const std::function<void()>& on_lost);

 private:
  ElectionCore::Do try_once(ElectionCore& core);
  void release();

  std::unique_ptr<Client> client_;
  ElectionOptions options_;
  io::Clock& clock_;
  io::Random& random_;
};

}  // namespace homeostat::kube
