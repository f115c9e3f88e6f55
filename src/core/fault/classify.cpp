#include "core/fault/classify.hpp"

#include "core/fault/catalog.hpp"
#include "core/fault/nvidia.hpp"
#include "core/fault/oom.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

bool rule_fits(const KernelRule& rule, std::string_view text, bool of_device) {
  if (!of_device && !text.starts_with(rule.start)) return false;
  // A first part that repeats the start is looked for from the start.
  const bool repeats = !rule.parts.empty() && rule.parts.front().starts_with(rule.start);
  auto rest = repeats || of_device ? text : text.substr(rule.start.size());
  for (auto part : rule.parts) {
    const auto at = rest.find(part);
    if (at == std::string_view::npos) return false;
    rest.remove_prefix(at + part.size());
  }
  return rule.absent.empty() || !contains(text, rule.absent);
}

// The run of name characters at the front of `text`. "8:16" is the number of a block device, "sda:" a name before a
// colon.
std::string name_at(std::string_view text) {
  size_t end = 0;
  bool number = true;
  while (end < text.size() && end < 64) {
    const char c = text[end];
    const bool between_numbers = c == ':' && number && end > 0 && end + 1 < text.size() && is_digit(text[end + 1]);
    if (!is_alnum(c) && c != '-' && c != '_' && c != '.' && !between_numbers) break;
    number = number && is_digit(c);
    ++end;
  }
  while (end > 0 && text[end - 1] == '.') --end;  // the full stop of a sentence
  return std::string(text.substr(0, end));
}

// The text between the first pair of parentheses; "device sda1): …" of an EXT4 error names its device second.
std::string in_parentheses(std::string_view text) {
  const auto open = text.find('(');
  if (open == std::string_view::npos) return {};
  auto inside = text.substr(open + 1);
  if (inside.starts_with("device ")) inside.remove_prefix(7);
  return name_at(inside);
}

std::string after(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  return at == std::string_view::npos ? std::string{} : name_at(text.substr(at + key.size()));
}

std::string nth_word(std::string_view text, int n) {
  for (int i = 1; i < n; ++i) take_word(text);
  return name_at(text);
}

// "md/raid1:md0: Disk failure on sda1", "md/raid0md0: Disk failure on sda1" -> "md0"
std::string md_array(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  auto name = name_at(text.substr(colon + 1));
  if (const auto at = text.substr(0, colon).rfind("md"); name.empty() && at != std::string_view::npos && at > 0)
    name = name_at(text.substr(at));
  return name;
}

std::string in_brackets(std::string_view text) {
  const auto open = text.find('[');
  return open == std::string_view::npos ? std::string{} : name_at(text.substr(open + 1));
}

// "… error received: id=00e5": bus, device and function in one number, in the domain of the port that reports it.
std::string device_of_id(std::string_view text, const PciAddress& port) {
  static constexpr char hex[] = "0123456789abcdef";
  const auto at = text.find("id=");
  if (at == std::string_view::npos || port.device.size() < 5) return {};
  auto digits = text.substr(at + 3);
  size_t end = 0;
  while (end < digits.size() && is_hex(digits[end])) ++end;
  const auto id = end == 4 ? parse_hex32(digits.substr(0, 4)) : std::nullopt;
  if (!id) return {};
  const auto two = [](std::uint32_t n) { return std::string{hex[n >> 4 & 15], hex[n & 15]}; };
  return port.device.substr(0, 5)
      .append(two(*id >> 8))
      .append(":")
      .append(two(*id >> 3 & 31))
      .append(".")
      .append(1, hex[*id & 7]);
}

// AER messages of a port about a device below it: the device has the trouble, the port tells.
void set_peer(std::string_view text, Finding& finding) {
  const auto port = find_pci_address(text);
  if (!port) return;
  auto device = device_of_id(text, *port);
  if (device.empty()) device = find_last_pci_address(text)->with_function();
  finding.device = device;
  if (port->with_function() != device) finding.upstream = port->with_function();
}

// Lost and restored connections are told by the same import, whatever address they name.
std::string lustre_target(std::string_view text) {
  for (int words = 0; words < 8 && !text.empty(); ++words) {
    const auto word = take_word(text);
    if (!word.ends_with(':')) continue;
    for (std::string_view kind : {"-osc-", "-mdc-", "-osp-", "-lwp-"})
      if (const auto at = word.find(kind); at != std::string_view::npos && at > 0) return name_at(word.substr(0, at));
    if (word.starts_with("MGC")) return name_at(word);
  }
  return {};
}

