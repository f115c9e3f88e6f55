// Incidents, not lines: the findings that one fault has made, joined, with the one that caused the others.
//
//   time ->  0 ms    1 ms     2 ms   3 ms        4 ms   5 s
//            48      171      63     154/0x4     45     gpu-nvml ECC        one GPU
//            root    companion ...               cascade companion          one incident, id of its first finding
//
// Membership and root follow from what the findings are and when they were seen, not from the order of lines within
// the window. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/fault/cause.hpp"
#include "core/fault/ledger.hpp"
#include "core/fault/verdict.hpp"

namespace homeostat::fault {

enum class IncidentState { gathering, open };
std::string_view to_string(IncidentState state);  // "Gathering", "Open"

struct IncidentMember {
  std::string finding;  // its id
  Role role = Role::none;
};

struct Incident {
  std::string id;    // "<id of the finding that began it>#<instant>": stable over restarts and later companions
  std::string root;  // id of the finding
  Finding cause;     // that finding
  std::string title;
  // The gravest of root and companions, after policy. Cascades and victims never raise it.
  RepairClass repair_class = RepairClass::ignore;
  Severity severity = Severity::none;
  bool at_once = false;  // root or a companion is unambiguous: nobody waits for more
  IncidentState state = IncidentState::open;
  TimePoint since{}, last_seen{};
  std::vector<IncidentMember> members;  // the root first
  std::uint64_t left_out = 0;           // members beyond max_members
};

struct IncidentSet {
  static constexpr size_t max_incidents = 16;
  static constexpr size_t max_members = 32;
  std::vector<Incident> incidents;  // oldest first; of too many, the gravest
  std::uint64_t left_out = 0;
};

// Entries without an incident of their own yet (Ledger::settle) stand alone. A lone note that asks for nothing is no
// incident.
IncidentSet incidents_of(std::span<const LedgerEntry> entries, std::span<const PolicyRule> rules, TimePoint now);

// When the next incident stops gathering: what is shown of it changes then without any new line.
std::optional<TimePoint> next_change(const IncidentSet& set);

// Used by Ledger::settle: gives every entry its incident and its role. `names`: other names of devices. Returns whether
// anything changed.
bool join_incidents(std::vector<LedgerEntry>& entries, std::span<const std::pair<std::string, std::string>> names,
                    const Topology& topology);

}  // namespace homeostat::fault
