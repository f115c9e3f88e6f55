// What becomes of a drill: armed or refused, seen, over. Pure: the world as it was just read, `now` and the token to
// give in; the new status and what to tell people out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/drill.hpp"
#include "api/node_health.hpp"
#include "core/repair/plan.hpp"
#include "core/repair/record.hpp"
#include "core/time.hpp"

namespace homeostat::controller {

// Seen, until a Repair must have been opened; where the policy answers with none, until a companion may have come
// that it answers with one.
inline constexpr Duration drill_patience{30'000}, drill_patience_unanswered{10'000};
inline constexpr Duration drill_kept{86'400'000};  // over, until it is taken away

struct DrillPool {
  repair::PoolFacts facts;
  bool production = true;  // a node without a pool counts as production, too
  std::string why;         // as a part of a sentence: "it has the label …"
  bool fake_hardware = false;
};

// Whether drills may strike a pool without being allowed to: the label names::production_label says, and without it
// what its provider is. label "": there is none.
DrillPool judge_pool(repair::PoolFacts facts, std::string_view provider, std::string_view label);

struct DrillWorld {
  bool node_exists = false;
  std::optional<DrillPool> pool;  // nullopt: the node is in none
  std::optional<api::NodeHealth> health;
  std::vector<api::Drill> others;       // of the same node
  std::vector<repair::Record> repairs;  // of the whole cluster
  repair::Policy policy;
};

struct DrillDecision {
  api::DrillStatus next;
  std::optional<Duration> look_again;
  bool remove = false;  // it has been over for long enough
};

DrillDecision decide_drill(const api::Drill& drill, const DrillWorld& world, const std::string& fresh_token,
                           TimePoint now);

}  // namespace homeostat::controller
