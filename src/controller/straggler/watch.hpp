// Compares the nodes of each job that reports its steps, every ten seconds, and says which hold it up: condition
// AcceleratorSlow of the Node, events, metrics. It repairs nothing: that a straggler is only watched, or drained after
// its job, is for the HealthPolicy's rule for that condition to say.
// Threads: look() and run() on one thread; metrics() from any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "controller/repair/reconciler.hpp"
#include "controller/straggler/gather.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"
#include "kube/informer.hpp"

namespace homeostat::controller {

struct StragglerOptions {
  Duration every{10'000};
  Duration renew{300'000};      // a straggler's message with its newest figures
  size_t writes_per_look = 64;  // the rest waits for the next look
  fault::SpeedParams params = {};
};

class StragglerWatch {
 public:
  // The informers are run by the caller and outlive this, as clock does.
  StragglerWatch(kube::ClientFactory clients, const kube::Informer& nodes, const kube::Informer& healths,
                 io::Clock& clock, StragglerOptions options = {});

  // Once the informers are synced: looks until stop is requested.
  void run(const EventSink& events, std::stop_token stop);
  void look(kube::Client& client, const EventSink& events);
  std::string metrics() const;

 private:
  struct Said {
    std::string uid;  // of the Node: another machine of the same name begins anew
    SlowCondition condition;
    TimePoint since{}, written_at{};
  };
  using Paces = std::map<std::string, std::vector<fault::NodePace>>;  // by node

  Paces judge(const JobReports& reports, TimePoint now, const EventSink& events);
  void recall(fault::JobSpeed& speed, const std::vector<fault::NodeSpeed>& reports) const;
  Said& said_of(const kube::Object& node);
  void tell_job(const StepsKey& key, const fault::JobVerdict& verdict, const EventSink& events);
  Result<void> say(kube::Client& client, const kube::Object& node, Said& said, const SlowCondition& next, TimePoint now,
                   const EventSink& events);

  kube::ClientFactory clients_;
  const kube::Informer& nodes_;
  const kube::Informer& healths_;
  io::Clock& clock_;
  StragglerOptions options_;
  std::map<StepsKey, fault::JobSpeed> speeds_;
  std::map<StepsKey, fault::JobPace> told_;
  std::map<std::string, Said, std::less<>> said_;  // by node
  bool looked_ = false;

  mutable std::mutex mutex_;
  std::string metrics_;
};

}  // namespace homeostat::controller
