// What was last decided about each node: for the metrics and for the condition Breaker of a NodePool. One small entry
// per node that has a fault; safe from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/repair/plan.hpp"
#include "io/clock.hpp"

namespace homeostat::controller {

class PlanBook {
 public:
  explicit PlanBook(const io::Clock& clock) : clock_(clock), started_(clock.monotonic()) {}

  struct Verdict {
    std::string pool;
    repair::Answer answer = repair::Answer::nothing;
    std::string reason;
    std::string held_for_many;              // "" or why the silence of many nodes holds this one back
    std::vector<repair::Finding> detected;  // by other detectors and by silence
  };
  void note(const std::string& node, Verdict verdict);
  void forget(const std::string& node);

  struct Breaker {
    bool open = false;
    std::string reason = "Closed", message = {};
  };
  // nullopt: this process has not looked at all nodes yet, so what was written before stands.
  std::optional<Breaker> breaker(const std::string& pool) const;

  std::array<std::uint64_t, std::size(repair::all_answers)> answers() const;  // in the order of all_answers
  struct Seen {
    std::string component, code, repair_class;
    auto operator<=>(const Seen&) const = default;
  };
  std::map<Seen, int> detected() const;  // nodes by what detectors say of them; as many as the policies have rules
  // The node's agent is silent, so that what it said last of its GPUs is old.
  bool unwatched(const std::string& node) const;

 private:
  const io::Clock& clock_;
  const Duration started_;
  mutable std::mutex mutex_;
  std::map<std::string, Verdict> nodes_;
  std::array<std::uint64_t, std::size(repair::all_answers)> answers_{};
};

}  // namespace homeostat::controller
