// Keeps a NodePool at its size and its spares: orders what is missing, promotes spares, reports. Never takes a machine
// away.
#pragma once

#include "controller/world/plan_book.hpp"
#include "controller/world/session.hpp"
#include "io/clock.hpp"
#include "kube/controller.hpp"

namespace homeostat::controller {

class NodePoolReconciler final : public kube::Reconciler {
 public:
  // clock and book outlive it. The book says whether the breaker holds repairs of the pool back.
  NodePoolReconciler(Sessions& sessions, const io::Clock& clock, const PlanBook& book)
      : sessions_(sessions), clock_(clock), book_(book) {}

  Result<kube::ReconcileResult> reconcile(const kube::ObjectKey& key, std::stop_token stop) override;

 private:
  Sessions& sessions_;
  const io::Clock& clock_;
  const PlanBook& book_;
};

}  // namespace homeostat::controller
