// Should this sick node be repaired now? Pure: the world as it was read live, the policy and what is open go in; a verdict with its
// reason comes out, also when the answer is no.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/repair/record.hpp"

namespace homeostat::repair {

// What to do about a kind of fault. Only `replace` opens a repair in this form; the others are told to people.
enum class FaultClass { replace, restart_job, reset, drain_after_job, watch, ignore };
std::optional<FaultClass> parse_fault_class(std::string_view text);  // "replace", "restart-job", ...

struct Rule {
  std::string code = {}, component = {}, action = {};  // "" matches anything
  FaultClass fault_class = FaultClass::replace;
};

struct Policy {
  Duration grace{120'000};
  std::string opt_out_label = "homeostat.dev/no-replace=true";
  int max_concurrent = 1;
  int max_percent = 30;  // of the pool's nodes, rounded up: a small pool may always repair one
  std::vector<Rule> rules = {};
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

struct SickNode {
  std::string node = {}, node_uid = {}, boot_id = {}, workers = {}, verdict = {};
  std::vector<Fault> findings = {};
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

// The class of a finding: the first rule that matches, else by its severity (fatal: replace, anything else: watch).
FaultClass classify_finding(const Fault& fault, const Policy& policy);

}  // namespace homeostat::repair
