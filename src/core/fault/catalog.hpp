// The catalogue: what each code means and what is done about it. Read once from the compiled-in tables; immutable and
// shared by all threads.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"

namespace homeostat::fault {

struct CodeEntry {  // one Xid or SXid
  std::string_view code, mnemonic, action, title;
  RepairClass repair_class = RepairClass::watch;
  Severity severity = Severity::warn;
};

struct ActionEntry {
  std::string_view action, meaning;
  RepairClass repair_class = RepairClass::watch;
  bool at_once = false;
};

// A 32-bit pattern: `value` under `care`. An absent one matches nothing.
struct BitMask {
  std::uint32_t care = 0, value = 0;
  bool present = false;
  bool matches(std::uint32_t bits) const { return present && (bits & care) == value; }
};

struct Nvlink5Entry {
  std::string_view xid, unit, action, escalation_action, investigate;
  BitMask mask_v1, mask_v2, escalation_v1, escalation_v2;
  std::vector<std::uint32_t> statuses;  // empty: any
};

enum class DeviceSource { none, gpu, pci, nvme, dev, parentheses, uuid, word3 };

struct KernelRule {
  std::string_view component, code, action, start, absent, title;
  Severity severity = Severity::none;
  std::vector<std::string_view> parts;  // must follow each other in the message
  DeviceSource device = DeviceSource::none;
};

class Catalog {
 public:
  static const Catalog& instance();

  const CodeEntry* xid(std::string_view code) const;  // "79", "154/0x4"; nullptr when unknown
  const CodeEntry* sxid(std::string_view code) const;
  const ActionEntry* action(std::string_view word) const;
  const std::vector<Nvlink5Entry>& nvlink5() const { return nvlink5_; }
  // Rules that can fit a message that begins with `first`, in the order of the table.
  const std::vector<const KernelRule*>& rules_for(char first) const {
    return by_first_[static_cast<unsigned char>(first)];
  }
  const std::vector<KernelRule>& rules() const { return rules_; }
  // Rows that could not be read: none in a sound build (a test holds that).
  size_t malformed_rows() const { return malformed_; }

 private:
  Catalog();
  void read_codes(std::string_view table, bool with_mnemonic, std::vector<CodeEntry>& into);
  void read_actions();
  void read_nvlink5();
  void read_rules();

  std::vector<CodeEntry> xids_, sxids_;
  std::vector<ActionEntry> actions_;
  std::vector<Nvlink5Entry> nvlink5_;
  std::vector<KernelRule> rules_;
  std::array<std::vector<const KernelRule*>, 256> by_first_;
  size_t malformed_ = 0;
};

// Fills in the repair class and whether it acts at once, from the action word or, without one, from the severity.
void set_repair_class(Finding& finding);

}  // namespace homeostat::fault
