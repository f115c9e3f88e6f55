#include "core/fault/drill.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/fault/catalog.hpp"
#include "core/fault/classify.hpp"
#include "core/fault/ledger.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

constexpr int error_level = 3, notice_level = 5, info_level = 6;

struct KindRow {
  DrillKind kind;
  std::string_view word;
  bool has_value;
  std::array<std::string_view, 4> values;  // all empty: a code
};
constexpr KindRow kind_rows[] = {
    {DrillKind::xid, "xid", true, {}},
    {DrillKind::sxid, "sxid", true, {}},
    {DrillKind::nvlink5, "nvlink5", true, {}},
    {DrillKind::link, "link", true, {"down", "flap"}},
    {DrillKind::ecc, "ecc", true, {"uncorrectable", "correctable", "row-remap-pending", "row-remap-failure"}},
    {DrillKind::thermal, "thermal", false, {}},
    {DrillKind::hang, "hang", false, {}},
    {DrillKind::lost, "lost", false, {}},
    {DrillKind::amd, "amd", true, {"ue", "poison", "reset-failed"}},
    {DrillKind::clear, "clear", false, {}},
};

constexpr DrillHelp help_rows[] = {
    {"xid=79", "kernel log; in the lab the fake GPU is lost, too", "gpu-xid 79, fatal: the node is replaced"},
    {"xid=CODE", "kernel log, in the driver's words; in the lab the counters that go with it",
     "gpu-xid CODE (nvlink 74), as the catalogue and the policy say"},
    {"xid=154/0x2", "kernel log", "gpu-xid 154/0x2: the driver's own verdict, here that the node must reboot"},
    {"sxid=12028", "kernel log: the NVSwitch driver's three lines",
     "gpu-sxid CODE; Fatal or Non-fatal as the catalogue says"},
    {"nvlink5=149", "kernel log: an NVLink5 line (144 to 150) whose registers decode to the gravest row",
     "nvlink CODE/UNIT; choose a unit with nvlink5=149/NETIR_LINK_EVT"},
    {"lost", "kernel log, without any Xid; in the lab the fake GPU is lost, too", "gpu-lost 79, fatal"},
    {"ecc=uncorrectable", "kernel log: Xid 48, 63 and 154; in the lab the ECC counters",
     "gpu-xid 48 and its companions"},
    {"ecc=correctable", "kernel log: Xid 92; in the lab the ECC counters", "gpu-xid 92: watched, nothing is done"},
    {"ecc=row-remap-pending", "kernel log: Xid 63; in the lab the row remapper's state",
     "gpu-xid 63: no new jobs, repair after the running one"},
    {"ecc=row-remap-failure", "kernel log: Xid 64 without spare rows; in the lab the row remapper's state",
     "gpu-xid 64: the GPU is worn out"},
    {"amd=ue", "kernel log: amdgpu; in the lab the RAS counters", "amd-ras RAS_UE/umc, fatal"},
    {"amd=poison", "kernel log: amdgpu", "amd-ras POISON_CONSUMED"},
    {"amd=reset-failed", "kernel log: amdgpu", "amd-gpu RESET_FAILED, fatal"},
    {"link=down [port=mlx5_0:1]", "the fake InfiniBand port and the kernel log", "infiniband LINK_DOWN", true},
    {"link=flap [port=mlx5_0:1]", "the fake InfiniBand port goes down and up again, three times or count=N",
     "infiniband LINK_FLAPPING: no new jobs", true},
    {"thermal", "the fake GPU's temperature and throttle reasons",
     "gpu-nvml THROTTLE_HW_THERMAL, after a minute of it (AMD: amd-counters TEMPERATURE)", true},
    {"hang", "the fake driver answers no more", "no finding: the sensor fails and the verdict becomes Unknown", true},
    {"clear",
     "kernel log: the driver no longer asks for a recovery; in the lab the machine's hardware is whole and it "
     "boots anew",
     "the findings of drills go; a GPU that was lost comes back only with a boot"},
};

std::string known_kinds() {
  return "xid=79, sxid=12028, nvlink5=149, link=flap, ecc=uncorrectable, thermal, hang, lost, amd=ue or clear";
}

std::unexpected<Error> refuse(std::string message) { return fail(ErrorKind::invalid, std::move(message)); }

