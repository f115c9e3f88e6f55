// From a SlurmCluster to a running Slurm: makes its keys once, applies its objects, writes its status. Idempotent;
// deletes nothing itself (owner references do), and volumes of people's data outlive the cluster.
#pragma once

#include "io/clock.hpp"
#include "kube/client.hpp"
#include "kube/controller.hpp"

namespace homeostat::controller {

class SlurmClusterReconciler final : public kube::Reconciler {
 public:
  // clients, clock and random outlive it.
  SlurmClusterReconciler(const kube::ClientFactory& clients, io::Clock& clock, io::Random& random)
      : clients_(clients), clock_(clock), random_(random) {}

  Result<kube::ReconcileResult> reconcile(const kube::ObjectKey& key, std::stop_token stop) override;

 private:
  const kube::ClientFactory& clients_;
  io::Clock& clock_;
  io::Random& random_;
};

}  // namespace homeostat::controller
