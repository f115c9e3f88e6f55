#include "core/fault/nvidia.hpp"

#include "core/fault/catalog.hpp"
#include "core/fault/nvlink5.hpp"
#include "core/fault/nvlink_registers.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

struct XidHead {
  std::string_view where;  // inside the parentheses
  std::string code;
  std::string_view detail;  // behind the code and its comma
};

// "(<where>): <number>[, detail]" with stray spaces.
std::optional<XidHead> parse_head(std::string_view text) {
  text = skip_spaces(text);
  if (text.empty() || text.front() != '(') return std::nullopt;
  const auto close = text.substr(0, 128).find(')');
  if (close == std::string_view::npos) return std::nullopt;
  XidHead head;
  head.where = trim(text.substr(1, close - 1));
  text = skip_spaces(text.substr(close + 1));
  if (text.empty() || text.front() != ':') return std::nullopt;
  text = skip_spaces(text.substr(1));
  const auto code = take_number(text);
  if (!code || (!text.empty() && (is_alnum(text.front()) || text.front() == '_'))) return std::nullopt;
  head.code = std::to_string(*code);
  text = skip_spaces(text);
  if (!text.empty() && text.front() == ',') text = skip_spaces(text.substr(1));
  head.detail = text;
  return head;
}

// "GPU-I:05" -> "05"
std::string field_after(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return {};
  auto rest = text.substr(at + key.size());
  size_t end = 0;
  while (end < rest.size() && is_alnum(rest[end])) ++end;
  return std::string(rest.substr(0, end));
}

// Takes "pid=…," and "name=…," off the front: a process name may hold anything, so it ends at the comma before a known
// word or the last one.
std::string_view skip_process(std::string_view detail) {
  for (std::string_view key : {"pid=", "name="}) {
    if (!detail.starts_with(key)) continue;
    const auto comma = detail.find(',');
    detail = comma == std::string_view::npos ? std::string_view{} : skip_spaces(detail.substr(comma + 1));
  }
  return detail;
}

// "0x4 (Drain and Reset)" -> "0x4"; "" without a number.
std::string read_hex(std::string_view text) {
  size_t end = 2;
  while (end < text.size() && is_hex(text[end])) ++end;
  const auto value = text.starts_with("0x") ? parse_hex32(text.substr(0, end)) : std::nullopt;
  if (!value) return {};
  static constexpr char hex[] = "0123456789abcdef";
  std::string digits;
  for (std::uint32_t rest = *value; rest != 0 || digits.empty(); rest >>= 4)
    digits.insert(digits.begin(), hex[rest & 15]);
  return "0x" + digits;
}

// "… changed from 0x0 (None) to 0x4 (Drain and Reset)": the value that it changed to names the finding.
void read_recovery_action(std::string_view detail, Finding& finding) {
  static constexpr std::string_view from = " from ", to = " to ";
  const auto to_at = detail.rfind(" to 0x");
  if (to_at == std::string_view::npos) return;
  if (const auto value = read_hex(detail.substr(to_at + to.size())); !value.empty()) finding.code = "154/" + value;
  if (const auto at = detail.find(from); at != std::string_view::npos)
    finding.recovery_from = read_hex(detail.substr(at + from.size()));
}

// What stands in the parentheses of an Xid. Some tools shorten it to bus and device, "PCI:3b:00", and drivers before
// R180 gave the bus in four digits, "0001:00".
std::string device_in(std::string_view where) {
  if (const auto address = find_pci_address(where)) return address->device;
  if (starts_with_ignoring_case(where, "pci:")) where.remove_prefix(4);
  where = where.substr(0, where.find_first_of(". "));
  if (where.size() == 7 && where.starts_with("00")) where.remove_prefix(2);
  if (where.size() != 5 || where[2] != ':') return {};
  std::string device;
  for (char c : where) {
    if (c != ':' && !is_hex(c)) return {};
    device += to_lower(c);
  }
  return device;
}

void apply(const CodeEntry& entry, Finding& finding) {
  finding.severity = entry.severity;
  finding.action = entry.action;
  finding.title = entry.title;
}

bool is_nvlink5(std::string_view code) { return code.size() == 3 && code >= "144" && code <= "150"; }

}  // namespace