std::optional<int> small_number(std::string_view text) {
  if (text.empty() || text.size() > 6 || !std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

const KindRow& row_of(DrillKind kind) {
  return *std::find_if(std::begin(kind_rows), std::end(kind_rows), [kind](const KindRow& r) { return r.kind == kind; });
}

// "079" is 79, and "154/0x02" is 154/0x2: one fault has one spelling.
Result<std::string> xid_code(std::string_view value) {
  const auto slash = value.find('/');
  const auto number = small_number(value.substr(0, slash));
  if (!number || *number < 1 || *number > 999) return refuse("an XID is a number from 1 to 999, for example xid=79");
  std::string code = std::to_string(*number);
  if (*number == 154) {
    const auto action =
        slash == std::string_view::npos ? std::optional<std::uint32_t>(1) : parse_hex32(value.substr(slash + 1));
    if (!action || *action > 7)
      return refuse("XID 154 carries a recovery action from 0x0 to 0x7, for example xid=154/0x2");
    return code.append("/0x").append(1, static_cast<char>('0' + *action));
  }
  if (slash != std::string_view::npos)
    return refuse("only XID 154 has a value behind a slash, for example xid=154/0x2");
  return code;
}

Result<std::string> sxid_code(std::string_view value) {
  const auto number = small_number(value);
  if (!number || *number < 10'000 || *number > 99'999)
    return refuse("an SXID is a number of five digits, for example sxid=12028");
  return std::to_string(*number);
}

bool is_unit(std::string_view text) {
  return !text.empty() && text.size() <= 32 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
  });
}

Result<std::string> nvlink5_code(std::string_view value) {
  const auto slash = value.find('/');
  const auto number = small_number(value.substr(0, slash));
  const bool unit_good = slash == std::string_view::npos || is_unit(value.substr(slash + 1));
  if (!number || *number < 144 || *number > 150 || !unit_good)
    return refuse(
        "an NVLink5 error is 144 to 150, if need be with its unit: nvlink5=149 or nvlink5=149/NETIR_LINK_EVT");
  return std::string(value);
}

Result<std::string> read_value(const KindRow& row, std::string_view value) {
  switch (row.kind) {
    case DrillKind::xid:
      return xid_code(value);
    case DrillKind::sxid:
      return sxid_code(value);
    case DrillKind::nvlink5:
      return nvlink5_code(value);
    default:
      break;
  }
  std::string choices;
  for (auto choice : row.values) {
    if (choice == value && !value.empty()) return std::string(value);
    if (!choice.empty()) choices.append(choices.empty() ? "" : ", ").append(row.word).append("=").append(choice);
  }
  return refuse("write one of " + choices);
}

// "mlx5_0:1": a device's name and a port's number.
bool is_port(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos || colon > 32) return false;
  const auto number = small_number(text.substr(colon + 1));
  return number && *number >= 1 && *number <= 255 &&
         std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon),
                     [](char c) { return is_alnum(c) || c == '_' || c == '-'; });
}

Result<void> read_setting(std::string_view key, std::string_view value, DrillFault& fault) {
  const auto number = small_number(value);
  if (key == "count") {
    if (!number || *number < 1 || *number > max_drill_count)
      return refuse("count is how often the fault strikes: write count=1 to count=" + std::to_string(max_drill_count));
    fault.count = *number;
  } else if (key == "driver") {
    if (!number || *number < 400 || *number > 999)
      return refuse("driver is the generation whose words are used, for example driver=580");
    fault.driver_major = *number;
  } else if (key == "port" && fault.kind == DrillKind::link) {
    if (!is_port(value)) return refuse("port is written device:number, for example port=mlx5_0:1");
    fault.port = value;
  } else {
    return refuse("'" + std::string(key) +
                  "' is no setting of this fault: there are count, driver and, for a link, port");
  }
  return {};
}

// Printable ASCII without quotes or backslashes only: the text travels through a command line and a kernel log.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '\''; });
}

}  // namespace

