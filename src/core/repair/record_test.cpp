#include "core/repair/record.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace homeostat;
using namespace homeostat::repair;

// From \ to: which phase may follow which, one row per phase in the order of all_phases.
//                                     Ob No St Re Dr Rp Ve Do Bl Ca Fa
constexpr const char* table[] = {
    /* Observed  */ "x  x  .  .  .  .  .  .  .  x  .",
    /* Notified  */ ".  x  x  .  .  .  .  .  .  x  .",
    /* Stopping  */ ".  .  x  x  .  .  .  .  .  x  .",
    /* Requeued  */ ".  .  .  x  x  .  .  .  .  .  .",
    /* Draining  */ ".  .  .  .  x  x  .  .  x  x  .",
    /* Replacing */ ".  .  .  .  .  x  x  .  x  x  x",
    /* Verifying */ ".  .  .  .  .  x  x  x  .  .  x",
    /* Done      */ ".  .  .  .  .  .  .  x  .  .  .",
    /* Blocked   */ ".  .  .  .  x  x  .  .  x  x  .",
    /* Cancelled */ ".  .  .  .  .  .  .  .  .  x  .",
    /* Failed    */ ".  .  .  .  .  .  .  .  .  .  x",
};

TEST_CASE("the transition table of a repair, all of it") {
  constexpr Phase columns[] = {Phase::observed, Phase::notified,  Phase::stopping,  Phase::requeued,
                               Phase::draining, Phase::replacing, Phase::verifying, Phase::done,
                               Phase::blocked,  Phase::cancelled, Phase::failed};
  for (size_t from = 0; from < std::size(columns); ++from)
    for (size_t to = 0; to < std::size(columns); ++to) {
      CAPTURE(to_string(columns[from]));
      CAPTURE(to_string(columns[to]));
      CHECK(may_follow(columns[from], columns[to]) == (table[from][to * 3] == 'x'));
    }
}

TEST_CASE("every phase has a spelling that reads back") {
  for (Phase phase : all_phases) CHECK(parse_phase(to_string(phase)) == phase);
  CHECK_FALSE(parse_phase("observed").has_value());
  CHECK_FALSE(parse_phase("").has_value());
}

TEST_CASE("a repair's name follows from node and boot alone") {
  CHECK(repair_name("uid-1", "boot-1") == repair_name("uid-1", "boot-1"));
  CHECK(repair_name("uid-1", "boot-1") != repair_name("uid-1", "boot-2"));
  CHECK(repair_name("ab", "c") != repair_name("a", "bc"));
  CHECK(repair_name("uid", "boot").size() == 20);
  CHECK(repair_name("", "").starts_with("rep-"));
}

TEST_CASE("a machine's name follows from its token, and different tokens rarely share one") {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(machine_name("pool", "rep-" + std::to_string(i)));
  CHECK(names.size() >= 999);
  CHECK(machine_name("pool", "t") == machine_name("pool", "t"));
  CHECK(machine_name("pool", "t").size() == 10);
}

TEST_CASE("the reason that Slurm shows") {
  Record record;
  record.name = "rep-1";
  record.fault.component = "gpu-xid";
  record.fault.code = "79";
  record.fault.device = "0000:17:00";
  CHECK(slurm_reason(record) == "homeostat: rep-1: xid 79 on 0000:17:00");
  record.fault.device = "";
  CHECK(slurm_reason(record) == "homeostat: rep-1: xid 79");
}

TEST_CASE("a step keeps its first intent, and a closed one stays closed") {
  Record record;
  intend(record, "slurm_down", "op-1", TimePoint{Duration{1}});
  intend(record, "slurm_down", "op-2", TimePoint{Duration{2}});
  REQUIRE(record.steps.size() == 1);
  CHECK(record.steps[0].operation_id == "op-1");
  note_failure(record, "slurm_down", "no answer");
  CHECK(record.steps[0].outcome == "failed");
  finish(record, "slurm_down", TimePoint{Duration{3}});
  note_failure(record, "slurm_down", "late");
  finish(record, "slurm_down", TimePoint{Duration{9}});
  CHECK(record.steps[0].outcome == "ok");
  CHECK(record.steps[0].finished_at == TimePoint{Duration{3}});
}

TEST_CASE("a record's lists are bounded and keep how the repair began") {
  Record record;
  enter(record, Phase::observed, TimePoint{});
  for (int i = 0; i < 1000; ++i) enter(record, i % 2 ? Phase::draining : Phase::blocked, TimePoint{Duration{i}});
  CHECK(record.phases.size() <= 64);
  CHECK(record.phases.front().phase == Phase::observed);
  for (int i = 0; i < 1000; ++i) intend(record, "s" + std::to_string(i), "", TimePoint{});
  CHECK(record.steps.size() <= 256);
}
