// The findings of one node since its boot: repetitions folded, recoveries taken out, bounded. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

struct LedgerEntry {
  std::string id;  // stable per component, code and device: "gpu-xid:79@0000:05:00"
  Finding finding;
  TimePoint first_seen, last_seen;
  std::uint64_t count = 0;
  std::string evidence;  // the line of the gravest occurrence, printable ASCII, at most 300 bytes
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

  Change observe(const Finding& finding, TimePoint seen, std::string_view evidence);
  // Takes out the entries of one component that are not among `still_there`: for findings that a probe reports as a
  // state.
  bool retain(std::string_view component, std::span<const std::string> still_there_ids);
  // A GPU's reset is acknowledged under its UUID; entries are kept under its PCI address.
  void name_device(std::string_view uuid, std::string_view pci_device);
  void restore(std::vector<LedgerEntry> entries, std::uint64_t dropped);
  void clear();

  const std::vector<LedgerEntry>& entries() const { return entries_; }  // oldest first
  std::uint64_t dropped() const { return dropped_; }                    // "and N more"

 private:
  bool resolve(const Finding& good_news);
  bool make_room(Severity for_severity);

  std::vector<LedgerEntry> entries_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  std::uint64_t dropped_ = 0;
};

}  // namespace homeostat::fault
