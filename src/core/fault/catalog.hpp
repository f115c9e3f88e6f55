// The catalogue: what each code means and what is done about it. Read once from the compiled-in tables; immutable and
// shared by all threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"

namespace homeostat::fault {

struct CodeEntry {  // one Xid or SXid
  std::string_view code, mnemonic, action, title, source;
  RepairClass repair_class = RepairClass::watch;
  Severity severity = Severity::warn;
  std::string_view models, investigate;  // Xid only: where NVIDIA lists it, and the second step of NVIDIA's table
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

// How much a bit of the registers of Xid 74 weighs, mildest first.
enum class NvlinkWeight { harmless, secondary, hardware };

struct NvlinkRegisterEntry {  // bits of one register that mean the same
  unsigned number = 0;        // 1 to 7
  std::uint32_t bits = 0;
  NvlinkWeight weight = NvlinkWeight::hardware;
  std::string_view meaning;
};

enum class DeviceSource {
  none,
  gpu,    // a PCI address, without its function
  pci,    // with it
  peer,   // the last PCI address of the line; the first is the port that reports its trouble
  nvme,   // the first word, or the second where the first is the driver
  nvme2,  // the second word
  md,     // between the first slash and the second colon
  parentheses,
  brackets,
  word1,
  word2,
  word3,
  lustre,  // the target whose import speaks: "lfs-OST0001-osc-ffff8881:" -> "lfs-OST0001"
  after,   // the name behind KernelRule::device_key
};

struct KernelRule {
  std::string_view component, code, action, start, absent, title, source;
  Severity severity = Severity::none;
  std::vector<std::string_view> parts;  // must follow each other in the message
  DeviceSource device = DeviceSource::none;
  std::string_view device_key;  // for DeviceSource::after
  std::string_view clears;      // good news: the codes that it takes back, separated by spaces
};

// What code finds rather than a rule of the table: decoded lines (catalog/decoded.tsv) and what sensors judge
// (catalog/counters.tsv), for people.
struct DecodedEntry {
  std::string_view component, code, action, title, source;
  Severity severity = Severity::none;
  std::optional<RepairClass> repair_class;  // where the table says it; else it follows from action and severity
};

// A fault that is tolerated once: `count` of them on one device within `window_s` are treated as `then`.
struct RepeatRule {
  std::uint32_t count = 0;
  std::int64_t window_s = 0;
  RepairClass then = RepairClass::watch;
  bool different_jobs = false;  // each job counts once; a finding of no known job counts as one of its own
};

// One row of catalog/policy.tsv: what is done about a code, and why, where published policies differ.
struct Decision {
  struct Exception {
    std::string_view model;  // a word of the product's name: "H100" fits "NVIDIA H100 80GB HBM3"
    RepairClass repair_class = RepairClass::watch;
  };
  struct Publisher {
    std::string_view name, says;
  };
  std::string_view component, codes, reason, source;
  std::uint64_t first = 0, last = 0;  // a range of numbers; 0 where `codes` is a name
  RepairClass repair_class = RepairClass::watch;
  std::optional<RepeatRule> repeat;
  std::vector<Exception> exceptions;
  std::vector<Publisher> published;  // those that say something

  bool covers(std::string_view of_component, std::string_view code) const;  // "RAS_CE" covers "RAS_CE/umc"
  // The class on that model; `product` "" or unknown: the class of the row.
  RepairClass class_for(std::string_view product) const;
};

class Catalog {
 public:
  static const Catalog& instance();

  const CodeEntry* xid(std::string_view code) const;  // "79", "154/0x4"; nullptr when unknown
  const CodeEntry* sxid(std::string_view code) const;
  const ActionEntry* action(std::string_view word) const;
  // nullptr where nobody disagrees and nothing is counted.
  const Decision* decision(std::string_view component, std::string_view code) const;
  const std::vector<Decision>& decisions() const { return decisions_; }
  const std::vector<CodeEntry>& xids() const { return xids_; }
  const std::vector<CodeEntry>& sxids() const { return sxids_; }
  const std::vector<DecodedEntry>& decoded() const { return decoded_; }
  const std::vector<ActionEntry>& actions() const { return actions_; }
  const std::vector<Nvlink5Entry>& nvlink5() const { return nvlink5_; }
  const std::vector<NvlinkRegisterEntry>& nvlink_registers() const { return nvlink_registers_; }
  // Rules that can fit a message that begins with `first`, in the order of the table.
  const std::vector<const KernelRule*>& rules_for(char first) const {
    return by_first_[static_cast<unsigned char>(first)];
  }
  // Rules for what a driver says of one device ("mlx5_core 0000:41:00.0 …"), tried after rules_for.
  const std::vector<const KernelRule*>& device_rules() const { return device_rules_; }
  const std::vector<KernelRule>& rules() const { return rules_; }
  // Whether good news of that component and code takes back a finding of `old_code`; the devices must be compared by
  // the caller.
  bool clears(std::string_view component, std::string_view news_code, std::string_view old_code) const;
  // Rows that could not be read: none in a sound build (a test holds that).
  size_t malformed_rows() const { return malformed_; }

 private:
  Catalog();
  void read_xids();
  void read_sxids();
  void read_decoded();
  void read_decisions();
  void read_actions();
  void read_nvlink5();
  void read_nvlink_registers();
  void read_rules();
  bool read_rule(const std::vector<std::string_view>& row);

  std::vector<CodeEntry> xids_, sxids_;
  std::vector<ActionEntry> actions_;
  std::vector<Nvlink5Entry> nvlink5_;
  std::vector<NvlinkRegisterEntry> nvlink_registers_;
  std::vector<KernelRule> rules_;
  std::vector<DecodedEntry> decoded_;
  std::vector<Decision> decisions_;
  std::array<std::vector<const KernelRule*>, 256> by_first_;
  std::vector<const KernelRule*> device_rules_;
  size_t malformed_ = 0;
};

// Fills in the repair class and whether it acts at once, from the action word or, without one, from the severity.
void set_repair_class(Finding& finding);

}  // namespace homeostat::fault