std::optional<Finding> parse_xid(std::string_view text) {
  if (!starts_with_ignoring_case(text, "nvrm:")) return std::nullopt;
  text = skip_spaces(text.substr(5));
  if (!starts_with_ignoring_case(text, "xid")) return std::nullopt;
  const auto head = parse_head(text.substr(3));
  if (!head) return std::nullopt;
  Finding finding;
  finding.component = head->code == "74" || is_nvlink5(head->code) ? "nvlink" : "gpu-xid";
  finding.code = head->code;
  finding.device = device_in(head->where);
  finding.gpu_instance = field_after(head->where, "GPU-I:");
  finding.compute_instance = field_after(head->where, "GPU-CI:");
  finding.severity = Severity::warn;
  finding.title = "An Xid that the catalogue does not know: ask NVIDIA";
  if (head->code == "154") read_recovery_action(head->detail, finding);
  const auto* entry = Catalog::instance().xid(finding.code);
  if (entry) apply(*entry, finding);
  finding.caused_by = field_after(head->detail, "caused by previous Xid ");
  if (head->code == "154" && finding.recovery_from == "0x4" && finding.code == "154/0x1")
    finding.title += " (the drain before it is over: no new fault)";
  finding.rma_candidate =
      head->code == "64" && (contains(head->detail, "no spare") || contains(head->detail, "no more spare") ||
                             contains(head->detail, "table is full"));
  if (is_nvlink5(head->code)) decode_nvlink5(skip_process(head->detail), finding);
  set_repair_class(finding);
  // The table may know a milder or sharper class than the action word alone, e.g. 63: IGNORE, yet worth a drain after
  // the job.
  if (entry && !is_nvlink5(head->code)) finding.repair_class = entry->repair_class;
  if (finding.rma_candidate) finding.repair_class = RepairClass::replace_node;
  if (head->code == "74") decode_nvlink_registers(head->detail, finding);
  return finding;
}

std::optional<Finding> parse_sxid(std::string_view text) {
  static constexpr std::string_view driver = "nvidia-nvswitch";
  if (!starts_with_ignoring_case(text, driver)) return std::nullopt;
  text.remove_prefix(driver.size());
  take_number(text);
  if (text.empty() || text.front() != ':') return std::nullopt;
  text = skip_spaces(text.substr(1));
  if (!starts_with_ignoring_case(text, "sxid")) return std::nullopt;
  const auto head = parse_head(text.substr(4));
  if (!head) return std::nullopt;
  Finding finding;
  finding.component = "gpu-sxid";
  finding.code = head->code;
  if (const auto address = find_pci_address(head->where)) finding.device = address->with_function();
  finding.severity = Severity::warn;
  finding.title = "An NVSwitch error that the catalogue does not know";
  const auto* entry = Catalog::instance().sxid(head->code);
  if (entry) apply(*entry, finding);
  // One error prints three lines; only the one with Fatal or Non-fatal is the event.
  if (starts_with_ignoring_case(head->detail, "severity") || starts_with_ignoring_case(head->detail, "data")) {
    finding.severity = Severity::info;
    finding.title += " (detail)";
  } else if (starts_with_ignoring_case(head->detail, "fatal")) {
    finding.severity = Severity::fatal;
    if (finding.action.empty() || finding.action == "IGNORE") finding.action = "RESET_FABRIC";
  } else if (starts_with_ignoring_case(head->detail, "non-fatal") && finding.severity > Severity::warn) {
    finding.severity = Severity::warn;
  }
  set_repair_class(finding);
  if (entry && finding.severity != Severity::fatal && entry->repair_class == RepairClass::ignore)
    finding.repair_class = RepairClass::ignore;
  return finding;
}

std::optional<Finding> parse_fabric_manager(std::string_view text) {
  if (!text.starts_with("[ERROR]") && !text.starts_with("detected NVSwitch")) return std::nullopt;
  const auto at = text.find("detected ");
  if (at == std::string_view::npos) return std::nullopt;
  auto rest = text.substr(at);
  const auto word = rest.find("fatal error ");
  if (word == std::string_view::npos || !contains(rest.substr(0, word), "NVSwitch")) return std::nullopt;
  const bool non_fatal = rest.substr(0, word).ends_with("non-");
  rest.remove_prefix(word + 12);
  const auto code = take_number(rest);
  if (!code) return std::nullopt;
  Finding finding;
  finding.component = "fabric-manager";
  finding.code = std::to_string(*code);
  if (const auto address = find_pci_address(rest)) finding.device = address->with_function();
  if (const auto* entry = Catalog::instance().sxid(finding.code)) apply(*entry, finding);
  finding.severity = non_fatal ? Severity::warn : Severity::fatal;
  if (!non_fatal && finding.action.empty()) finding.action = "RESET_FABRIC";
  set_repair_class(finding);
  return finding;
}

}  // namespace homeostat::fault
