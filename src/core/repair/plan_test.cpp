#include "core/repair/plan.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::repair;

namespace {

Finding fault(bool replace) {
  Finding finding;
  finding.fault.component = "gpu-xid";
  finding.fault.code = "79";
  finding.replace = replace;
  return finding;
}

SickNode sick_node() {
  SickNode sick{
      "n1", "uid-1", "boot-1", "default.demo.gpu", "Unhealthy", {fault(true)}, PoolFacts{"pool", 3, 8, true, false}};
  return sick;
}

}  // namespace

// What is open | policy | the answer
TEST_CASE("a repair is opened, or the reason why not is told") {
  SickNode sick = sick_node();
  Policy policy;
  std::vector<OpenRepair> repairs;
  Answer expected = Answer::open;

  SUBCASE("a fatal fault in a pool that heals") {}
  SUBCASE("no verdict yet") { sick.verdict = "Unknown", expected = Answer::nothing; }
  SUBCASE("healthy") { sick.verdict = "Healthy", expected = Answer::nothing; }
  SUBCASE("unhealthy, but by nothing that a new machine answers") {
    sick.findings = {fault(false)}, expected = Answer::nothing;
  }
  SUBCASE("the second finding is the one that decides") { sick.findings = {fault(false), fault(true)}; }
  SUBCASE("no boot id: the incident could not be told from the next") { sick.boot_id = "", expected = Answer::nothing; }
  SUBCASE("a node of no pool") { sick.pool.reset(), expected = Answer::nothing; }
  SUBCASE("healing is off") { sick.pool->healing = false, expected = Answer::nothing; }
  SUBCASE("dry run") { sick.pool->dry_run = true, expected = Answer::dry_run; }
  SUBCASE("this very incident is being repaired") {
    repairs = {{repair_name("uid-1", "boot-1"), "n1", "uid-1", "pool", Phase::stopping}};
    expected = Answer::already;
  }
  SUBCASE("this very incident was repaired") {
    repairs = {{repair_name("uid-1", "boot-1"), "n1", "uid-1", "pool", Phase::cancelled}};
    expected = Answer::already;
  }
  SUBCASE("the node is being repaired after an earlier boot") {
    repairs = {{"rep-other", "n1", "uid-1", "pool", Phase::draining}};
    expected = Answer::already;
  }
  SUBCASE("another node is being repaired and one at once is the budget") {
    repairs = {{"rep-other", "n2", "uid-2", "pool", Phase::draining}};
    expected = Answer::budget;
  }
  SUBCASE("a blocked repair keeps its place in the budget") {
    repairs = {{"rep-other", "n2", "uid-2", "pool", Phase::blocked}};
    expected = Answer::budget;
  }
  SUBCASE("the other repair is over") { repairs = {{"rep-other", "n2", "uid-2", "pool", Phase::done}}; }
  SUBCASE("two at once, but 30 % of three nodes is one") {
    policy.max_concurrent = 2;
    repairs = {{"rep-other", "n2", "uid-2", "pool", Phase::draining}};
    expected = Answer::budget;
  }
  SUBCASE("two at once, the other in another pool") {
    policy.max_concurrent = 2;
    repairs = {{"rep-other", "m2", "uid-2", "other", Phase::draining}};
  }
  Plan result = plan(sick, repairs, policy);
  CHECK(result.answer == expected);
  CHECK_FALSE(result.reason.empty());
  if (expected == Answer::open) CHECK(result.name == repair_name("uid-1", "boot-1"));
  CHECK(result.look_again.has_value() == (expected == Answer::budget));
}
