// What the planner knows of one fault of a node, whoever saw it: the node's agent, another detector by a Node
// condition, or silence. Plain data.
#pragma once

#include <string>

#include "core/fault/finding.hpp"
#include "core/repair/record.hpp"

namespace homeostat::repair {

struct Finding {
  Fault fault = {};
  fault::RepairClass repair_class = fault::RepairClass::watch;  // after the policy
  std::string id = {};                                          // as NodeHealth names it; "" of other detectors
  std::string incident = {};                                    // "" when it belongs to none
  std::string role = {};   // root, companion, cascade, victim; "" without an incident
  std::string title = {};  // one sentence for people
  bool at_once = false;    // unambiguous: acts without waiting for its companions
  Duration held{0};        // how long we have watched it stand, by our own clock
  Duration wanted{0};      // how long it has to stand before it counts
  // Tells this fault from an earlier one of the same boot, for the repair's name. "": the agent's, one per boot.
  std::string epoch = {};
};

}  // namespace homeostat::repair
