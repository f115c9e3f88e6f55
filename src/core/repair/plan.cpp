#include "core/repair/plan.hpp"

#include <algorithm>

namespace homeostat::repair {

namespace {

const Fault* deciding_fault(const SickNode& sick) {
  auto found = std::ranges::find_if(sick.findings, &Finding::replace);
  return found == sick.findings.end() ? nullptr : &found->fault;
}

Plan no(std::string reason) { return {Answer::nothing, std::move(reason), "", {}, std::nullopt}; }

// Rounded up, so that a pool of three with 30 % may repair one; at least one.
int allowed_at_once(int nodes, const Policy& policy) {
  int by_percent = std::max(1, (nodes * policy.max_percent + 99) / 100);
  return std::min(policy.max_concurrent, by_percent);
}

}  // namespace

Plan plan(const SickNode& sick, const std::vector<OpenRepair>& repairs, const Policy& policy) {
  if (sick.verdict != "Unhealthy")
    return no("the node's verdict is " + (sick.verdict.empty() ? "Unknown" : sick.verdict));
  if (sick.boot_id.empty()) return no("the node's health report names no boot");
  const Fault* fault = deciding_fault(sick);
  if (fault == nullptr) return no("no finding that the policy answers with a replacement");
  Plan result{Answer::nothing, "", repair_name(sick.node_uid, sick.boot_id), *fault, std::nullopt};
  if (!sick.pool) return no("the node belongs to no NodePool: label it homeostat.dev/pool=<pool> to have it healed");
  if (!sick.pool->healing) return no("healing is off in NodePool " + sick.pool->name + " (spec.healing.enabled)");

  int open = 0, open_in_pool = 0;
  for (const OpenRepair& repair : repairs) {
    if (repair.name == result.name) {
      result.answer = Answer::already;
      result.reason = is_terminal(repair.phase)
                          ? "repair " + repair.name + " of this node and boot has ended as " +
                                std::string(to_string(repair.phase)) + ": delete it to let a new one begin"
                          : "repair " + repair.name + " is under way";
      return result;
    }
    if (is_terminal(repair.phase)) continue;
    if (repair.node == sick.node) {
      result.answer = Answer::already;
      result.reason = "repair " + repair.name + " of this node is under way";
      return result;
    }
    ++open;
    if (repair.pool == sick.pool->name) ++open_in_pool;
  }
  if (sick.pool->dry_run) {
    result.answer = Answer::dry_run;
    result.reason = "dry run: " + spoken(*fault) + " would have the node replaced (spec.healing.dryRun of NodePool " +
                    sick.pool->name + ")";
    return result;
  }
  int allowed = allowed_at_once(sick.pool->nodes, policy);
  if (open >= policy.max_concurrent || open_in_pool >= allowed) {
    result.answer = Answer::budget;
    result.reason = "the budget allows " + std::to_string(std::min(policy.max_concurrent, allowed)) +
                    " repairs at once and " + std::to_string(open) + " are open: this one waits for them";
    result.look_again = Duration{5'000};
    return result;
  }
  result.answer = Answer::open;
  result.reason = spoken(*fault) + " on " + sick.node + ": the node is replaced";
  return result;
}

}  // namespace homeostat::repair
