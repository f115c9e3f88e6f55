// Opens a Repair for a node that the agent calls Unhealthy, when the pool and the policy say so. Keyed by NodeHealth.
// Everything that the decision stands on is read live; the name follows from the incident, so that two controllers
// cannot open two.
#pragma once

#include "controller/repair/reconciler.hpp"

namespace homeostat::controller {

class RepairOpener final : public kube::Reconciler {
 public:
  RepairOpener(Sessions& sessions, EventSink events) : sessions_(sessions), events_(std::move(events)) {}

  Result<kube::ReconcileResult> reconcile(const kube::ObjectKey& key, std::stop_token stop) override;

 private:
  Sessions& sessions_;
  EventSink events_;
};

}  // namespace homeostat::controller
