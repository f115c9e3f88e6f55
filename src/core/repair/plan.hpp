// Should this sick node be repaired now? Pure: the world as it was read live, the policy and what is open go in; a
// verdict with its reason comes out, also when the answer is no.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/repair/record.hpp"

namespace homeostat::repair {

struct Policy {
  Duration grace{120'000};
  std::string opt_out_label = "homeostat.dev/no-replace";  // on a pod, with the value "true"
  int max_concurrent = 1;
  int max_percent = 30;  // of the pool's nodes, rounded up: a small pool may always repair one
  Duration drain_deadline{300'000};
};

struct PoolFacts {
  std::string name = {};
  int nodes = 0;  // promoted and spare, the sick one included
  int gpus_per_node = 0;
  bool healing = true;
  bool dry_run = false;
};

struct OpenRepair {
  std::string name = {}, node = {}, node_uid = {}, pool = {};
  Phase phase = Phase::observed;
};

// One fault of a node; `replace`: the policy answers it with a new machine. Other answers are told to people in this
// form.
struct Finding {
  Fault fault = {};
  bool replace = false;
};

struct SickNode {
  std::string node = {}, node_uid = {}, boot_id = {}, workers = {}, verdict = {};
  std::vector<Finding> findings = {};
  std::optional<PoolFacts> pool = {};  // nullopt: the node is in no NodePool
};

enum class Answer { open, nothing, dry_run, already, budget };

struct Plan {
  Answer answer = Answer::nothing;
  std::string reason = {};
  std::string name = {};  // of the repair, where there is one to name
  Fault fault = {};       // the finding that decided
  std::optional<Duration> look_again = {};
};

// `repairs`: every Repair there is, the closed ones too.
Plan plan(const SickNode& sick, const std::vector<OpenRepair>& repairs, const Policy& policy);

}  // namespace homeostat::repair
