#include "core/fault/catalog.hpp"

#include <algorithm>
#include <iterator>

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
constexpr std::string_view device_start = "@pci";

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
  static constexpr std::pair<std::string_view, DeviceSource> names[] = {
      {"", DeviceSource::none},         {"gpu", DeviceSource::gpu},        {"pci", DeviceSource::pci},
      {"peer", DeviceSource::peer},     {"nvme", DeviceSource::nvme},      {"nvme2", DeviceSource::nvme2},
      {"md", DeviceSource::md},         {"fs", DeviceSource::parentheses}, {"brackets", DeviceSource::brackets},
      {"word1", DeviceSource::word1},   {"word2", DeviceSource::word2},    {"word3", DeviceSource::word3},
      {"lustre", DeviceSource::lustre},
  };
  for (const auto& [name, source] : names)
    if (name == text) return source;
  return text.starts_with("after:") && text.size() > 6 ? std::optional(DeviceSource::after) : std::nullopt;
}

void sort_by_code(std::vector<CodeEntry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const CodeEntry& a, const CodeEntry& b) { return a.code < b.code; });
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  const auto value = take_number(text);
  return text.empty() ? value : std::nullopt;
}

// repeat_count, repeat_window_s, repeat_class, repeat_jobs; all empty: no rule.
bool read_repeat(const Row& row, size_t at, Decision& decision) {
  if (row[at].empty()) return row[at + 1].empty() && row[at + 2].empty() && row[at + 3].empty();
  const auto count = whole_number(row[at]), window_s = whole_number(row[at + 1]);
  const auto then = parse_repair_class(row[at + 2]);
  if (!count || *count < 2 || *count > 1'000'000 || !window_s || *window_s == 0 || !then) return false;
  if (row[at + 3] != "any" && row[at + 3] != "different") return false;
  decision.repeat = RepeatRule{static_cast<std::uint32_t>(*count), static_cast<std::int64_t>(*window_s), *then,
                               row[at + 3] == "different"};
  return true;
}

bool read_exceptions(std::string_view text, Decision& decision) {
  while (!text.empty()) {
    const auto word = take_word(text);
    const auto equals = word.find('=');
    if (equals == 0 || equals == std::string_view::npos) return false;
    const auto repair_class = parse_repair_class(word.substr(equals + 1));
    if (!repair_class) return false;
    decision.exceptions.push_back({word.substr(0, equals), *repair_class});
  }
  return true;
}

