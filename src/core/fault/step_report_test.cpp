#include "core/fault/step_report.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::fault;

namespace {

const TimePoint noon = TimePoint(std::chrono::seconds(1'800'000'000));

StepReport rank(std::int64_t number, double compute_s, const std::string& job = "12", std::int64_t uid = 1000) {
  return {
      job, "", number, uid, 40 + number, 0.5, compute_s, compute_s > 0 ? 0.5 - compute_s : 0, noon + Duration(number),
      true};
}

}  // namespace

//   rank 0 ████░ rank 1 ████░ rank 2 █████ rank 3 ████░      the node is as slow as its slowest rank
TEST_CASE("a node is as slow as its slowest rank") {
  const StepReport reports[] = {rank(0, 0.30), rank(1, 0.31), rank(2, 0.45), rank(3, 0.30)};
  const auto all = gather_steps(reports);
  REQUIRE(all.size() == 1);
  CHECK(all[0].job == "12");
  CHECK(all[0].uid == 1000);
  CHECK(all[0].ranks == 4);
  CHECK(all[0].step == 43);
  CHECK(all[0].compute_s == 0.45);
  CHECK(all[0].wait_s == doctest::Approx(0.05));
  CHECK(all[0].step_s == 0.5);
  CHECK(all[0].slowest_rank == 2);
  CHECK(all[0].updated_at == noon + Duration(3));
  CHECK(all[0].note == "Rank 2 computes 1.50 times as long as this node's middle rank.");
}

TEST_CASE("what only some ranks tell is not compared, and whole steps name no rank") {
  StepReport reports[] = {rank(0, 0.30), rank(1, 0), rank(2, 0.45)};
  auto all = gather_steps(reports);
  REQUIRE(all.size() == 1);
  CHECK(all[0].compute_s == 0);
  CHECK(all[0].slowest_rank == -1);
  CHECK(all[0].note.empty());
}

TEST_CASE("ranks whose process is gone do not count; a job all of whose ranks are gone is over") {
  StepReport reports[] = {rank(0, 0.30), rank(1, 0.9), rank(0, 0.3, "13")};
  reports[1].alive = reports[2].alive = false;
  const auto all = gather_steps(reports);
  REQUIRE(all.size() == 1);
  CHECK(all[0].ranks == 1);
  CHECK(all[0].compute_s == 0.30);
  CHECK(all[0].note == "1 rank has ended.");
}

//   job 12: ranks 0 and 1 of user 1000, "rank 5" of user 1001      a stranger cannot slow the job down
TEST_CASE("reports of another user and of other groups are kept apart") {
  StepReport reports[] = {rank(0, 0.30), rank(1, 0.30), rank(5, 0.49, "12", 1001), rank(2, 0.45)};
  reports[3].group = "stage1";
  const auto all = gather_steps(reports);
  REQUIRE(all.size() == 3);
  CHECK(all[0].ranks == 2);
  CHECK(all[0].compute_s == 0.30);
  for (const auto& steps : all) CHECK((steps.uid == 1001) == (steps.compute_s == 0.49));
}

TEST_CASE("a node with very many jobs tells the largest") {
  std::vector<StepReport> reports;
  for (int job = 1; job <= 40; ++job)
    for (int number = 0; number < (job == 33 ? 8 : 1); ++number)
      reports.push_back(rank(number, 0.3, std::to_string(job)));
  const auto all = gather_steps(reports);
  CHECK(all.size() == 16);
  CHECK(all[0].job == "33");
  CHECK(gather_steps({}).empty());
}