std::string device_of(DeviceSource source, std::string_view key, std::string_view text) {
  switch (source) {
    case DeviceSource::none:
    case DeviceSource::peer:
      return {};
    case DeviceSource::gpu: {
      const auto address = find_pci_address(text);
      return address ? address->device : std::string{};
    }
    case DeviceSource::pci: {
      const auto address = find_pci_address(text);
      return address ? address->with_function() : std::string{};
    }
    case DeviceSource::nvme: {
      auto rest = text;
      const auto first = take_word(rest);
      return name_at(first == "nvme" ? rest : first);
    }
    case DeviceSource::md:
      return md_array(text);
    case DeviceSource::parentheses:
      return in_parentheses(text);
    case DeviceSource::brackets:
      return in_brackets(text);
    case DeviceSource::word1:
      return name_at(text);
    case DeviceSource::nvme2:
    case DeviceSource::word2:
      return nth_word(text, 2);
    case DeviceSource::word3:
      return nth_word(text, 3);
    case DeviceSource::lustre:
      return lustre_target(text);
    case DeviceSource::after:
      return after(text, key);
  }
  return {};
}

Finding make(std::string_view component, std::string_view code, Severity severity, std::string_view action,
             std::string_view title) {
  Finding finding;
  finding.component = component;
  finding.code = code;
  finding.severity = severity;
  finding.action = action;
  finding.title = title;
  return finding;
}

// "amdgpu 0000:48:00.0: socket: 2, die: 0, 1 uncorrectable hardware errors detected in total in umc block"
std::optional<Finding> amd_error_count(std::string_view text) {
  if (!text.starts_with("amdgpu") && !text.starts_with("[drm")) return std::nullopt;
  const auto at = text.find(" hardware error");
  if (at == std::string_view::npos) return std::nullopt;
  auto before = text.substr(0, at);
  const auto kind_at = before.find_last_of(" ,}:");  // a word of its own: "uncorrectable" holds "correctable"
  const auto kind = before.substr(kind_at == std::string_view::npos ? 0 : kind_at + 1);
  const bool ce = kind == "correctable", ue = kind == "uncorrectable", de = kind == "deferred";
  if (!ce && !ue && !de) return std::nullopt;
  const auto behind = text.substr(at);
  if (behind.starts_with(" hardware error(ERREVENT_ATHUB_INTERRUPT)"))
    return make("amd-ras", "ATHUB_INTERRUPT", Severity::fatal, "RESET_GPU", "The GPU signalled an uncorrectable error");
  if (!contains(behind, "detected")) return std::nullopt;
  auto count = trim(before.substr(0, before.size() - kind.size()));
  if (count.ends_with(" new")) count = trim(count.substr(0, count.size() - 4));
  if (count.ends_with(" 0") || count == "0") return std::nullopt;
  std::string code = ue ? "RAS_UE" : de ? "RAS_DE" : "RAS_CE";
  const auto block = behind.rfind(" in ");
  if (const auto name = block == std::string_view::npos ? std::string{} : name_at(behind.substr(block + 4));
      !name.empty())
    code += "/" + name;
  if (ue) return make("amd-ras", code, Severity::fatal, "RESET_GPU", "Uncorrectable memory errors");
  if (de) return make("amd-ras", code, Severity::warn, "", "Deferred memory errors: data was poisoned, not yet used");
  return make("amd-ras", code, Severity::info, "", "Corrected memory errors");
}

// "EDAC MC3: 1 UE memory read error on …", "EDAC MC0: CE page 0x…"
std::optional<Finding> edac(std::string_view text) {
  if (!text.starts_with("EDAC ")) return std::nullopt;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  auto rest = text.substr(colon + 1);
  auto word = take_word(rest);
  if (!word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos) {
    if (word == "0") return std::nullopt;
    word = take_word(rest);
  }
  const bool ue = word == "UE";
  if (!ue && word != "CE") return std::nullopt;
  auto finding =
      ue ? make("memory-edac", "EDAC_UE", Severity::fatal, "", "An uncorrected memory error")
         : make("memory-edac", "EDAC_CE", Severity::info, "", "A corrected memory error: only the rate matters");
  auto head = text.substr(5, colon - 5);
  while (contains(head, " ")) take_word(head);
  finding.device = name_at(head);
  return finding;
}

// "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR affecting neuron devices"
std::optional<Finding> neuron(std::string_view text) {
  static constexpr std::string_view key = "NEURON_HW_ERR=";
  if (!text.starts_with(key)) return std::nullopt;
  std::string name = name_at(text.substr(key.size()));
  if (name.empty()) return std::nullopt;
  static constexpr std::string_view long_form = "_UNCORRECTABLE_ERROR";
  if (std::string_view(name).ends_with(long_form))
    name.replace(name.size() - long_form.size(), long_form.size(), "_UE");
  return make("accelerator-other", "NEURON_" + name, Severity::fatal, "", "A Neuron device reports broken hardware");
}

