#include "core/fault/classify.hpp"

#include "core/fault/catalog.hpp"
#include "core/fault/nvidia.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

bool rule_fits(const KernelRule& rule, std::string_view text) {
  if (!text.starts_with(rule.start)) return false;
  auto rest = text.substr(rule.start.size());
  for (auto part : rule.parts) {
    const auto at = rest.find(part);
    if (at == std::string_view::npos) return false;
    rest.remove_prefix(at + part.size());
  }
  return rule.absent.empty() || !contains(text, rule.absent);
}

// The run of name characters at the front of `text`.
std::string name_at(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && end < 64 &&
         (is_alnum(text[end]) || text[end] == '-' || text[end] == '_' || text[end] == '.'))
    ++end;
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

std::string device_of(DeviceSource source, std::string_view text) {
  switch (source) {
    case DeviceSource::none:
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
    case DeviceSource::dev:
      return after(text, "dev ");
    case DeviceSource::parentheses:
      return in_parentheses(text);
    case DeviceSource::uuid:
      return after(text, "executed: ");
    case DeviceSource::word3: {
      auto rest = text;
      take_word(rest);
      take_word(rest);
      return name_at(rest);
    }
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
  for (const auto* rule : Catalog::instance().rules_for(text.front())) {
    if (!rule_fits(*rule, text)) continue;
    if (rule->severity == Severity::none) return std::nullopt;
    auto finding = make(rule->component, rule->code, rule->severity, rule->action, rule->title);
    finding.device = device_of(rule->device, text);
    return finding;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Finding> classify(const KernelLine& line) {
  const auto text = line.text;
  if (!line.from_kernel || text.empty()) return std::nullopt;
  std::optional<Finding> finding;
  switch (to_lower(text.front())) {
    case 'n':
      finding = parse_xid(text);
      if (!finding) finding = parse_sxid(text);
      if (finding) {
        finding->repeats = line.repeats;
        return finding;
      }
      finding = neuron(text);
      break;
    case 'a':
      finding = amd_error_count(text);
      break;
    case 'e':
      finding = edac(text);
      break;
    case '[':
      finding = amd_error_count(text);
      if (!finding) finding = parse_fabric_manager(text);
      break;
    default:
      break;
  }
  if (finding && finding->component == "amd-ras") finding->device = device_of(DeviceSource::gpu, text);
  if (!finding) finding = by_rules(text);
  if (finding) finding = weigh_link(std::move(*finding), line);
  if (!finding) return std::nullopt;
  finding->repeats = line.repeats;
  set_repair_class(*finding);
  return finding;
}

std::optional<Finding> classify_text(std::string_view raw_line) { return classify(parse_kernel_line(raw_line)); }

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
