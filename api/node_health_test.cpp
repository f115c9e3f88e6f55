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
  status.findings = {finding};
  status.dropped_findings = 2;
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
  CHECK(back.status.verdict == "Unhealthy");
  CHECK(back.status.reason == "GpuXid79");
  CHECK(back.status.message == "m");
}

TEST_CASE("an empty or odd object reads as unknown, never as healthy") {
  CHECK(decode_node_health({}).status.verdict == "Unknown");
  const auto odd = io::parse_json_object(
      R"({"metadata":3,"status":{"devices":7,"findings":[1,{"count":"x","firstSeen":"yesterday"}]}})");
  REQUIRE(odd);
  const auto health = decode_node_health(*odd);
  CHECK(health.status.verdict == "Unknown");
  REQUIRE(health.status.findings.size() == 1);
  CHECK(health.status.findings[0].count == 1);
  CHECK(health.status.findings[0].first_seen == TimePoint{});
}