Result<DrillFault> parse_drill(std::string_view text) {
  if (text.size() > max_drill_fault_bytes || !is_plain(text))
    return refuse("a fault is written in one short line, such as " + known_kinds());
  auto rest = trim(text);
  const auto first = take_word(rest);
  const auto equals = first.find('=');
  const auto word = first.substr(0, equals);
  const auto row =
      std::find_if(std::begin(kind_rows), std::end(kind_rows), [word](const KindRow& r) { return r.word == word; });
  if (row == std::end(kind_rows)) return refuse("write which fault: " + known_kinds());
  if (row->has_value == (equals == std::string_view::npos))
    return refuse("write which fault: " + known_kinds() + " (not '" + std::string(first) + "')");
  DrillFault fault;
  fault.kind = row->kind;
  if (row->has_value) {
    auto value = read_value(*row, first.substr(equals + 1));
    if (!value) return std::unexpected(value.error());
    fault.value = std::move(*value);
  }
  while (!rest.empty()) {
    const auto setting = take_word(rest);
    const auto at = setting.find('=');
    if (at == std::string_view::npos)
      return refuse("'" + std::string(setting) + "' is no setting: write count=3, for example");
    if (auto read = read_setting(setting.substr(0, at), setting.substr(at + 1), fault); !read)
      return std::unexpected(read.error());
  }
  return fault;
}

std::string to_text(const DrillFault& fault) {
  std::string text(row_of(fault.kind).word);
  if (!fault.value.empty()) text.append("=").append(fault.value);
  if (!fault.port.empty()) text.append(" port=").append(fault.port);
  if (fault.count != 1) text.append(" count=").append(std::to_string(fault.count));
  if (fault.driver_major != 550) text.append(" driver=").append(std::to_string(fault.driver_major));
  return text;
}

std::string_view driver_of(DrillKind kind) {
  switch (kind) {
    case DrillKind::xid:
    case DrillKind::sxid:
    case DrillKind::nvlink5:
    case DrillKind::ecc:
    case DrillKind::hang:
    case DrillKind::lost:
      return "nvidia";
    case DrillKind::amd:
      return "amdgpu";
    case DrillKind::link:
    case DrillKind::thermal:
    case DrillKind::clear:
      break;
  }
  return {};
}

bool is_drill_device(std::string_view device) {
  if (device.empty()) return true;
  if (const auto index = small_number(device)) return *index < 64;
  const auto address = find_pci_address(device);
  return address && (address->device == device || address->with_function() == device);
}

