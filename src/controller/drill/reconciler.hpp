// Arms drills, follows them and takes away those that are long over. It never orders one itself. A token comes from the
// kernel's random numbers and goes into the Drill's status only.
#pragma once

#include <memory>
#include <string>

#include "controller/repair/reconciler.hpp"
#include "io/clock.hpp"
#include "kube/controller.hpp"
#include "kube/informer.hpp"

namespace homeostat::controller {

// Called by one worker.
class DrillReconciler final : public kube::Reconciler {
 public:
  DrillReconciler(kube::ClientFactory clients, EventSink events, const io::Clock& clock, io::Random& random)
      : clients_(std::move(clients)), events_(std::move(events)), clock_(clock), random_(random) {}

  Result<kube::ReconcileResult> reconcile(const kube::ObjectKey& key, std::stop_token stop) override;

 private:
  kube::ClientFactory clients_;
  EventSink events_;
  const io::Clock& clock_;
  io::Random& random_;
  std::unique_ptr<kube::Client> client_;
};

// The reconciler with its informer; run() blocks until stop is requested.
class DrillOperator {
 public:
  DrillOperator(const kube::ClientFactory& clients, io::Clock& clock, io::Random& random)
      : clients_(clients),
        clock_(clock),
        random_(random),
        drills_(clients, kube::resources::drills, {}, clock, random) {}

  void run(const EventSink& events, std::stop_token stop);
  // Drills by phase, in Prometheus' text form.
  std::string metrics() const;

 private:
  kube::ClientFactory clients_;
  io::Clock& clock_;
  io::Random& random_;
  kube::Informer drills_;
};

}  // namespace homeostat::controller
