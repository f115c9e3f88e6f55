// Keeps a NodePool at its size and its spares: orders what is missing, promotes spares, reports. Never takes a machine
// away.
#pragma once

#include "controller/world/session.hpp"
#include "io/clock.hpp"
#include "kube/controller.hpp"

namespace homeostat::controller {

class NodePoolReconciler final : public kube::Reconciler {
 public:
  NodePoolReconciler(Sessions& sessions, const io::Clock& clock) : sessions_(sessions), clock_(clock) {}

  Result<kube::ReconcileResult> reconcile(const kube::ObjectKey& key, std::stop_token stop) override;

 private:
  Sessions& sessions_;
  const io::Clock& clock_;
};

}  // namespace homeostat::controller
