// What findings mean: the class of repair of each, and the verdict on the node. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/fault/ledger.hpp"

namespace homeostat::fault {

// One rule of a HealthPolicy: empty fields match anything, the first rule that fits decides. A code of "149" also
// covers "149/NETIR_LINK_EVT".
struct PolicyRule {
  std::string component, code, action;
  RepairClass repair_class = RepairClass::watch;
};

struct Treatment {
  RepairClass repair_class = RepairClass::watch;
  bool unambiguous = false;  // act at once; false: wait for the companion lines first
};

Treatment treatment(const Finding& finding, std::span<const PolicyRule> rules);
// Also by how often it has come; a rule of the policy stands above that too.
Treatment treatment(const LedgerEntry& entry, std::span<const PolicyRule> rules);
// The same from what a NodeHealth says of a finding.
Treatment treatment(std::string_view component, std::string_view code, Severity severity, std::string_view action,
                    std::span<const PolicyRule> rules);

enum class NodeVerdict { healthy, degraded, unhealthy, unknown };
std::string_view to_string(NodeVerdict verdict);  // "Healthy", …

// What the device probe can say about itself.
enum class ProbeState {
  absent,   // no accelerators are expected here: nothing to probe
  good,     // the last probe answered
  pending,  // no answer yet since the start
  failed,   // failed or hangs: nobody can say how the devices are
};

struct Judgement {
  NodeVerdict verdict = NodeVerdict::healthy;
  std::string reason;   // CamelCase, for conditions
  std::string message;  // a sentence
};

struct IncidentSet;

// The gravest incident decides and is named by its root; of equal ones the first. The text holds no counts and no
// times, so that a storm does not rewrite it. A failed probe is Unknown, never healthy, unless an incident already says
// Unhealthy.
Judgement judge(const IncidentSet& incidents, ProbeState probe, std::string_view probe_message);
// The same for entries that nobody has joined to incidents yet.
Judgement judge(std::span<const LedgerEntry> entries, ProbeState probe, std::string_view probe_message,
                std::span<const PolicyRule> rules);

}  // namespace homeostat::fault
