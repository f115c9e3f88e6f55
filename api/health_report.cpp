#include "api/health_report.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <tuple>

#include "io/json.hpp"

namespace homeostat::api {

namespace {

HealthFinding to_api(const fault::LedgerEntry& entry, const fault::IncidentSet& set,
                     std::span<const fault::PolicyRule> rules) {
  const auto& finding = entry.finding;
  HealthFinding out;
  out.id = entry.id;
  out.component = finding.component;
  out.code = finding.code;
  out.device = finding.device;
  out.severity = fault::to_string(finding.severity);
  out.action = finding.action;
  out.first_seen = entry.first_seen;
  out.last_seen = entry.last_seen;
  out.count = static_cast<std::int64_t>(entry.count);
  out.evidence = entry.evidence;
  out.drill = finding.injected || finding.drill;
  out.title = finding.title;
  out.repair_class = fault::to_string(fault::treatment(entry, rules).repair_class);
  const auto is_mine = [&](const fault::IncidentMember& member) { return member.finding == entry.id; };
  for (const auto& incident : set.incidents) {
    const auto member = std::find_if(incident.members.begin(), incident.members.end(), is_mine);
    if (member == incident.members.end()) continue;
    out.incident = incident.id;
    out.role = fault::to_string(member->role);
  }
  return out;
}

HealthIncident to_api(const fault::Incident& incident) {
  HealthIncident out;
  out.id = incident.id;
  out.root = incident.root;
  out.title = incident.title;
  out.repair_class = fault::to_string(incident.repair_class);
  out.state = fault::to_string(incident.state);
  out.first_seen = incident.since;
  out.last_seen = incident.last_seen;
  out.left_out = static_cast<std::int64_t>(incident.left_out);
  out.members.reserve(incident.members.size());
  for (const auto& member : incident.members)
    out.members.push_back({member.finding, std::string(fault::to_string(member.role))});
  return out;
}

void cut(std::string& text, size_t longest) {
  if (text.size() <= longest) return;
  text.resize(longest > 3 ? longest - 3 : 0);
  text += "...";
}

size_t size_of(const NodeHealthStatus& status) { return io::to_text(encode_node_health_status(status)).size(); }

void cut_texts(NodeHealthStatus& status, size_t longest) {
  for (auto& finding : status.findings) cut(finding.evidence, longest), cut(finding.title, longest);
  for (auto& incident : status.incidents) cut(incident.title, longest);
  for (auto& device : status.devices) cut(device.message, longest);
  for (auto& sensor : status.sensors) cut(sensor.message, longest);
  for (auto& job : status.performance) cut(job.note, longest);
}

// Takes a finding out of the lists; an incident without its root goes with it.
void drop(NodeHealthStatus& status, std::vector<HealthFinding>::iterator finding) {
  const auto id = finding->id;
  status.findings.erase(finding);
  ++status.dropped_findings;
  status.left_out_incidents +=
      static_cast<std::int64_t>(std::erase_if(status.incidents, [&](const auto& i) { return i.root == id; }));
  for (auto& incident : status.incidents)
    incident.left_out +=
        static_cast<std::int64_t>(std::erase_if(incident.members, [&](const auto& m) { return m.finding == id; }));
}

// The mildest, those that no incident hangs on first, and of them the oldest.
auto importance(const HealthFinding& finding) {
  const auto severity = fault::parse_severity(finding.severity).value_or(fault::Severity::none);
  return std::make_tuple(finding.role == "root", severity, finding.last_seen);
}

}  // namespace

void fill_findings(NodeHealthStatus& status, std::span<const fault::LedgerEntry> entries,
                   const fault::IncidentSet& incidents, std::span<const fault::PolicyRule> rules) {
  status.findings.clear();
  status.incidents.clear();
  status.findings.reserve(entries.size());
  status.incidents.reserve(incidents.incidents.size());
  for (const auto& entry : entries) status.findings.push_back(to_api(entry, incidents, rules));
  for (const auto& incident : incidents.incidents) status.incidents.push_back(to_api(incident));
  status.left_out_incidents = static_cast<std::int64_t>(incidents.left_out);
}

size_t fit_status(NodeHealthStatus& status, size_t max_bytes) {
  auto bytes = size_of(status);
  for (const size_t longest : {200, 120, 60}) {
    if (bytes <= max_bytes) return bytes;
    cut_texts(status, longest);
    bytes = size_of(status);
  }
  while (bytes > max_bytes && !status.findings.empty()) {
    drop(status, std::min_element(status.findings.begin(), status.findings.end(),
                                  [](const auto& a, const auto& b) { return importance(a) < importance(b); }));
    bytes = size_of(status);
  }
  return bytes;
}

}  // namespace homeostat::api
