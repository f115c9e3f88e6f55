#include "api/health_report.hpp"

#include <doctest/doctest.h>

#include <boost/json/object.hpp>
#include <set>

#include "core/fault/classify.hpp"
#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::api;

namespace {

TimePoint at(int seconds) { return TimePoint(std::chrono::seconds(1'700'000'000 + seconds)); }

fault::Finding finding_of(std::string component, std::string code, std::string device, fault::Severity severity) {
  fault::Finding finding;
  finding.component = std::move(component);
  finding.code = std::move(code);
  finding.device = std::move(device);
  finding.severity = severity;
  finding.title = std::string(1'000, '"');  // each becomes two characters in JSON
  finding.repair_class = fault::RepairClass::reset;
  return finding;
}

NodeHealthStatus report(const fault::Ledger& ledger) {
  NodeHealthStatus status;
  fill_findings(status, ledger.entries(), fault::incidents_of(ledger.entries(), {}, at(100)), {});
  return status;
}

size_t json_size(const NodeHealthStatus& status) { return io::to_text(encode_node_health_status(status)).size(); }

}  // namespace

TEST_CASE("findings carry their class, incident and role; incidents their members") {
  fault::Ledger ledger;
  for (std::string_view line : {"NVRM: Xid (PCI:0000:0a:00): 79, x", "NVRM: Xid (PCI:0000:0a:00): 45, x",
                                "python invoked oom-killer: gfp_mask=0x201d2, order=0"})
    ledger.observe(*fault::classify_text(line), at(0), line);
  ledger.settle(at(0));
  const auto status = report(ledger);
  REQUIRE(status.findings.size() == 3);
  REQUIRE(status.incidents.size() == 1);
  const auto& incident = status.incidents[0];
  CHECK(incident.root == "gpu-xid:79@0000:0a:00");
  CHECK(incident.repair_class == "replace-node");
  CHECK(incident.state == "Open");
  CHECK(incident.first_seen == at(0));
  REQUIRE(incident.members.size() == 2);
  CHECK(status.findings[0].incident == incident.id);
  CHECK(status.findings[0].role == "root");
  CHECK(status.findings[0].repair_class == "replace-node");
  CHECK(status.findings[1].role == "cascade");
  CHECK(status.findings[2].incident.empty());  // a note is no incident
  CHECK(status.findings[2].role.empty());
}

TEST_CASE("the worst that a node can say fits, and what matters stays") {
  fault::Ledger ledger;
  for (int i = 0; i < 64; ++i) {
    const auto name = std::string(300, static_cast<char>('a' + i % 26)) + std::to_string(i);
    auto finding = finding_of(std::to_string(i) + name, std::to_string(i) + name, std::to_string(i) + name,
                              i == 63 ? fault::Severity::fatal : fault::Severity::warn);
    ledger.observe(finding, at(i), std::string(5'000, '\\'));
  }
  ledger.settle(at(64));
  auto status = report(ledger);
  for (int i = 0; i < 64; ++i)
    status.devices.push_back({"0000:" + std::to_string(i), i, std::string(128, 'u'), "Good", std::string(1'024, '"')});
  for (int i = 0; i < 16; ++i) {
    status.sensors.push_back({"sensor-" + std::to_string(i), "Failed", std::string(1'024, '"')});
    JobPerformance job;
    job.job = std::to_string(i);
    job.note = std::string(512, '"');
    status.performance.push_back(job);
  }
  CHECK(json_size(status) > max_status_bytes);
  const auto bytes = fit_status(status);
  CHECK(bytes == json_size(status));
  CHECK(bytes <= max_status_bytes);
  CHECK(status.findings.size() + static_cast<size_t>(status.dropped_findings) == 64);
  CHECK(status.findings.back().severity == "fatal");
  // What is listed is whole: every root and member has its finding.
  std::set<std::string> ids;
  for (const auto& finding : status.findings) ids.insert(finding.id);
  CHECK(ids.size() == status.findings.size());
  for (const auto& incident : status.incidents) {
    CHECK(ids.contains(incident.root));
    for (const auto& member : incident.members) CHECK(ids.contains(member.finding));
  }
}

TEST_CASE("what fits is left as it is; what cannot fit ends with no findings rather than never") {
  fault::Ledger ledger;
  ledger.observe(*fault::classify_text("NVRM: Xid (PCI:0000:0a:00): 79, x"), at(0), std::string(300, 'e'));
  ledger.settle(at(0));
  auto status = report(ledger);
  const auto before = status.findings;
  CHECK(fit_status(status) == json_size(status));
  CHECK(status.findings == before);
  fit_status(status, 10);
  CHECK(status.findings.empty());
  CHECK(status.incidents.empty());
  CHECK(status.dropped_findings == 1);
  CHECK(status.left_out_incidents == 1);
}

TEST_CASE("whatever bytes a line holds, what is reported is printable and within the schema") {
  fault::Ledger ledger;
  ledger.observe(finding_of("filesystem", "FS_ERROR", "\xff\xfe\n" + std::string(500, 'd'), fault::Severity::fatal),
                 at(0), "\xc3\x28");
  ledger.settle(at(0));
  const auto status = report(ledger);
  const auto& finding = status.findings.at(0);
  CHECK(finding.id.size() <= 256);
  CHECK(finding.device.starts_with("???ddd"));
  CHECK(finding.device.size() <= 128);
  CHECK(finding.title.size() <= 512);
  CHECK(finding.evidence == "?(");
  CHECK(status.incidents.at(0).id.size() <= 320);
}
