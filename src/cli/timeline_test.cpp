#include "cli/timeline.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::cli;

namespace {

TimePoint at(int s, int ms = 0) {
  return *parse_rfc3339("2026-11-30T10:00:00Z") + std::chrono::seconds(s) + Duration(ms);
}

std::string line(int s, int rank, const std::string& message) {
  return format_rfc3339(at(s)) + " rank " + std::to_string(rank) + ": " + message + "\n";
}

// Two ranks; the fault comes at 20 s; both hear SIGTERM at step 17, rank 0 saves it, the job comes back at 30 s.
std::string healed_log() {
  return line(1, 0, "rank 0 of 2 on gpu-aaaaa, restart 0") + line(1, 1, "rank 1 of 2 on gpu-bbbbb, restart 0") +
         line(2, 0, "starting at step 0") + line(10, 0, "step 16 loss 0.5000") + line(21, 0, "step 17 loss 0.4000") +
         line(21, 0, "SIGTERM received at step 17") + line(21, 1, "SIGTERM received at step 17") +
         line(21, 0, "checkpoint saved at step 17") + line(29, 0, "rank 0 of 2 on gpu-aaaaa, restart 1") +
         line(30, 0, "resumed from step 17") + line(31, 0, "step 18 loss 0.3900");
}

repair::Record healed_record() {
  repair::Record record;
  record.node = "gpu-bbbbb";
  record.fault.component = "gpu-xid";
  record.fault.code = "79";
  record.fault.observed_at = at(20, 50);
  record.slurm_down_at = at(20, 400);
  record.processes_gone_at = at(22);
  record.running_again_at = at(25);
  record.pool_whole_at = at(40);
  record.steps = {{"notify", "r/notify", at(20, 100), at(20, 200), "ok", ""},
                  {"cordon", "r/cordon", at(23), at(23, 100), "ok", ""},
                  {"promote_spare/gpu-ccccc", "r/promote", at(21), at(21, 500), "ok", ""}};
  return record;
}

}  // namespace

TEST_CASE("the log of train.py reads as events; other and half-written lines are skipped") {
  const auto log = parse_train_log("noise\n" + healed_log() + "2026-11-30T10:00:59.000Z rank 0: step 9");
  REQUIRE(log.size() == 11);
  CHECK(log[1].kind == TrainEvent::Kind::placed);
  CHECK(log[1].node == "gpu-bbbbb");
  CHECK(log[3].step == 16);
  CHECK(log[6].rank == 1);
  CHECK(log[9].kind == TrainEvent::Kind::resumed);
  CHECK(parse_train_log("\n\n rank x: step 1\n2026-11-30T10:00:59Z rank 0: step loss\n").empty());
}

TEST_CASE("figures: times since the fault, every rank told, no step lost") {
  const auto f = figures({7, "gpu-bbbbb", at(0), at(20)}, healed_record(), parse_train_log(healed_log()));
  CHECK(*f.fault_to_down_s == doctest::Approx(0.4));
  CHECK(*f.end_to_running_s == doctest::Approx(3.0));
  CHECK(*f.pool_whole_s == doctest::Approx(20.0));
  CHECK(f.ranks_told == 2);
  CHECK(f.saved_step == 17);
  CHECK(f.resumed_step == 17);
  CHECK(f.steps_lost == 0);
}

TEST_CASE("a resume from an older checkpoint shows what was lost") {
  auto log = healed_log();
  log.replace(log.find("resumed from step 17"), 20, "resumed from step 12");
  const auto f = figures({7, "gpu-bbbbb", at(0), at(20)}, healed_record(), parse_train_log(log));
  CHECK(f.steps_lost == 5);
}

TEST_CASE("the timeline is in the order of time, each row with its time since the fault") {
  const HealFacts facts{7, "gpu-bbbbb", at(0), at(20)};
  const auto record = healed_record();
  const auto rows = timeline(facts, &record, parse_train_log(healed_log()));
  std::string names;
  for (const auto& row : rows) names += row.what + "|";
  CHECK(names ==
        "submit|training from step 0|fault injected|detected|people notified|Slurm node DOWN|SIGTERM|checkpoint "
        "saved|spare joined|"
        "processes gone|node cordoned|job running again|resumed|pool whole|");
  CHECK(format_row(rows[5], facts.fault_at) == "    +0.4s  Slurm node DOWN       gpu-bbbbb");
  CHECK(format_row(rows[0], facts.fault_at).starts_with("   -20.0s  submit"));
}

TEST_CASE("before anything has happened there is nothing to tell, and nothing is made up") {
  CHECK(timeline({}, nullptr, {}).empty());
  const auto f = figures({7, "n", at(0), at(20)}, {}, {});
  CHECK_FALSE(f.fault_to_down_s.has_value());
  CHECK_FALSE(f.steps_lost.has_value());
  CHECK(summary(f).find("not seen") != std::string::npos);
}
