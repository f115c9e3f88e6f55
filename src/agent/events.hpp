// What people are told by Kubernetes events on the Node: incidents that open and close, verdicts that change. Pure; one
// thread. Bounded in a storm: a short burst, then one event every ten seconds; of what is left out a later event tells
// the number.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/node_health.hpp"
#include "core/time.hpp"

namespace homeostat::agent {

struct NodeEvent {
  bool warning = true;
  std::string_view reason;  // IncidentOpened, IncidentClosed, NodeHealthy, NodeDegraded, NodeUnhealthy, NodeUnknown
  std::string message;
};

class EventTeller {
 public:
  // What was told already: by the agent before this one. Without it the first look tells what is open.
  void begin(const api::NodeHealthStatus& told);
  // What has changed since the last look and is to be told.
  std::vector<NodeEvent> look(const api::NodeHealthStatus& status, Duration monotonic);

 private:
  bool may_tell(Duration monotonic);

  std::map<std::string, std::string> open_;  // incidents that were told: id, title
  std::string verdict_;
  double tokens_ = 8;
  Duration last_{0};
  std::uint64_t left_out_ = 0;
};

}  // namespace homeostat::agent
