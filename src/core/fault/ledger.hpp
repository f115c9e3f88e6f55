// The findings of one node since its boot: repetitions folded, recoveries taken out, joined to incidents, bounded. One
// thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fault/cause.hpp"
#include "core/fault/finding.hpp"
#include "core/fault/repeat.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

enum class Role {
  none,
  root,       // the cause
  companion,  // another face of the same fault
  cascade,    // an after-effect
  victim,     // damage that another device did
};
std::string_view to_string(Role role);   // "" for none
Role parse_role(std::string_view text);  // none for an unknown word

struct LedgerEntry {
  std::string id;  // stable per component, code and device: "gpu-xid:79@0000:05:00"
  Finding finding;
  TimePoint first_seen, last_seen;
  std::uint64_t count = 0;
  std::string evidence;  // the line of the gravest occurrence, printable ASCII, at most 300 bytes
  // When it began the last time: what leaves no lasting state and comes again after a pause is a new event.
  TimePoint began{};
  std::string incident{};  // set by Ledger::settle
  TimePoint incident_since{};
  Role role = Role::none;
  std::optional<RepairClass> raised_to{};  // it has come too often
  bool cured = false;                      // good again, and only kept because it has come too often
};

std::string finding_id(const Finding& finding);

enum class Change {
  none,      // nothing worth a word
  repeated,  // known, seen again
  fresh,     // new, or graver than before
  resolved,  // took at least one entry out
};

class Ledger {
 public:
  static constexpr size_t max_entries = 64;
  static constexpr size_t max_names = 128;
  static constexpr Duration pause{600'000};

  // Costs the same however many lines came before: joining is left to settle().
  Change observe(const Finding& finding, TimePoint seen, std::string_view evidence);
  // Takes out the entries of one component that are not among `still_there`: for findings that a probe reports as a
  // state.
  bool retain(std::string_view component, std::span<const std::string> still_there_ids);
  // Joins entries to incidents and weighs repetitions. Call it once per batch of lines or report of a sensor, before
  // entries() are shown or saved. true: more than counts and times has changed.
  bool settle(TimePoint now);

  // A device's other name (a GPU's UUID, an adapter's mlx5_3): entries are kept under its PCI address.
  void name_device(std::string_view other_name, std::string_view pci_device);
  void set_topology(Topology topology) { topology_ = std::move(topology); }
  void restore(std::vector<LedgerEntry> entries, std::uint64_t dropped,
               std::vector<RepeatHistory::Record> history = {});
  void clear();

  const std::vector<LedgerEntry>& entries() const { return entries_; }  // oldest first
  std::uint64_t dropped() const { return dropped_; }                    // "and N more"
  const std::vector<RepeatHistory::Record>& history() const { return history_.records(); }
  std::uint64_t joinings() const { return joinings_; }  // how often settle() had to compare entries with each other

 private:
  bool resolve(const Finding& good_news, TimePoint seen);
  bool take_out(const std::vector<bool>& gone);
  bool make_room(const std::string& for_id, Severity for_severity);
  void count_dropped(std::string_view id);
  bool comes_too_often(const LedgerEntry& entry, TimePoint now);
  Change observe_again(LedgerEntry& known, const Finding& finding, TimePoint seen, std::string_view evidence);
  bool weigh_repeats(TimePoint now);

  std::vector<LedgerEntry> entries_;
  std::vector<std::pair<std::string, std::string>> names_;
  Topology topology_;
  RepeatHistory history_;
  std::vector<size_t> dropped_ids_;  // hashes of those counted, so that a probe's every look does not count anew
  std::uint64_t dropped_ = 0, joinings_ = 0;
  bool unjoined_ = false;
};

}  // namespace homeostat::fault
