// Runs the SlurmCluster reconciler: which changes wake it, and its threads.
#pragma once

#include <stop_token>

#include "controller/slurm_cluster/reconciler.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"
#include "kube/controller.hpp"
#include "kube/informer.hpp"

namespace homeostat::controller {

class SlurmClusterOperator {
 public:
  // All arguments outlive it.
  SlurmClusterOperator(const kube::ClientFactory& clients, io::Clock& clock, io::Random& random);

  // Until stop.
  void run(std::stop_token stop);

 private:
  SlurmClusterReconciler reconciler_;
  kube::Informer clusters_, stateful_sets_, deployments_, daemon_sets_, services_;
  kube::Controller controller_;
};

}  // namespace homeostat::controller
