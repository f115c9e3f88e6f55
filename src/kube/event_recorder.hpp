// Kubernetes Events for people: `kubectl describe` shows them. Best effort: record() never blocks and never fails; at
// most 256 wait, the rest is dropped and counted in a log line. The same event again within 10 minutes raises the count
// of the first.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "io/clock.hpp"
#include "kube/client.hpp"

namespace homeostat::kube {

enum class EventType { normal, warning };

class EventRecorder {
 public:
  // component: "homeostat-controller"; instance: the pod's or node's name. clock outlives the recorder.
  EventRecorder(ClientFactory clients, std::string component, std::string instance, io::Clock& clock);
  ~EventRecorder();  // sends what waits for up to 2 s

  // reason: CamelCase, short; message: a sentence, cut at 1,000 bytes. Cluster-scoped objects' events go to namespace
  // default.
  void record(const Resource& resource, const Object& about, EventType type, std::string_view reason,
              std::string_view message);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace homeostat::kube
