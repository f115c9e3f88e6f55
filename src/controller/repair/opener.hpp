// Opens a Repair for a node that its agent, another detector or silence calls sick, when the pool and the policy say
// so. Keyed by the node's name. What is found cheaply comes from the two objects of the node and from what is
// remembered; everything that a Repair stands on is read live once more before it is made, its name follows from the
// incident and its place in the budget from a compare-and-swap, so that two controllers cannot open two.
// Threads: several, for different nodes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "controller/repair/fleet.hpp"
#include "controller/repair/reconciler.hpp"
#include "controller/world/plan_book.hpp"
#include "controller/world/policy.hpp"
#include "core/repair/detectors.hpp"

namespace homeostat::controller {

class RepairOpener final : public kube::Reconciler {
 public:
  // clock, fleet and book outlive it.
  RepairOpener(Sessions& sessions, EventSink events, const io::Clock& clock, FleetWatch& fleet, PlanBook& book)
      : sessions_(sessions), events_(std::move(events)), clock_(clock), fleet_(fleet), book_(book) {}

  Result<kube::ReconcileResult> reconcile(const kube::ObjectKey& key, std::stop_token stop) override;
  // A NodePool or HealthPolicy is another one: what is remembered of them is read anew at the next look.
  void rules_changed();

 private:
  struct Look;  // one node as it was just read
  Result<Rules> rules_of(kube::Client& client, const std::string& pool);
  Result<kube::ReconcileResult> look_at(Look& look);
  void detect(Look& look);
  void hold_resets(Look& look);
  Result<repair::Plan> decide(Look& look);
  Result<kube::ReconcileResult> settle(Look& look, const repair::Plan& plan);
  void tell(const kube::Resource& resource, const kube::Object& about, bool warning, std::string_view reason,
            const std::string& message);
  void tell_detected(const Look& look);
  void forget(const std::string& node);

  Sessions& sessions_;
  EventSink events_;
  const io::Clock& clock_;
  FleetWatch& fleet_;
  PlanBook& book_;

  std::mutex mutex_;
  repair::Continuity continuity_;
  struct CachedRules {
    Rules rules;
    Duration read_at{0};
  };
  std::map<std::string, CachedRules> rules_;
  std::uint64_t rules_age_ = 0;  // counts changes, so that what was read before one is not remembered after it
  struct Told {
    std::string message;
    Duration at{0};
  };
  std::map<std::string, Told> told_;  // "<kind>/<name>/<reason>": people are not told the same every few seconds
};

}  // namespace homeostat::controller