// Drivers load, train links and reload while a machine starts: a link that is down then, or comes up, is no news.
constexpr std::uint64_t start_up_us = 600'000'000;
constexpr std::uint64_t boot_us = 60'000'000;

std::optional<Finding> weigh_link(Finding finding, const KernelLine& line) {
  if (finding.component == "nic" && line.uptime_us) {
    if (finding.code == "LINK_UP" && *line.uptime_us < boot_us) return std::nullopt;
    if (finding.code == "LINK_DOWN" && *line.uptime_us < start_up_us) finding.severity = Severity::info;
  }
  return finding;
}

std::optional<Finding> by_rules(std::string_view text) {
  const auto& catalog = Catalog::instance();
  const KernelRule* fitting = nullptr;
  for (const auto* rule : catalog.rules_for(text.front()))
    if (rule_fits(*rule, text, false)) {
      fitting = rule;
      break;
    }
  if (!fitting && begins_with_device(text))
    for (const auto* rule : catalog.device_rules())
      if (rule_fits(*rule, text, true)) {
        fitting = rule;
        break;
      }
  if (!fitting || fitting->severity == Severity::none) return std::nullopt;
  auto finding = make(fitting->component, fitting->code, fitting->severity, fitting->action, fitting->title);
  if (fitting->device == DeviceSource::peer)
    set_peer(text, finding);
  else
    finding.device = device_of(fitting->device, fitting->device_key, text);
  return finding;
}

// "md/raid1:md0: active with 1 out of 2 mirrors", "md/raid:md5: raid level 5 active with 3 out of 4 devices"
std::optional<Finding> raid_members(std::string_view text) {
  static constexpr std::string_view key = "active with ", middle = " out of ";
  const auto at = text.find(key);
  if (!text.starts_with("md/") || at == std::string_view::npos) return std::nullopt;
  auto rest = text.substr(at + key.size());
  const auto working = take_number(rest);
  if (!working || !rest.starts_with(middle)) return std::nullopt;
  rest.remove_prefix(middle.size());
  const auto all = take_number(rest);
  if (!all || *working >= *all) return std::nullopt;
  auto finding = make("disk", "RAID_DEGRADED", Severity::warn, "", "A RAID runs without one of its members");
  finding.device = md_array(text);
  return finding;
}

// The kernel puts a program's name, at most 15 bytes of its own choice, before "[pid]: segfault at …" and the like:
// such a line must not be taken for what that name spells. The same is the form of a program's own log line.
bool begins_with_program(std::string_view text) {
  static constexpr size_t longest_name = 15;
  for (size_t at = 1; at < text.size() && at <= longest_name; ++at) {
    if (text[at] != '[' && text[at] != '(') continue;
    const char close = text[at] == '[' ? ']' : ')';
    size_t end = at + 1;
    while (end < text.size() && end < at + 12 && is_digit(text[end])) ++end;
    if (end > at + 1 && end + 1 < text.size() && text[end] == close && text[end + 1] == ':') return true;
  }
  for (std::string_view said : {" invoked oom-killer:", ": page allocation failure", ": attempt to access beyond end"})
    if (const auto at = text.substr(0, longest_name + said.size()).find(said); at != std::string_view::npos && at > 0)
      return true;
  return false;
}

// What a line that begins with a program's name can still tell.
std::optional<Finding> about_program(std::string_view text) {
  if (contains(text, "]: segfault at ") && contains(text, " in libnccl"))
    return make("nccl", "SEGFAULT", Severity::info, "", "A program crashed inside NCCL");
  if (contains(text, " invoked oom-killer:"))
    return make("oom", "OOM_HEADER", Severity::info, "", "Header of an out-of-memory record");
  if (contains(text, ": page allocation failure"))
    return make("kernel", "PAGE_ALLOC_FAILURE", Severity::warn, "", "The kernel could not get memory");
  if (contains(text, ": attempt to access beyond end of device"))
    return make("disk", "BEYOND_END", Severity::warn, "", "A program read or wrote behind the end of a drive");
  return std::nullopt;
}

std::optional<Finding> decode(std::string_view text) {
  std::optional<Finding> finding;
  switch (to_lower(text.front())) {
    case 'n':
      finding = parse_xid(text);
      if (!finding) finding = parse_sxid(text);
      if (!finding) finding = neuron(text);
      return finding;
    case 'a':
      return amd_error_count(text);
    case 'd':
      return parse_fabric_manager(text);
    case 'e':
      return edac(text);
    case 'm':
      return raid_members(text);
    case 'o':
    case 't':
      if (auto record = parse_oom_record(text)) finding = std::move(record->finding);
      return finding;
    case '[':
      finding = amd_error_count(text);
      if (!finding) finding = parse_fabric_manager(text);
      return finding;
    default:
      return std::nullopt;
  }
}

