// Who of the pools' nodes is heard, by our own clock: a node's report counts when it is another one than before, so the
// clocks of nodes do not matter. Fed by the informers with every heartbeat; safe from any thread. Holds one small entry
// per node that exists.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/clock.hpp"
#include "kube/client.hpp"
#include "kube/object_key.hpp"

namespace homeostat::controller {

class FleetWatch {
 public:
  explicit FleetWatch(const io::Clock& clock) : clock_(clock) {}

  void see_node(const kube::Object& node);
  // True when the node had been told as silent and is heard again.
  bool see_health(const kube::Object& health);
  void see_repair(const kube::Object& repair);  // a node in repair is silent for a reason
  void forget_node(const std::string& name);
  void forget_repair(const std::string& name);

  // Since the node's agent was last heard; since the node was first seen when it never was. 0: nobody knows the node.
  Duration silent_for(const std::string& node) const;
  // "" or why the silence of this node proves nothing (core/repair/detectors).
  std::string silence_of_many(const std::string& node) const;
  // Nodes of pools that fell silent for at least `after` since the last call.
  std::vector<kube::ObjectKey> newly_silent(Duration after);

 private:
  struct Entry {
    bool in_pool = false, reported = false, told = false;
    std::string last_report;
    Duration heard{0};
  };
  Entry& entry(const std::string& node);

  const io::Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> nodes_;
  std::map<std::string, std::string> in_repair_;  // repair -> node
};

}  // namespace homeostat::controller
