#include "api/node_health.hpp"

#include <doctest/doctest.h>

#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::api;

TEST_CASE("a NodeHealth status survives the way through JSON") {
  NodeHealthStatus status;
  status.boot_id = "b-1";
  status.last_report = *parse_rfc3339("2026-11-30T05:49:34.123Z");
  status.expected_gpus = 8;
  status.devices = {{"0000:17:00", 3, "GPU-1", "Lost", "it does not answer"}};
  HealthFinding finding;
  finding.id = "gpu-xid:79@0000:17:00";
  finding.component = "gpu-xid";
  finding.code = "79";
  finding.device = "0000:17:00";
  finding.severity = "fatal";
  finding.action = "RESTART_BM";
  finding.first_seen = finding.last_seen = status.last_report;
  finding.count = 4;
  finding.evidence = "NVRM: \"quoted\"";
  finding.drill = true;
  finding.title = "It fell off";
  finding.repair_class = "replace-node";
  finding.incident = "inc-1";
  finding.role = "root";
  status.findings = {finding};
  status.dropped_findings = 2;
  status.sensors = {{"nvml", "Failed", "it hangs"}};
  status.incidents = {{"inc-1",
                       finding.id,
                       "It fell off",
                       "replace-node",
                       "Gathering",
                       status.last_report,
                       status.last_report,
                       {{finding.id, "root"}, {"gpu-xid:45@0000:17:00", "cascade"}},
                       3}};
  status.left_out_incidents = 1;
  status.performance = {
      {"42", "stage0", 1000, 8, 1200, 1.25, 1.0, 0.25, 3, 1980, 97, status.last_report, "rank 3 waits for data"}};
  status.forgeries = 4;
  status.verdict = "Unhealthy";
  status.reason = "GpuXid79";
  status.message = "m";

  boost::json::object object{{"metadata", {{"name", "n1"}, {"uid", "u"}, {"resourceVersion", "7"}}},
                             {"status", encode_node_health_status(status)}};
  const auto text = io::to_text(object);
  const auto parsed = io::parse_json_object(text);
  REQUIRE(parsed);
  const auto back = decode_node_health(*parsed);
  CHECK(back.name == "n1");
  CHECK(back.uid == "u");
  CHECK(back.resource_version == "7");
  CHECK(back.status.boot_id == status.boot_id);
  CHECK(back.status.last_report == status.last_report);
  CHECK(back.status.expected_gpus == 8);
  CHECK(back.status.devices == status.devices);
  CHECK(back.status.findings == status.findings);
  CHECK(back.status.dropped_findings == 2);
  CHECK(back.status.sensors == status.sensors);
  CHECK(back.status.incidents == status.incidents);
  CHECK(back.status.left_out_incidents == 1);
  CHECK(back.status.performance == status.performance);
  CHECK(back.status.forgeries == 4);
  CHECK(back.status.verdict == "Unhealthy");
  CHECK(back.status.reason == "GpuXid79");
  CHECK(back.status.message == "m");
}

TEST_CASE("an empty or odd object reads as unknown, never as healthy") {
  CHECK(decode_node_health({}).status.verdict == "Unknown");
  const auto odd = io::parse_json_object(
      R"({"metadata":3,"status":{"devices":7,"findings":[1,{"count":"x","firstSeen":"yesterday"}],
          "incidents":[5,{"members":[1,{"finding":"f"}]}],"sensors":{},"performance":[{"ranks":"many"}],"forgeries":[]}})");
  REQUIRE(odd);
  const auto health = decode_node_health(*odd);
  CHECK(health.status.verdict == "Unknown");
  REQUIRE(health.status.findings.size() == 1);
  CHECK(health.status.findings[0].count == 1);
  CHECK(health.status.findings[0].first_seen == TimePoint{});
  CHECK(health.status.findings[0].repair_class.empty());
  REQUIRE(health.status.incidents.size() == 1);
  CHECK(health.status.incidents[0].state == "Open");
  REQUIRE(health.status.incidents[0].members.size() == 1);
  CHECK(health.status.incidents[0].members[0].finding == "f");
  CHECK(health.status.sensors.empty());
  REQUIRE(health.status.performance.size() == 1);
  CHECK(health.status.performance[0].slowest_rank == -1);
  CHECK(health.status.forgeries == 0);
}

TEST_CASE("what nobody has said is left out of the JSON, for the schema knows no empty word") {
  NodeHealthStatus status;
  status.findings.push_back({});
  const auto text = io::to_text(encode_node_health_status(status));
  for (std::string_view key : {"\"class\"", "\"role\"", "\"incident\"", "\"title\""})
    CHECK(text.find(key) == std::string::npos);
}
