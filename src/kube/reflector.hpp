// When to list, when to watch, where to resume and how long to wait: the reflector as a pure state machine. The
// informer's thread performs the actions and feeds back what happened; nothing here touches a clock, a lock or the
// network.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/result.hpp"
#include "core/time.hpp"
#include "io/clock.hpp"

namespace homeostat::kube {

// Exponential with jitter: 0.8, 1.6, … 30 s, each times 1.0 to 2.0 at random but never beyond max; starts over after 2
// min of health.
class Backoff {
 public:
  Backoff(Duration first, Duration max, Duration reset_after) : first_(first), max_(max), reset_after_(reset_after) {}
  Duration next(Duration now, io::Random& random);
  // Things work from now on; has no effect while they already do.
  void start_health(Duration now) { healthy_since_ = healthy_since_.value_or(now); }

 private:
  Duration first_, max_, reset_after_;
  Duration current_{0};
  std::optional<Duration> healthy_since_;
};

class Reflector {
 public:
  enum class State { empty, listing, watching, waiting };
  enum class Do { list, watch, wait };
  struct Action {
    Do what = Do::list;
    std::string resource_version = {};  // of the list ("0", last known or "") or of the watch
    std::chrono::seconds timeout{300};  // of the watch
    Duration delay{0};                  // of the wait
  };

  explicit Reflector(io::Random& random);

  // What to do now.
  Action next(Duration now);
  // What came of it. Each returns nothing: call next() for the consequence.
  void listed(std::string resource_version, Duration now);
  void list_failed(const Error& error, Duration now);
  void seen(std::string resource_version);  // of an event's object or a bookmark
  void watch_ended(Duration now);           // without error: resume
  void watch_failed(const Error& error, Duration now);

  State state() const { return state_; }
  const std::string& resource_version() const { return resource_version_; }

 private:
  void wait(Duration delay, State then);

  io::Random& random_;
  Backoff backoff_;
  State state_ = State::empty;
  State after_wait_ = State::empty;
  Duration delay_{0};
  Duration watch_started_{0};
  std::string resource_version_;    // opaque: compared for equality only
  std::string list_version_ = "0";  // of the next list
};

}  // namespace homeostat::kube