// "79", "96-105" or a name.
void read_codes(std::string_view codes, Decision& decision) {
  decision.codes = codes;
  const auto dash = codes.find('-');
  const auto first = whole_number(codes.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : whole_number(codes.substr(dash + 1));
  if (first && last) decision.first = *first, decision.last = *last;
}

std::optional<Decision> parse_decision(const Row& row) {
  static constexpr std::string_view names[] = {"NVIDIA", "Crusoe", "EKS", "Azure", "Meta GCM", "Imbue", "Others"};
  static constexpr size_t first_publisher = 8;
  if (row.size() != 17) return std::nullopt;
  Decision decision;
  decision.component = row[0];
  read_codes(row[1], decision);
  const auto repair_class = parse_repair_class(row[2]);
  if (row[0].empty() || row[1].empty() || !repair_class || row[15].empty()) return std::nullopt;
  decision.repair_class = *repair_class;
  if (!read_repeat(row, 3, decision) || !read_exceptions(row[7], decision)) return std::nullopt;
  for (size_t i = 0; i < std::size(names); ++i)
    if (!row[first_publisher + i].empty()) decision.published.push_back({names[i], row[first_publisher + i]});
  decision.reason = row[15];
  decision.source = row[16];
  return decision;
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
  read_xids();
  read_sxids();
  read_decoded();
  read_decisions();
  read_actions();
  read_nvlink5();
  read_nvlink_registers();
  read_rules();
}

void Catalog::read_xids() {
  each_row(tables::xid, [&](const Row& row) {
    if (row.size() != 9) return void(++malformed_);
    const auto repair_class = parse_repair_class(row[2]);
    const auto severity = parse_severity(row[4]);
    if (!repair_class || !severity) return void(++malformed_);
    xids_.push_back({row[0], row[1], row[3], row[5], row[8], *repair_class, *severity, row[6], row[7]});
  });
  sort_by_code(xids_);
}

void Catalog::read_sxids() {
  each_row(tables::sxid, [&](const Row& row) {
    if (row.size() != 6) return void(++malformed_);
    const auto repair_class = parse_repair_class(row[1]);
    const auto severity = parse_severity(row[3]);
    if (!repair_class || !severity) return void(++malformed_);
    sxids_.push_back({row[0], row[4], row[2], row[4], row[5], *repair_class, *severity, {}, {}});
  });
  sort_by_code(sxids_);
}

void Catalog::read_decoded() {
  each_row(tables::decoded, [&](const Row& row) {
    if (row.size() != 6) return void(++malformed_);
    const auto severity = parse_severity(row[2]);
    if (!severity) return void(++malformed_);
    decoded_.push_back({row[0], row[1], row[3], row[4], row[5], *severity, std::nullopt});
  });
  for (const auto table : {tables::counters, tables::gpu})
    each_row(table, [&](const Row& row) {
      if (row.size() != 7) return void(++malformed_);
      const auto severity = parse_severity(row[4]);
      const auto repair_class = parse_repair_class(row[2]);
      if (!severity || !repair_class) return void(++malformed_);
      decoded_.push_back({row[0], row[1], row[3], row[5], row[6], *severity, repair_class});
    });
}

void Catalog::read_decisions() {
  each_row(tables::policy, [&](const Row& row) {
    if (auto decision = parse_decision(row))
      decisions_.push_back(std::move(*decision));
    else
      ++malformed_;
  });
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

void Catalog::read_nvlink_registers() {
  each_row(tables::nvlink_registers, [&](const Row& row) {
    const auto number = row.size() == 4 ? whole_number(row[0]) : std::nullopt;
    if (!number || *number < 1 || *number > 7) return void(++malformed_);
    NvlinkRegisterEntry entry{static_cast<unsigned>(*number), 0, NvlinkWeight::hardware, row[3]};
    for (const auto bit : split(row[1], ' ')) {
      const auto index = whole_number(bit);
      if (!index || *index > 31) return void(++malformed_);
      entry.bits |= 1u << *index;
    }
    if (row[2] == "harmless")
      entry.weight = NvlinkWeight::harmless;
    else if (row[2] == "secondary")
      entry.weight = NvlinkWeight::secondary;
    else if (row[2] != "hardware")
      return void(++malformed_);
    nvlink_registers_.push_back(entry);
  });
}

// One rule for each way in which the message may begin.
bool Catalog::read_rule(const Row& row) {
  if (row.size() != 11) return false;
  const auto severity = parse_severity(row[2]);
  const auto device = parse_device_source(row[7]);
  if (!severity || !device || (row[4].empty() && row[5].empty())) return false;
  KernelRule rule{row[0], row[1], row[3], {}, row[6], row[9], row[10], *severity, {}, *device, {}, row[8]};
  if (*device == DeviceSource::after) rule.device_key = row[7].substr(6);
  if (!row[5].empty()) rule.parts = split(row[5], '&');
  for (auto start : split(row[4], '|')) {
    if (start.empty() && !row[4].empty()) return false;
    rule.start = start;
    rules_.push_back(rule);
  }
  return true;
}

void Catalog::read_rules() {
  each_row(tables::kernel, [&](const Row& row) {
    if (!read_rule(row)) ++malformed_;
  });
  for (const auto& rule : rules_) {
    if (rule.start == device_start)
      device_rules_.push_back(&rule);
    else if (rule.start.empty())
      for (auto& bucket : by_first_) bucket.push_back(&rule);
    else
      by_first_[static_cast<unsigned char>(rule.start.front())].push_back(&rule);
  }
}

bool Catalog::clears(std::string_view component, std::string_view news_code, std::string_view old_code) const {
  for (const auto& rule : rules_)
    if (!rule.clears.empty() && rule.component == component && rule.code == news_code)
      for (auto code : split(rule.clears, ' '))
        if (code == old_code) return true;
  return false;
}

const CodeEntry* Catalog::xid(std::string_view code) const { return find_code(xids_, code); }
const CodeEntry* Catalog::sxid(std::string_view code) const { return find_code(sxids_, code); }

bool Decision::covers(std::string_view of_component, std::string_view code) const {
  if (of_component != component) return false;
  if (first != 0) {
    const auto number = whole_number(code);
    return number && *number >= first && *number <= last;
  }
  return code.starts_with(codes) && (code.size() == codes.size() || code[codes.size()] == '/');
}

RepairClass Decision::class_for(std::string_view product) const {
  for (const auto& exception : exceptions)
    if (has_word(product, exception.model)) return exception.repair_class;
  return repair_class;
}

const Decision* Catalog::decision(std::string_view component, std::string_view code) const {
  for (const auto& decision : decisions_)
    if (decision.covers(component, code)) return &decision;
  return nullptr;
}

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
