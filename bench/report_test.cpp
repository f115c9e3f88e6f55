#include "report.hpp"

#include <doctest/doctest.h>

using homeostat::bench::Measure;

TEST_CASE("the worst run decides whether a bound holds, and no run at all breaks it") {
  Measure m{"heal.pool_whole_s", "s", 90, {30, 91, 40}};
  CHECK(m.median() == 40);
  CHECK(m.worst() == 91);
  CHECK_FALSE(m.holds());
  m.runs = {30, 40};
  CHECK(m.median() == 35);
  CHECK(m.holds());
  m.runs.clear();
  CHECK_FALSE(m.holds());
}

TEST_CASE("a measure without a bound is for comparison: it holds once it was taken") {
  const Measure m{"heal.plain_slurm_end_to_running_s", "s", std::nullopt, {121.4}};
  CHECK(m.holds());
  CHECK(homeostat::bench::to_json({m}) ==
        R"({"heal.plain_slurm_end_to_running_s":{"median":1.214E2,"worst":1.214E2,"bound":null,"unit":"s","runs":1}})");
  CHECK(homeostat::bench::table({m}).find("121.40    121.40       -     s     1") != std::string::npos);
}
