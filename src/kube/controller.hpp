// Runs a Reconciler for the keys that informers bring up: one key is never reconciled by two workers at once. Failures
// come back with backoff. Kind `invalid` is what only a person can change: said once as an error, then tried again
// slowly, because what refuses may lie outside the object (an admission policy, a schema). A requeue_after replaces
// the backoff.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "io/clock.hpp"
#include "kube/informer.hpp"
#include "kube/object_key.hpp"
#include "kube/work_queue.hpp"

namespace homeostat::kube {

struct ReconcileResult {
  std::optional<Duration> requeue_after = {};
};

// Level-triggered: called with a key only, it observes, decides and acts. Called from several threads for different
// keys when the controller has several workers.
class Reconciler {
 public:
  virtual ~Reconciler() = default;
  virtual Result<ReconcileResult> reconcile(const ObjectKey& key, std::stop_token stop) = 0;
};

struct ControllerOptions {
  int workers = 1;
  Duration refused_retry{10'000};
  Duration sync_log_every{30'000};  // how often run() says that it still waits for its informers
};

class Controller {
 public:
  // Which keys of ours an event of another kind concerns.
  using MapFunction =
      std::function<std::vector<ObjectKey>(const ObjectKey& key, const ObjectPtr& old, const ObjectPtr& now)>;

  Controller(std::string name, Reconciler& reconciler, io::Clock& clock, io::Random& random,
             ControllerOptions options = {});

  // Before either runs. The informer outlives the controller and is run by the caller. map null: the object's own key.
  void watch(Informer& informer, MapFunction map = nullptr);

  void enqueue(const ObjectKey& key);  // any thread
  void enqueue_after(const ObjectKey& key, Duration delay);

  // Waits until the informers are synced, then works until stop is requested. Returns when all workers have ended.
  void run(std::stop_token stop);

  // Reconciles one due key on the caller's thread; false when none is due. For the simulation, instead of run().
  bool run_one(std::stop_token stop);
  // When the next waiting key is due (monotonic); nullopt: nothing waits. For the simulation.
  std::optional<Duration> next_due() const;

 private:
  void process(const ObjectKey& key, std::stop_token stop);
  bool wait_informers(std::stop_token stop);

  std::string name_;
  Reconciler& reconciler_;
  ControllerOptions options_;
  WorkQueue queue_;
  std::vector<Informer*> informers_;
};

}  // namespace homeostat::kube
