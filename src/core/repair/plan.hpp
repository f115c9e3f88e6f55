// Should this sick node be repaired now? Pure: the world as it was read live, the policy and what is open go in; a
// verdict with its reason comes out, also when the answer is no.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/repair/finding.hpp"
#include "core/repair/record.hpp"

namespace homeostat::repair {

// When one cause opens repairs on more nodes than this, it is a rollout or the fabric rather than so many broken
// machines: the breaker holds the rest back and lets one through now and then.
struct BreakerPolicy {
  int max_nodes = 3;
  int max_percent = 10;  // of the pool's nodes, rounded up; the greater of the two counts
  Duration window{600'000};
  Duration quiet{600'000};  // so long without another such node, and one repair is let through
};

struct Policy {
  Duration grace{120'000};
  std::string opt_out_label = "homeostat.dev/no-replace";  // on a pod, with the value "true"
  int max_concurrent = 1;
  int max_percent = 30;  // of the pool's nodes, rounded up: a small pool may always repair one
  Duration drain_deadline{300'000};
  // We cannot reset a GPU yet: what stands in for it, and how long somebody else (the driver, another operator) has to
  // do it first.
  fault::RepairClass reset_fallback = fault::RepairClass::watch;
  Duration reset_hold{60'000};
  BreakerPolicy breaker = {};
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
  std::string component = {}, code = {};
  bool drill = false;
  std::optional<TimePoint> opened_at = {};  // by the API server's clock
};

// A node of the same pool that shows a fault and has no repair.
struct SickPeer {
  std::string node = {}, component = {}, code = {};
  std::optional<TimePoint> since = {};
};

// What the agent has joined: findings that one fault has made.
struct Incident {
  std::string id = {}, root = {};  // root: id of a finding
  bool gathering = false;          // companions may still come
};

struct SickNode {
  std::string node = {}, node_uid = {}, boot_id = {}, workers = {}, verdict = {};
  std::vector<Finding> findings = {};
  std::vector<Incident> incidents = {};
  std::optional<PoolFacts> pool = {};  // nullopt: the node is in no NodePool
};

enum class Answer {
  open,
  nothing,
  advice,     // a fault that this version shows and leaves to people or to the job
  holding,    // it has to stand for a while first
  gathering,  // its companions are waited for: they may name another cause
  dry_run,
  already,
  budget,
  breaker,
};
inline constexpr Answer all_answers[] = {Answer::open,    Answer::nothing,   Answer::advice,
                                         Answer::holding, Answer::gathering, Answer::dry_run,
                                         Answer::already, Answer::budget,    Answer::breaker};
std::string_view to_string(Answer answer);

struct Plan {
  Answer answer = Answer::nothing;
  std::string reason = {};
  std::string name = {};                     // of the repair, where there is one to name
  Fault fault = {};                          // the finding that decided
  std::vector<std::string> companions = {};  // the rest of its incident
  std::optional<Duration> look_again = {};
};

// `repairs`: every Repair there is, the closed ones too. `peers`: of the same pool.
Plan plan(const SickNode& sick, const std::vector<OpenRepair>& repairs, const Policy& policy, TimePoint now,
          std::span<const SickPeer> peers = {});

// The finding that the node would be replaced for once it has stood long enough, for counting peers; nullptr: none.
const Finding* replacing_finding(const SickNode& sick, const Policy& policy);

}  // namespace homeostat::repair
