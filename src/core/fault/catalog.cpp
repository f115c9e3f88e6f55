#include "core/fault/catalog.hpp"

#include <algorithm>

#include "core/fault/tables.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::none:
      return "none";
    case Severity::info:
      return "info";
    case Severity::warn:
      return "warn";
    case Severity::error:
      return "error";
    case Severity::fatal:
      return "fatal";
  }
  return "none";
}

std::optional<Severity> parse_severity(std::string_view text) {
  for (auto s : {Severity::none, Severity::info, Severity::warn, Severity::error, Severity::fatal})
    if (to_string(s) == text) return s;
  return std::nullopt;
}

std::string_view to_string(RepairClass repair_class) {
  switch (repair_class) {
    case RepairClass::ignore:
      return "ignore";
    case RepairClass::watch:
      return "watch";
    case RepairClass::drain_after_job:
      return "drain-after-job";
    case RepairClass::restart_job:
      return "restart-job";
    case RepairClass::reset:
      return "reset";
    case RepairClass::replace_node:
      return "replace-node";
  }
  return "watch";
}

std::optional<RepairClass> parse_repair_class(std::string_view text) {
  for (auto c : {RepairClass::ignore, RepairClass::watch, RepairClass::drain_after_job, RepairClass::restart_job,
                 RepairClass::reset, RepairClass::replace_node})
    if (to_string(c) == text) return c;
  return std::nullopt;
}

namespace {

using Row = std::vector<std::string_view>;

Row split(std::string_view text, char separator) {
  Row parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Calls on_row for each row behind the header. Comments begin with '#'.
template <class OnRow>
void each_row(std::string_view table, OnRow on_row) {
  bool header = true;
  for (auto line : split(table, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    if (!header) on_row(split(line, '\t'));
    header = false;
  }
}

// "------000000----------0000100001", bit 31 first.
BitMask parse_mask(std::string_view text) {
  BitMask mask;
  if (text.size() != 32) return mask;
  for (char c : text) {
    mask.care = mask.care << 1 | (c == '-' ? 0u : 1u);
    mask.value = mask.value << 1 | (c == '1' ? 1u : 0u);
  }
  mask.present = true;
  return mask;
}

std::optional<DeviceSource> parse_device_source(std::string_view text) {
  if (text.empty()) return DeviceSource::none;
  if (text == "gpu") return DeviceSource::gpu;
  if (text == "pci") return DeviceSource::pci;
  if (text == "nvme") return DeviceSource::nvme;
  if (text == "dev") return DeviceSource::dev;
  if (text == "fs") return DeviceSource::parentheses;
  if (text == "uuid") return DeviceSource::uuid;
  if (text == "word3") return DeviceSource::word3;
  return std::nullopt;
}

const CodeEntry* find_code(const std::vector<CodeEntry>& sorted, std::string_view code) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), code,
                                   [](const CodeEntry& e, std::string_view c) { return e.code < c; });
  return at != sorted.end() && at->code == code ? &*at : nullptr;
}

}  // namespace

const Catalog& Catalog::instance() {
  static const Catalog catalog;
  return catalog;
}

Catalog::Catalog() {
  read_codes(tables::xid, true, xids_);
  read_codes(tables::sxid, false, sxids_);
  read_actions();
  read_nvlink5();
  read_rules();
}

void Catalog::read_codes(std::string_view table, bool with_mnemonic, std::vector<CodeEntry>& into) {
  each_row(table, [&](const Row& row) {
    const size_t shift = with_mnemonic ? 1 : 0;
    if (row.size() != 6 + shift) return void(++malformed_);
    const auto repair_class = parse_repair_class(row[1 + shift]);
    const auto severity = parse_severity(row[3 + shift]);
    if (!repair_class || !severity) return void(++malformed_);
    into.push_back({row[0], with_mnemonic ? row[1] : row[4], row[2 + shift], row[4 + shift], *repair_class, *severity});
  });
  std::sort(into.begin(), into.end(), [](const CodeEntry& a, const CodeEntry& b) { return a.code < b.code; });
}

void Catalog::read_actions() {
  each_row(tables::actions, [&](const Row& row) {
    if (row.size() != 4) return void(++malformed_);
    const auto repair_class = parse_repair_class(row[1]);
    if (!repair_class) return void(++malformed_);
    actions_.push_back({row[0], row[3], *repair_class, row[2] == "yes"});
  });
}

void Catalog::read_nvlink5() {
  each_row(tables::nvlink5, [&](const Row& row) {
    if (row.size() != 10) return void(++malformed_);
    Nvlink5Entry entry{row[0],
                       row[1],
                       row[5],
                       row[8],
                       row[9],
                       parse_mask(row[2]),
                       parse_mask(row[3]),
                       parse_mask(row[6]),
                       parse_mask(row[7]),
                       {}};
    if (!entry.mask_v1.present || !entry.mask_v2.present) return void(++malformed_);
    if (!row[4].empty())
      for (auto status : split(row[4], '/')) {
        const auto value = parse_hex32(status);
        if (!value) return void(++malformed_);
        entry.statuses.push_back(*value);
      }
    nvlink5_.push_back(std::move(entry));
  });
}

void Catalog::read_rules() {
  each_row(tables::kernel, [&](const Row& row) {
    if (row.size() != 10) return void(++malformed_);
    const auto severity = parse_severity(row[2]);
    const auto device = parse_device_source(row[7]);
    if (!severity || !device || (row[4].empty() && row[5].empty())) return void(++malformed_);
    KernelRule rule{row[0], row[1], row[3], row[4], row[6], row[8], *severity, {}, *device};
    if (!row[5].empty()) rule.parts = split(row[5], '&');
    rules_.push_back(std::move(rule));
  });
  for (const auto& rule : rules_) {
    if (rule.start.empty())
      for (auto& bucket : by_first_) bucket.push_back(&rule);
    else
      by_first_[static_cast<unsigned char>(rule.start.front())].push_back(&rule);
  }
}

const CodeEntry* Catalog::xid(std::string_view code) const { return find_code(xids_, code); }
const CodeEntry* Catalog::sxid(std::string_view code) const { return find_code(sxids_, code); }

const ActionEntry* Catalog::action(std::string_view word) const {
  for (const auto& entry : actions_)
    if (entry.action == word) return &entry;
  return nullptr;
}

void set_repair_class(Finding& finding) {
  if (const auto* entry = Catalog::instance().action(finding.action)) {
    finding.repair_class = entry->repair_class;
    finding.unambiguous = entry->at_once && finding.severity == Severity::fatal;
  } else {
    finding.repair_class = finding.severity == Severity::fatal   ? RepairClass::replace_node
                           : finding.severity == Severity::error ? RepairClass::watch
                           : finding.severity == Severity::warn  ? RepairClass::watch
                                                                 : RepairClass::ignore;
    finding.unambiguous = false;
  }
  // A note that is not severe never takes a node away, whatever its action word.
  const bool mild = finding.severity == Severity::info || finding.severity == Severity::warn;
  if (mild && (finding.repair_class == RepairClass::replace_node || finding.repair_class == RepairClass::reset))
    finding.repair_class = RepairClass::watch;
}

}  // namespace homeostat::fault
