#include "api/repair.hpp"

#include <doctest/doctest.h>

using namespace homeostat;

TEST_CASE("a Repair survives writing and reading, all of it") {
  TimePoint t{Duration{1'764'483'000'123}};
  repair::Record record;
  record.name = "rep-1";
  record.node = "n", record.node_uid = "u", record.pool = "p", record.workers = "ns.c.g", record.boot_id = "b";
  record.fault = {"gpu-xid", "79", "0000:17:00", "fatal", "RESTART_BM", "a line", t, true, "condition:A=True"};
  record.companions = {"xid 45 on 0000:17:00", "nvlink 74"};
  record.phase = repair::Phase::verifying;
  record.message = "m", record.next_look = t;
  record.phases = {{repair::Phase::observed, t}, {repair::Phase::verifying, t}};
  record.steps = {{"slurm_down", "rep-1/slurm_down", t, t, "ok", "x"},
                  {"fence", "rep-1/fence", t, std::nullopt, "", ""}};
  record.jobs = {{7, "train", "ada", true, 2, {"n", "m"}, "running again"}};
  record.slurm_down_at = record.processes_gone_at = record.running_again_at = record.pool_whole_at = t;
  record.spare_node = "s";
  record.replacement = {"rep-1-1", 1, "p-abcde", "p-abcde"};
  record.gpu_seconds_lost = 42;
  boost::json::object object{{"metadata", {{"name", "rep-1"}}},
                             {"spec", api::encode_repair_spec(record)},
                             {"status", api::encode_repair_status(record)}};
  CHECK(api::decode_repair(object) == record);
}

TEST_CASE("a Repair that was just created is Observed and empty; nonsense does no harm") {
  repair::Record record = api::decode_repair({{"metadata", {{"name", "rep-1"}}}});
  CHECK(record.phase == repair::Phase::observed);
  CHECK(record.phases.empty());
  record =
      api::decode_repair({{"status", {{"phase", "Dancing"}, {"steps", {1, "x"}}, {"phases", {{{"phase", "Nope"}}}}}}});
  CHECK(record.phase == repair::Phase::observed);
  CHECK(record.steps.empty());
  CHECK(record.phases.empty());
}
