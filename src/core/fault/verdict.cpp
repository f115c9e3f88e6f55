#include "core/fault/verdict.hpp"

#include <algorithm>

#include "core/fault/catalog.hpp"
#include "core/fault/incident.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

bool rule_covers(const PolicyRule& rule, std::string_view component, std::string_view code, std::string_view action) {
  if (!rule.component.empty() && rule.component != component) return false;
  if (!rule.action.empty() && rule.action != action) return false;
  if (rule.code.empty() || rule.code == code) return true;
  return code.size() > rule.code.size() && code.starts_with(rule.code) && code[rule.code.size()] == '/';
}

const PolicyRule* rule_for(const Finding& finding, std::span<const PolicyRule> rules) {
  for (const auto& rule : rules)
    if (rule_covers(rule, finding.component, finding.code, finding.action)) return &rule;
  return nullptr;
}

}  // namespace

Treatment treatment(const Finding& finding, std::span<const PolicyRule> rules) {
  if (const auto* rule = rule_for(finding, rules))
    return {rule->repair_class, finding.unambiguous && rule->repair_class == finding.repair_class};
  return {finding.repair_class, finding.unambiguous};
}

Treatment treatment(const LedgerEntry& entry, std::span<const PolicyRule> rules) {
  const auto how = treatment(entry.finding, rules);
  if (!entry.raised_to || rule_for(entry.finding, rules)) return how;
  return {*entry.raised_to, how.unambiguous && how.repair_class == *entry.raised_to};
}

Treatment treatment(std::string_view component, std::string_view code, Severity severity, std::string_view action,
                    std::span<const PolicyRule> rules) {
  Finding finding;
  finding.component = component;
  finding.code = code;
  finding.severity = severity;
  finding.action = action;
  set_repair_class(finding);
  const bool decoded_elsewhere = contains(code, "/") && !code.starts_with("154/");
  if (component == "gpu-xid" || (component == "nvlink" && !decoded_elsewhere))
    if (const auto* entry = Catalog::instance().xid(code); entry && entry->severity == severity)
      finding.repair_class = entry->repair_class;
  return treatment(finding, rules);
}

std::string_view to_string(NodeVerdict verdict) {
  switch (verdict) {
    case NodeVerdict::healthy:
      return "Healthy";
    case NodeVerdict::degraded:
      return "Degraded";
    case NodeVerdict::unhealthy:
      return "Unhealthy";
    case NodeVerdict::unknown:
      return "Unknown";
  }
  return "Unknown";
}

namespace {

// 0: nothing to say, 1: the node runs with a flaw, 2: the node must not work on.
int weight(RepairClass repair_class, Severity severity) {
  switch (repair_class) {
    case RepairClass::ignore:
    case RepairClass::restart_job:  // the job is at fault, not the node
      return 0;
    case RepairClass::replace_node:
    case RepairClass::reset:
      return 2;
    case RepairClass::drain_after_job:
      return 1;
    case RepairClass::watch:
      return severity >= Severity::error ? 1 : 0;
  }
  return 0;
}

// "gpu-xid" and "79" -> "GpuXid79"
std::string reason_of(const Finding& finding) {
  std::string out;
  bool upper = true;
  for (char c : finding.component) {
    if (!is_alnum(c)) {
      upper = true;
      continue;
    }
    out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = false;
  }
  for (char c : finding.code) out += is_alnum(c) ? c : '_';
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

std::string sentence_of(const Incident& incident) {
  std::string out = incident.cause.component + " " + incident.cause.code;
  if (!incident.cause.device.empty()) out += " on " + incident.cause.device;
  if (!incident.title.empty()) out += ": " + incident.title;
  if (out.back() != '.') out += '.';
  return out;
}

}  // namespace

Judgement judge(const IncidentSet& set, ProbeState probe, std::string_view probe_message) {
  const Incident* worst = nullptr;
  int worst_weight = 0;
  for (const auto& incident : set.incidents) {
    const int w = weight(incident.repair_class, incident.severity);
    // Of equal ones the one that acts at once, then the first seen, names the cause.
    const bool sharper = worst && w == worst_weight && incident.at_once && !worst->at_once;
    if (w > worst_weight || sharper) worst = &incident, worst_weight = w;
  }
  if (worst_weight < 2 && (probe == ProbeState::failed || probe == ProbeState::pending)) {
    const bool failed = probe == ProbeState::failed;
    return {NodeVerdict::unknown, failed ? "ProbeFailed" : "ProbePending",
            probe_message.empty() ? std::string("The device probe has not answered yet.") : std::string(probe_message)};
  }
  if (!worst) return {NodeVerdict::healthy, "NoFaults", "No fault that matters is known."};
  return {worst_weight == 2 ? NodeVerdict::unhealthy : NodeVerdict::degraded, reason_of(worst->cause),
          sentence_of(*worst)};
}

Judgement judge(std::span<const LedgerEntry> entries, ProbeState probe, std::string_view probe_message,
                std::span<const PolicyRule> rules) {
  std::vector<LedgerEntry> joined(entries.begin(), entries.end());
  if (std::any_of(joined.begin(), joined.end(), [](const LedgerEntry& e) { return e.incident.empty(); }))
    join_incidents(joined, {}, {});
  return judge(incidents_of(joined, rules, TimePoint{}), probe, probe_message);
}

}  // namespace homeostat::fault
