#include "core/repair/plan.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::repair;
using fault::RepairClass;

namespace {

constexpr TimePoint now{Duration{1'764'483'000'000}};
constexpr Duration second{1'000};

Finding found(RepairClass repair_class, std::string code = "79", std::string component = "gpu-xid") {
  Finding finding;
  finding.fault.component = std::move(component);
  finding.fault.code = code;
  finding.fault.observed_at = now;
  finding.id = std::move(code);
  finding.repair_class = repair_class;
  return finding;
}
Finding found(bool replace) { return found(replace ? RepairClass::replace_node : RepairClass::watch); }

Finding member(Finding finding, std::string role) {
  finding.incident = "i1";
  finding.role = std::move(role);
  return finding;
}

SickNode sick_node() {
  SickNode sick;
  sick.node = "n1", sick.node_uid = "uid-1", sick.boot_id = "boot-1", sick.workers = "default.demo.gpu";
  sick.verdict = "Unhealthy";
  sick.findings = {found(true)};
  sick.pool = PoolFacts{"pool", 3, 8, true, false};
  return sick;
}

OpenRepair repair_of(std::string node, Phase phase, std::string name = "rep-other", std::string pool = "pool") {
  OpenRepair repair;
  repair.name = std::move(name), repair.node_uid = "uid-" + node, repair.node = std::move(node);
  repair.pool = std::move(pool), repair.phase = phase;
  return repair;
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
    sick.findings = {found(false)}, expected = Answer::nothing;
  }
  SUBCASE("the second finding is the one that decides") { sick.findings = {found(false), found(true)}; }
  SUBCASE("no boot id: the incident could not be told from the next") { sick.boot_id = "", expected = Answer::nothing; }
  SUBCASE("a node of no pool") { sick.pool.reset(), expected = Answer::nothing; }
  SUBCASE("healing is off") { sick.pool->healing = false, expected = Answer::nothing; }
  SUBCASE("dry run") { sick.pool->dry_run = true, expected = Answer::dry_run; }
  SUBCASE("this very incident is being repaired") {
    repairs = {repair_of("n1", Phase::stopping, repair_name("uid-1", "boot-1"))};
    expected = Answer::already;
  }
  SUBCASE("this very incident was repaired") {
    repairs = {repair_of("n1", Phase::cancelled, repair_name("uid-1", "boot-1"))};
    expected = Answer::already;
  }
  SUBCASE("the node is being repaired after an earlier boot") {
    repairs = {repair_of("n1", Phase::draining)};
    expected = Answer::already;
  }
  SUBCASE("another node is being repaired and one at once is the budget") {
    repairs = {repair_of("n2", Phase::draining)};
    expected = Answer::budget;
  }
  SUBCASE("a blocked repair keeps its place in the budget") {
    repairs = {repair_of("n2", Phase::blocked)};
    expected = Answer::budget;
  }
  SUBCASE("the other repair is over") { repairs = {repair_of("n2", Phase::done)}; }
  SUBCASE("two at once, but 30 % of three nodes is one") {
    policy.max_concurrent = 2;
    repairs = {repair_of("n2", Phase::draining)};
    expected = Answer::budget;
  }
  SUBCASE("two at once, the other in another pool") {
    policy.max_concurrent = 2;
    repairs = {repair_of("m2", Phase::draining, "rep-other", "other")};
  }
  Plan result = plan(sick, repairs, policy, now);
  CHECK(result.answer == expected);
  CHECK_FALSE(result.reason.empty());
  if (expected == Answer::open) CHECK(result.name == repair_name("uid-1", "boot-1"));
  CHECK(result.look_again.has_value() == (expected == Answer::budget));
}

// findings of one incident (class, role; * acts at once) | state | the answer and its fault
TEST_CASE("one repair per incident, for its root") {
  SickNode sick = sick_node();
  sick.incidents = {{"i1", "48", false}};
  Policy policy;
  Answer expected = Answer::open;
  std::string code = "48";
  std::vector<std::string> companions;
  auto root = found(RepairClass::replace_node, "48");

  SUBCASE("root, companion, cascade and victim: the victim is not named") {
    sick.findings = {member(found(RepairClass::watch, "171"), "companion"), member(root, "root"),
                     member(found(RepairClass::restart_job, "45"), "cascade"),
                     member(found(RepairClass::replace_node, "145", "nvlink"), "victim")};
    companions = {"xid 171", "xid 45"};
  }
  SUBCASE("the companion is what the policy replaces for: the repair is still the root's") {
    sick.findings = {member(found(RepairClass::watch, "48"), "root"),
                     member(found(RepairClass::replace_node, "64"), "companion")};
    companions = {"xid 64"};
  }
  SUBCASE("a cascade decides nothing") {
    sick.findings = {member(found(RepairClass::watch, "48"), "root"),
                     member(found(RepairClass::replace_node, "45"), "cascade")};
    expected = Answer::nothing;
  }
  SUBCASE("a victim opens nothing, whatever its class") {
    sick.incidents = {{"i1", "elsewhere", false}};
    sick.findings = {member(found(RepairClass::replace_node, "145", "nvlink"), "victim")};
    expected = Answer::nothing;
  }
  SUBCASE("a companion whose root did not fit into the report stands for itself") {
    sick.findings = {member(found(RepairClass::replace_node, "64"), "companion")};
    code = "64";
  }
  SUBCASE("still gathering") {
    sick.incidents[0].gathering = true;
    sick.findings = {member(root, "root")};
    expected = Answer::gathering;
  }
  SUBCASE("still gathering, but the root is unambiguous") {
    sick.incidents[0].gathering = true;
    root.at_once = true;
    sick.findings = {member(root, "root")};
  }
  SUBCASE("two incidents: the one that may act does") {
    sick.incidents = {{"i1", "48", true}, {"i2", "79", false}};
    auto other = found(RepairClass::replace_node, "79");
    other.incident = "i2", other.role = "root";
    sick.findings = {member(root, "root"), other};
    code = "79";
  }
  SUBCASE("at most eight companions are named") {
    sick.findings = {member(root, "root")};
    for (int i = 0; i < 12; ++i) sick.findings.push_back(member(found(false), "companion"));
    companions.assign(8, "xid 79");
  }
  Plan result = plan(sick, {}, policy, now);
  CHECK(result.answer == expected);
  CHECK_FALSE(result.reason.empty());
  if (expected == Answer::open) {
    CHECK(result.fault.code == code);
    CHECK(result.companions == companions);
    CHECK(result.name == repair_name("uid-1", "boot-1"));
  }
  CHECK(result.look_again.has_value() == (expected == Answer::gathering));
}

// class | policy | stood for | the answer
TEST_CASE("what is not replaced at once") {
  SickNode sick = sick_node();
  Policy policy;
  policy.reset_fallback = RepairClass::replace_node;
  Answer expected = Answer::advice;
  std::string says;

  SUBCASE("reset, and the policy only watches") {
    policy.reset_fallback = RepairClass::watch;
    sick.findings = {found(RepairClass::reset, "119")};
    says = "resetFallback";
  }
  SUBCASE("reset: somebody else has time to do it") {
    sick.findings = {found(RepairClass::reset, "119")};
    sick.findings[0].held = 59 * second;
    expected = Answer::holding;
    says = "cannot reset a GPU yet";
  }
  SUBCASE("reset: nobody did") {
    sick.findings = {found(RepairClass::reset, "119")};
    sick.findings[0].held = 60 * second;
    expected = Answer::open;
  }
  SUBCASE("a reset that stands does not hold up what is replaced at once") {
    sick.findings = {found(RepairClass::reset, "119"), found(true)};
    expected = Answer::open;
    says = "xid 79";
  }
  SUBCASE("drain after the job") {
    sick.findings = {found(RepairClass::drain_after_job, "63")};
    sick.verdict = "Degraded";
    says = "does not drain by itself yet";
  }
  SUBCASE("restart the job: the node is not to blame") {
    sick.findings = {found(RepairClass::restart_job, "13")};
    sick.verdict = "Healthy";
    expected = Answer::nothing;
  }
  SUBCASE("another detector's condition that is only watched") {
    sick.findings = {found(RepairClass::watch, "KERNEL_DEADLOCK", "kernel")};
    sick.findings[0].fault.source = "condition:KernelDeadlock=True";
    sick.findings[0].title = "Node condition KernelDeadlock is True";
    sick.verdict = "Healthy";
    says = "KernelDeadlock is True";
  }
  SUBCASE("the same, but it has not stood long enough: it may be flapping") {
    sick.findings = {found(RepairClass::watch, "KERNEL_DEADLOCK", "kernel")};
    sick.findings[0].fault.source = "condition:KernelDeadlock=True";
    sick.findings[0].wanted = second;
    sick.verdict = "Healthy";
    expected = Answer::nothing;
  }
  Plan result = plan(sick, {}, policy, now);
  CHECK(result.answer == expected);
  CHECK_MESSAGE(result.reason.find(says) != std::string::npos, result.reason);
  if (expected == Answer::holding) CHECK(result.look_again == second);
}

// Node conditions and silence count whatever the agent's verdict is
TEST_CASE("what other detectors have seen") {
  SickNode sick = sick_node();
  sick.verdict = "Healthy";
  sick.findings = {found(true)};
  sick.findings[0].fault.source = "condition:NebiusGPUError=True";
  sick.findings[0].epoch = "NebiusGPUError/True|2025-11-30";
  sick.findings[0].held = sick.findings[0].wanted = 60 * second;
  std::vector<OpenRepair> repairs;
  Answer expected = Answer::open;

  SUBCASE("it stood long enough") {}
  SUBCASE("it did not") { sick.findings[0].held = 59 * second, expected = Answer::holding; }
  SUBCASE("a victim of the agent's beside it changes nothing") {
    sick.findings.push_back(member(found(true), "victim"));
  }
  SUBCASE("a person cancelled a repair of this node after it began: it was about that") {
    repairs = {repair_of("n1", Phase::cancelled)};
    repairs[0].opened_at = now + second;
    repairs[0].node_uid = "uid-1";
    expected = Answer::already;
  }
  SUBCASE("a repair from before it began says nothing") {
    repairs = {repair_of("n1", Phase::cancelled)};
    repairs[0].opened_at = now - second;
    repairs[0].node_uid = "uid-1";
  }
  SUBCASE("a repair of another node of that name, long ago") {
    repairs = {repair_of("n1", Phase::done)};
    repairs[0].opened_at = now + second;
    repairs[0].node_uid = "uid-0";
  }
  Plan result = plan(sick, repairs, {}, now);
  CHECK(result.answer == expected);
  if (expected == Answer::open) {
    CHECK(result.name != repair_name("uid-1", "boot-1"));  // another one of the same boot can follow
    CHECK(result.name == plan(sick, repairs, {}, now).name);
  }
}

//  nodes with one cause | pool | the latest | a trial open | the answer
TEST_CASE("the breaker: one cause on many nodes") {
  struct Row {
    int peers, done, open, drills, withdrawn, other_cause;
    int nodes;
    int latest_s;  // how long ago the latest of them was
    Answer answer;
    const char* what;
  };
  using enum Answer;
  constexpr Row rows[] = {
      {2, 0, 0, 0, 0, 0, 10, 0, open, "three nodes of ten: that happens"},
      {3, 0, 0, 0, 0, 0, 10, 0, breaker, "a fourth"},
      {0, 3, 0, 0, 0, 0, 10, 5, breaker, "repairs that are over count within the window"},
      {0, 3, 0, 0, 0, 0, 10, 601, open, "and not after it"},
      {1, 1, 1, 0, 0, 0, 10, 5, breaker, "all kinds together"},
      {9, 0, 0, 0, 0, 0, 100, 0, open, "ten of a hundred"},
      {10, 0, 0, 0, 0, 0, 100, 0, breaker, "eleven of a hundred"},
      {0, 0, 0, 9, 0, 0, 10, 0, open, "drills say nothing about a cause"},
      {0, 0, 0, 0, 9, 0, 10, 0, open, "withdrawn repairs changed nothing"},
      {0, 0, 0, 0, 0, 9, 10, 0, open, "another cause is another matter"},
      {9, 0, 0, 0, 0, 0, 10, 599, breaker, "not quiet for long enough"},
      {9, 0, 0, 0, 0, 0, 10, 600, open, "half open: one is let through"},
      {9, 0, 1, 0, 0, 0, 10, 700, breaker, "while that trial runs nobody else is"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    SickNode sick = sick_node();
    TimePoint then = now - row.latest_s * second;
    sick.findings[0].fault.observed_at = then;
    sick.pool->nodes = row.nodes;
    Policy policy;
    policy.max_concurrent = 100, policy.max_percent = 100;
    std::vector<SickPeer> peers;
    peers.reserve(static_cast<size_t>(row.peers));
    std::vector<OpenRepair> repairs;
    for (int i = 0; i < row.peers; ++i) peers.push_back({"p" + std::to_string(i), "gpu-xid", "79", then});
    auto add = [&](int count, Phase phase, bool drill, const std::string& code) {
      for (int i = 0; i < count; ++i) {
        auto repair = repair_of("r" + std::to_string(repairs.size()), phase, "rep-" + std::to_string(repairs.size()));
        repair.component = "gpu-xid", repair.code = code, repair.drill = drill, repair.opened_at = then;
        repairs.push_back(repair);
      }
    };
    add(row.done, Phase::done, false, "79");
    add(row.open, Phase::draining, false, "79");
    add(row.drills, Phase::done, true, "79");
    add(row.withdrawn, Phase::cancelled, false, "79");
    add(row.other_cause, Phase::done, false, "48");
    Plan result = plan(sick, repairs, policy, now, peers);
    CHECK_MESSAGE(result.answer == row.answer, result.reason);
    CHECK(result.look_again.has_value() == (row.answer == breaker));
    if (row.answer == breaker) {
      CHECK(result.reason.find("nodes of pool pool") != std::string::npos);
      CHECK(*result.look_again >= second);
    }
    sick.findings[0].fault.drill = true;
    CHECK(plan(sick, repairs, policy, now, peers).answer == open);  // a drill itself is not held back
  }
}

TEST_CASE("a node whose clock runs ahead does not keep the breaker shut for ever") {
  SickNode sick = sick_node();
  sick.findings[0].fault.observed_at = now - 3600 * second;
  std::vector<SickPeer> peers;
  peers.reserve(5);
  for (int i = 0; i < 5; ++i) peers.push_back({"p" + std::to_string(i), "gpu-xid", "79", now + 86'400 * second});
  Plan shut = plan(sick, {}, {}, now, peers);
  CHECK(shut.answer == Answer::breaker);
  CHECK(*shut.look_again == 60 * second);
  CHECK(plan(sick, {}, {}, now + 86'400 * second + 600 * second, peers).answer == Answer::open);
}
