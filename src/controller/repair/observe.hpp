// Reads, live, what the next step of a repair needs to know. What cannot be read stays unknown; nothing is read from a
// cache.
#pragma once

#include "controller/world/plan_book.hpp"
#include "controller/world/session.hpp"
#include "core/repair/step.hpp"

namespace homeostat::controller {

// What a repair is carried out under: its pool and the pool's policy, read once per reconcile. absent pool: it was
// deleted.
struct RepairContext {
  std::optional<api::NodePool> pool = {};
  repair::Policy policy;
  const PlanBook* book = nullptr;
};

repair::Observed observe(Session& session, const repair::Record& record, const RepairContext& context);

}  // namespace homeostat::controller
