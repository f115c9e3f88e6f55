// Carries open repairs forward: observe, decide (core/repair), persist by compare-and-swap, act. Holds nothing between
// two calls that is not in the Repair, so that any process can go on where another was killed.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "controller/notify/notifier.hpp"
#include "controller/world/plan_book.hpp"
#include "controller/world/session.hpp"
#include "core/repair/step.hpp"
#include "io/clock.hpp"
#include "kube/controller.hpp"

namespace homeostat::controller {

// An event for people about an object: production gives kube::EventRecorder.
using EventSink = std::function<void(const kube::Resource&, const kube::Object&, bool warning, std::string_view reason,
                                     std::string_view message)>;

class RepairReconciler final : public kube::Reconciler {
 public:
  // clock and book outlive it. The book says whose agent is silent.
  RepairReconciler(Sessions& sessions, Notifications& notifications, EventSink events, const io::Clock& clock,
                   const PlanBook& book, repair::Limits limits = {})
      : sessions_(sessions),
        notifications_(notifications),
        events_(std::move(events)),
        clock_(clock),
        book_(book),
        limits_(limits) {}

  Result<kube::ReconcileResult> reconcile(const kube::ObjectKey& key, std::stop_token stop) override;

 private:
  struct Run;
  Result<kube::ReconcileResult> advance(Run& run, std::stop_token stop);
  Result<void> persist(Run& run, const repair::Record& next);
  void tell(const Run& run, repair::Phase before);

  Sessions& sessions_;
  Notifications& notifications_;
  EventSink events_;
  const io::Clock& clock_;
  const PlanBook& book_;
  repair::Limits limits_;
};

}  // namespace homeostat::controller