// Firmware tells while a machine starts what happened before it: that is over, the start was its cure.
void weigh_old_record(Finding& finding, const KernelLine& line) {
  if (finding.component == "cpu-mce" && finding.code == "APEI_FATAL" && line.text.starts_with('[') && line.uptime_us &&
      *line.uptime_us < boot_us)
    finding.severity = Severity::warn;
}

}  // namespace

std::optional<Finding> classify(const KernelLine& line) {
  const auto text = line.text;
  if (!line.from_kernel || text.empty()) return std::nullopt;
  std::optional<Finding> finding;
  if (begins_with_program(text)) {
    finding = about_program(text);
  } else {
    finding = decode(text);
    if (finding &&
        (finding->component == "gpu-xid" || finding->component == "nvlink" || finding->component == "gpu-sxid")) {
      finding->repeats = line.repeats;
      return finding;  // their class comes from their own tables
    }
    if (finding && finding->component == "amd-ras") finding->device = device_of(DeviceSource::gpu, {}, text);
    if (!finding) finding = by_rules(text);
  }
  if (finding) finding = weigh_link(std::move(*finding), line);
  if (!finding) return std::nullopt;
  weigh_old_record(*finding, line);
  finding->repeats = line.repeats;
  set_repair_class(*finding);
  return finding;
}

std::optional<Finding> classify_text(std::string_view raw_line) { return classify(parse_kernel_line(raw_line)); }

namespace {

// Old kernels list the processes of a control group between the line that names it and the kill.
constexpr int lines_of_kill = 1024;
constexpr std::uint64_t time_of_kill_us = 10'000'000;  // a serial console is slow

}  // namespace

// Does the line tell again of the kill that was told last?
bool Classifier::tells_of_kill(const Finding& finding, const KernelLine& line) const {
  if (kill_.lines_left == 0) return false;
  if (const auto record = parse_oom_record(line.text)) return record->of_group;
  const auto pid = killed_pid(line.text);
  return pid != 0 && (kill_.pid == 0 || kill_.pid == pid) &&
         (finding.code == kill_.finding.code || finding.code == "OOM_KILL");
}

void Classifier::join_kill(Finding& finding, const KernelLine& line) {
  const bool late = line.uptime_us && kill_.uptime_us && *line.uptime_us >= *kill_.uptime_us + time_of_kill_us;
  // The kernel kills for one reason at a time: a header begins another.
  if (late || finding.code == "OOM_HEADER") kill_.lines_left = 0;
  const auto record = parse_oom_record(line.text);
  // "Kill process 5 … or sacrifice child": the child has another number. A group dies with all its processes.
  const bool names_victim = !(record && record->of_group) && !contains(line.text, "Kill process ");
  if (tells_of_kill(finding, line)) {
    finding = kill_.finding;
    finding.repeats = 0;
    if (!names_victim) kill_.pid = 0;
    return;
  }
  const auto pid = record ? record->pid : killed_pid(line.text);
  if (record || (pid != 0 && kill_.lines_left == 0))
    kill_ = {finding, names_victim ? pid : 0, line.uptime_us, lines_of_kill};
}

std::optional<Finding> Classifier::operator()(const KernelLine& line) {
  static constexpr std::string_view announcement = "NVRM: The NVIDIA GPU ";
  auto finding = classify(line);
  if (finding && finding->component == "gpu-lost" && finding->device.empty() && lines_left_ > 0)
    finding->device = announced_gpu_;
  if (lines_left_ > 0) --lines_left_;
  if (line.from_kernel && line.text.starts_with(announcement))
    if (const auto address = find_pci_address(line.text)) {
      announced_gpu_ = address->device;
      lines_left_ = 4;
    }
  if (kill_.lines_left > 0) --kill_.lines_left;
  if (finding && finding->component == "oom") join_kill(*finding, line);
  return finding;
}

void append_row(std::string& out, const std::optional<Finding>& finding) {
  if (!finding) {
    out += "none\t\t\tnone\t";
    return;
  }
  out.append(finding->component)
      .append(1, '\t')
      .append(finding->code)
      .append(1, '\t')
      .append(finding->device)
      .append(1, '\t');
  out.append(to_string(finding->severity)).append(1, '\t').append(finding->action);
}

}  // namespace homeostat::fault
