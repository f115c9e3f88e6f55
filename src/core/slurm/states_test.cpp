#include "core/slurm/states.hpp"

#include <doctest/doctest.h>

using namespace homeostat::slurm;

// states                       down drain completing jobs takes
TEST_CASE("node states") {
  struct Row {
    StateSet states;
    bool down, drain, completing, jobs, takes;
  };
  const Row rows[] = {
      {{"IDLE", "DYNAMIC_NORM"}, false, false, false, false, true},
      {{"MIXED"}, false, false, false, true, true},
      {{"ALLOCATED", "DRAIN"}, false, true, false, true, false},
      {{"DOWN", "DRAIN", "DYNAMIC_NORM"}, true, true, false, false, false},
      {{"IDLE", "DRAIN", "UNDRAIN"}, false, false, false, false, false},
      {{"IDLE", "COMPLETING"}, false, false, true, true, true},
      {{"IDLE", "NOT_RESPONDING"}, false, false, false, false, false},
      {{"IDLE", "A_WORD_OF_THE_FUTURE"}, false, false, false, false, true},
      {{"UNKNOWN"}, false, false, false, false, false},
      {{}, false, false, false, false, false},
  };
  for (const auto& row : rows) {
    CAPTURE(to_string(row.states));
    CHECK(node_is_down(row.states) == row.down);
    CHECK(node_is_drain(row.states) == row.drain);
    CHECK(node_is_completing(row.states) == row.completing);
    CHECK(node_has_jobs(row.states) == row.jobs);
    CHECK(node_takes_jobs(row.states) == row.takes);
  }
  CHECK(node_is_dynamic({"IDLE", "DYNAMIC_NORM"}));
  CHECK_FALSE(node_is_dynamic({"IDLE"}));
}

// A requeued job is PENDING+COMPLETING while its processes die: neither in the queue nor running.
TEST_CASE("job states") {
  struct Row {
    StateSet states;
    bool running, pending, completing, active, ended;
  };
  const Row rows[] = {
      {{"RUNNING"}, true, false, false, true, false},
      {{"PENDING"}, false, true, false, true, false},
      {{"PENDING", "COMPLETING"}, false, false, true, true, false},
      {{"RUNNING", "COMPLETING"}, false, false, true, true, false},
      {{"NODE_FAIL", "COMPLETING"}, false, false, true, false, false},
      {{"NODE_FAIL"}, false, false, false, false, true},
      {{"COMPLETED"}, false, false, false, false, true},
      {{"SUSPENDED"}, false, false, false, true, false},
      {{}, false, false, false, false, false},
  };
  for (const auto& row : rows) {
    CAPTURE(to_string(row.states));
    CHECK(job_is_running(row.states) == row.running);
    CHECK(job_is_pending(row.states) == row.pending);
    CHECK(job_is_completing(row.states) == row.completing);
    CHECK(job_is_active(row.states) == row.active);
    CHECK(job_is_ended(row.states) == row.ended);
  }
}

TEST_CASE("only reasons with our prefix are ours") {
  CHECK(reason_is_ours("homeostat: rep-1 xid 79"));
  CHECK_FALSE(reason_is_ours("Not responding"));
  CHECK_FALSE(reason_is_ours("see homeostat: rep-1"));
  CHECK_FALSE(reason_is_ours(""));
}