namespace {

// The driver's words after the code. Sources: NVIDIA's XID catalogue, open-gpu-kernel-modules, public bug reports.
std::string_view xid_words(std::string_view code) {
  struct Row {
    std::string_view code, words;
  };
  static constexpr Row rows[] = {
      {"13",
       "pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address"},
      {"31",
       "pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ "
       "0x7f2a_10000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"},
      {"43", "pid=4242, name=python3, Ch 00000008"},
      {"45", "pid=4242, name=python3, Ch 00000008"},
      {"48",
       "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the "
       "framebuffer at partition 2, subpartition 1."},
      {"63",
       "pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0000000012345678) marked for remapping, reset gpu to "
       "activate."},
      {"64", "pid='<unknown>', name=<unknown>, Row Remapper: Error writing new remapping entry"},
      {"74",
       "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, "
       "0x0)"},
      {"79", "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."},
      {"92", "pid='<unknown>', name=<unknown>, High single-bit ECC error rate"},
      {"94", "pid=4242, name=python3, Contained: CE User Channel (0x9). RST: No, D-RST: No"},
      {"95", "pid='<unknown>', name=<unknown>, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"},
      {"119",
       "pid=4242, name=python3, Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 "
       "(GSP_RM_CONTROL) (0x20802a02 0x8)."},
      {"120",
       "pid='<unknown>', name=<unknown>, GSP task exception: load access page fault (cause:0xd) @ pc:0x1a2b3c, "
       "partition:4#0, task:3"},
  };
  for (const auto& row : rows)
    if (row.code == code) return row.words;
  return "pid='<unknown>', name=<unknown>, Ch 00000000";
}

std::string_view recovery_words(char value) {
  static constexpr std::string_view words[] = {"None",      "GPU Reset Required", "Node Reboot Required",
                                               "Drain P2P", "Drain and Reset",    "Recover IMEX Domain",
                                               "Bus Reset", "System Reboot"};
  return words[static_cast<size_t>(value - '0') & 7];
}

// "154/0x2" -> "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
std::string recovery_text(std::string_view code) {
  const char to = code.back();
  const char from = to == '0' ? '1' : '0';
  std::string text = "GPU recovery action changed from 0x";
  text.append(1, from).append(" (").append(recovery_words(from)).append(") to 0x");
  text.append(1, to).append(" (").append(recovery_words(to)).append(")");
  return text;
}

// From R580 on the driver writes "channel 0x00000008" where it wrote "Ch 00000008".
std::string in_generation(std::string_view words, int driver_major) {
  static constexpr std::string_view old_word = "Ch 0";
  std::string text(words);
  if (driver_major < 580) return text;
  if (const auto at = text.find(old_word); at != std::string::npos) text.replace(at, old_word.size(), "channel 0x0");
  return text;
}

DrillLine xid_line(std::string_view code, std::string_view words, const DrillTarget& target) {
  std::string text = "NVRM: Xid (PCI:";
  text.append(target.device).append("): ").append(code.substr(0, code.find('/'))).append(", ").append(words);
  return {error_level, std::move(text)};
}

void introduce(const DrillTarget& target, std::vector<DrillLine>& lines) {
  if (!target.uuid.empty())
    lines.push_back(
        {notice_level, std::string("NVRM: GPU at PCI:").append(target.device).append(": ").append(target.uuid)});
}

void fallen_off(const DrillTarget& target, std::vector<DrillLine>& lines) {
  lines.push_back(
      {error_level, std::string("NVRM: GPU ").append(target.device).append(".0: GPU has fallen off the bus.")});
  for (const auto* text : {"NVRM: A GPU crash dump has been created. If possible, please run",
                           "NVRM: nvidia-bug-report.sh as root to collect this data before",
                           "NVRM: the NVIDIA kernel module is unloaded."})
    lines.push_back({error_level, text});
}

std::vector<DrillLine> one_xid(const DrillFault& fault, const DrillTarget& target) {
  const auto words = fault.value.starts_with("154/") ? recovery_text(fault.value)
                                                     : in_generation(xid_words(fault.value), fault.driver_major);
  std::vector<DrillLine> lines{xid_line(fault.value, words, target)};
  if (fault.value == "79") fallen_off(target, lines);
  return lines;
}

std::vector<DrillLine> sxid_lines(const DrillFault& fault, const DrillTarget& target) {
  const auto* entry = Catalog::instance().sxid(fault.value);
  const bool fatal = entry != nullptr && entry->severity == Severity::fatal;
  std::string head = "nvidia-nvswitch0: SXid (PCI:";
  head.append(target.device).append(".0): ").append(fault.value).append(", ");
  std::string first = head;
  first.append(fatal ? "Fatal" : "Non-fatal").append(", Link 30 ").append(entry ? entry->title : "unknown error");
  return {{error_level, first.append(" (First)")},
          {error_level, head + "Severity " + (fatal ? "1" : "0") + " Engine instance 30 Sub-engine instance 00"},
          {error_level, head + "Data {0x0000001e, 0x00000000, 0x00000000, 0x00000000}"}};
}

std::string hex32(std::uint32_t value) {
  std::string text = "0x00000000";
  for (size_t at = text.size(); value != 0; value >>= 4) text[--at] = "0123456789abcdef"[value & 15];
  return text;
}

int gravity(std::string_view action) { return action == "RESET_GPU" ? 2 : action == "XID_154_EVAL" ? 1 : 0; }

// The row of the decode table that asks for most, of that unit if one is named.
const Nvlink5Entry* gravest_row(std::string_view code, std::string_view unit) {
  const Nvlink5Entry* best = nullptr;
  for (const auto& entry : Catalog::instance().nvlink5()) {
    const auto name = entry.unit.substr(0, entry.unit.find_first_of("/ "));
    if (entry.xid != code || (!unit.empty() && name != unit) || !entry.mask_v1.present) continue;
    if (best == nullptr || gravity(entry.action) > gravity(best->action)) best = &entry;
  }
  return best;
}

Result<std::vector<DrillLine>> nvlink5_lines(const DrillFault& fault, const DrillTarget& target) {
  const std::string_view value = fault.value;
  const auto slash = value.find('/');
  const auto code = value.substr(0, slash);
  const auto unit = slash == std::string_view::npos ? std::string_view{} : value.substr(slash + 1);
  const auto* row = gravest_row(code, unit);
  if (row == nullptr)
    return refuse("NVLink5 error " + fault.value + " is not in the catalogue: leave the unit out or name one of " +
                  "catalog/nvlink5.tsv");
  const auto& mask = fault.driver_major >= 575 && row->mask_v2.present ? row->mask_v2 : row->mask_v1;
  std::string words = "pid='<unknown>', name=<unknown>, ";
  words.append(row->unit.substr(0, row->unit.find_first_of("/ ")));
  words.append(gravity(row->action) == 2 ? " Fatal" : " Nonfatal")
      .append(" XC0 i0 Link 04 (")
      .append(hex32(mask.value));
  words.append(" ").append(hex32(row->statuses.empty() ? 0 : row->statuses.front()));
  words.append(" 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)");
  return std::vector<DrillLine>{xid_line(code, words, target)};
}

std::vector<DrillLine> ecc_lines(const DrillFault& fault, const DrillTarget& target) {
  const auto plain = [&](std::string_view code) { return xid_line(code, xid_words(code), target); };
  if (fault.value == "uncorrectable")
    return {plain("48"), plain("63"), xid_line("154", recovery_text("154/0x4"), target)};
  if (fault.value == "row-remap-pending") return {plain("63")};
  if (fault.value == "correctable") return {plain("92")};
  return {xid_line("64", "pid='<unknown>', name=<unknown>, Row Remapper: no spare rows are left for bank 3", target)};
}

std::vector<DrillLine> amd_lines(const DrillFault& fault, const DrillTarget& target) {
  std::string head = "amdgpu ";
  head.append(target.device).append(".0: amdgpu: ");
  if (fault.value == "ue")
    return {{error_level, head + "socket: 0, die: 0, 1 uncorrectable hardware errors detected in total in umc block"}};
  if (fault.value == "poison")
    return {{error_level, head + "poison is consumed by client 27, kick off gpu reset flow"}};
  return {{error_level, head + "GPU reset begin!"},
          {error_level, head + "GPU reset end with ret = -62"},
          {error_level, head + "GPU reset(2) failed"}};
}

Result<std::vector<DrillLine>> lines_once(const DrillFault& fault, const DrillTarget& target) {
  switch (fault.kind) {
    case DrillKind::xid:
      return one_xid(fault, target);
    case DrillKind::sxid:
      return sxid_lines(fault, target);
    case DrillKind::nvlink5:
      return nvlink5_lines(fault, target);
    case DrillKind::ecc:
      return ecc_lines(fault, target);
    case DrillKind::amd:
      return amd_lines(fault, target);
    case DrillKind::lost: {
      std::vector<DrillLine> lines;
      fallen_off(target, lines);
      return lines;
    }
    case DrillKind::clear:
      if (target.amd)
        return std::vector<DrillLine>{{info_level, "amdgpu " + target.device + ".0: amdgpu: GPU reset(1) succeeded!"}};
      return std::vector<DrillLine>{xid_line("154", recovery_text("154/0x0"), target)};
    case DrillKind::link:
    case DrillKind::thermal:
    case DrillKind::hang:
      break;
  }
  return std::vector<DrillLine>{};
}

bool is_hardware_only(DrillKind kind) {
  return kind == DrillKind::link || kind == DrillKind::thermal || kind == DrillKind::hang;
}

void expect(DrillPlan& plan, std::string id) {
  if (std::find(plan.findings.begin(), plan.findings.end(), id) == plan.findings.end())
    plan.findings.push_back(std::move(id));
}

void expect_from_lines(DrillPlan& plan) {
  Classifier classifier;
  std::vector<Finding> found;
  for (const auto& line : plan.lines)
    if (auto finding = classifier(parse_kernel_line(line.text))) found.push_back(std::move(*finding));
  // The gravest tells what happened; its companions come in the order of their lines.
  std::stable_sort(found.begin(), found.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  for (const auto& finding : found) expect(plan, finding_id(finding));
}

// What the sensors see of fake hardware that fails.
void expect_from_hardware(const DrillFault& fault, const DrillTarget& target, DrillPlan& plan) {
  const auto of_gpu = [&](std::string_view component) {
    expect(plan, std::string(component).append(":*@").append(target.device));
  };
  switch (fault.kind) {
    case DrillKind::link:  // the sensors name a port by its PCI address
      expect(plan, fault.value == "flap" ? "infiniband:LINK_FLAPPING*" : "infiniband:LINK_DOWN*");
      for (const auto* other : {"infiniband:LINK_*", "ethernet:LINK_*", "nic:LINK_*"}) expect(plan, other);
      break;
    case DrillKind::hang:
      expect(plan, "sensor:*nvml");
      break;
    case DrillKind::thermal:
      expect(plan, std::string("gpu-nvml:THROTTLE_HW_THERMAL@").append(target.device));
      of_gpu("gpu-nvml");
      of_gpu("amd-counters");
      break;
    case DrillKind::amd:
      of_gpu("amd-counters");
      break;
    case DrillKind::clear:
      break;
    default:
      of_gpu("gpu-nvml");
      expect(plan, "gpu-nvml:GPU_MISSING*");  // it names no device
      break;
  }
}

// One '*' or several match any run of characters. Linear in practice: texts are short and stars few.
bool fits(std::string_view text, std::string_view pattern) {
  size_t at = 0, in = 0, star = std::string_view::npos, resume = 0;
  while (at < text.size()) {
    if (in < pattern.size() && pattern[in] == '*') {
      star = in++;
      resume = at;
    } else if (in < pattern.size() && pattern[in] == text[at]) {
      ++in, ++at;
    } else if (star != std::string_view::npos) {
      in = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  while (in < pattern.size() && pattern[in] == '*') ++in;
  return in == pattern.size();
}

}  // namespace

Result<DrillPlan> plan_drill(const DrillFault& fault, const DrillTarget& target) {
  if (is_hardware_only(fault.kind) && !target.fake_hardware)
    return refuse("'" + to_text(fault) +
                  "' changes what hardware reads, which only the lab's fake hardware can do. On a real node choose a "
                  "fault that the kernel reports, such as xid=79");
  auto once = lines_once(fault, target);
  if (!once) return std::unexpected(once.error());
  DrillPlan plan;
  if (!once->empty() && fault.kind != DrillKind::sxid && fault.kind != DrillKind::amd && fault.kind != DrillKind::clear)
    introduce(target, plan.lines);
  if (plan.lines.size() + once->size() * static_cast<size_t>(fault.count) > max_drill_lines)
    return refuse("that many repetitions would write more than " + std::to_string(max_drill_lines) +
                  " lines: choose a smaller count");
  for (int i = 0; i < fault.count; ++i) plan.lines.insert(plan.lines.end(), once->begin(), once->end());
  if (fault.kind != DrillKind::clear) expect_from_lines(plan);
  if (target.fake_hardware) expect_from_hardware(fault, target, plan);
  if (fault.kind == DrillKind::thermal) plan.life = Duration(180'000);
  return plan;
}

bool matches_expected(std::string_view id, std::span<const std::string> expected) {
  return std::any_of(expected.begin(), expected.end(), [id](const std::string& pattern) { return fits(id, pattern); });
}

std::span<const DrillHelp> drill_catalog() { return help_rows; }

namespace {

// Takes as long for a wrong token as for the right one; only the length of the token is told.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size() || a.empty()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference =
        static_cast<unsigned char>(difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  return difference == 0;
}

// The first planned line of that text that has not been taken yet.
bool take_line(ArmedDrill& drill, std::string_view line) {
  drill.used.resize(drill.lines.size());
  for (size_t i = 0; i < drill.lines.size(); ++i) {
    if (drill.used[i] || drill.lines[i] != line) continue;
    drill.used[i] = true;
    return true;
  }
  return false;
}

bool looks_like_a_fault(std::string_view text) {
  const auto finding = classify_text(text);
  return finding && finding->severity >= Severity::warn;
}

}  // namespace

UserLineVerdict judge_user_line(std::string_view text, std::span<ArmedDrill> armed, TimePoint now) {
  text = text.substr(0, max_line_bytes);
  if (!text.starts_with(drill_marker)) {
    return {looks_like_a_fault(text) ? UserLine::forgery : UserLine::nothing, {}};
  }
  auto rest = text.substr(drill_marker.size());
  const auto space = rest.find(' ');
  const auto token = rest.substr(0, space);
  const auto line = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
  ArmedDrill* proved = nullptr;
  for (auto& drill : armed)  // all of them are compared, whichever fits
    if (same_secret(token, drill.token)) proved = &drill;
  if (proved == nullptr || now >= proved->expires_at || !take_line(*proved, line)) return {UserLine::forgery, {}};
  return {UserLine::drill, std::string(line)};
}

}  // namespace homeostat::fault
