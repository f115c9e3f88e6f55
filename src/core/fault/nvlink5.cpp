#include "core/fault/nvlink5.hpp"

#include <array>

#include "core/fault/catalog.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

struct Nvlink5Line {
  std::string_view unit;
  bool says_fatal = false;
  bool injected = false;
  std::array<std::uint32_t, 2> words{};  // intrInfo, errorStatus
  size_t word_count = 0;
};

// "i0", "i 2": any number but 0 after a lone i means that the fault was injected.
bool read_injected(std::string_view text) {
  while (!text.empty()) {
    auto word = take_word(text);
    if (word.size() > 1 && word[0] == 'i' && is_digit(word[1]))
      return word.substr(1).find_first_not_of('0') != std::string_view::npos;
    if (word == "i") {
      auto flag = take_word(text);
      return !flag.empty() && is_digit(flag[0]) && flag.find_first_not_of('0') != std::string_view::npos;
    }
  }
  return false;
}

// "NETIR_LINK_EVT", "TLW_RX/TLW_RX_PIPE0". It becomes part of the finding's code, so it must not be endless.
bool is_unit(std::string_view word) {
  static constexpr size_t longest_unit = 48;
  if (word.size() < 3 || word.size() > longest_unit || word[0] < 'A' || word[0] > 'Z') return false;
  for (char c : word)
    if (!(c >= 'A' && c <= 'Z') && !is_digit(c) && c != '_' && c != '/') return false;
  return true;
}

Nvlink5Line read_line(std::string_view detail) {
  Nvlink5Line line;
  const auto open = detail.find('(');
  const auto head = detail.substr(0, open);
  auto words = head;
  if (const auto first = take_word(words); is_unit(first)) line.unit = first;
  line.says_fatal = contains(head, " Fatal");
  line.injected = read_injected(words);
  if (open == std::string_view::npos) return line;
  static constexpr size_t whole_word = 10;  // 0x00000000
  auto rest = detail.substr(open + 1);
  const auto close = rest.find(')');
  const bool closed = close != std::string_view::npos;
  rest = rest.substr(0, close);
  while (!rest.empty() && line.word_count < 2) {
    auto word = take_word(rest);
    while (!word.empty() && word.back() == ',') word.remove_suffix(1);
    const auto value = parse_hex32(word);
    if (!value || (rest.empty() && !closed && word.size() < whole_word)) break;  // the last word of a line cut off
    line.words[line.word_count++] = *value;
  }
  return line;
}

bool is_name_of(std::string_view row_unit, std::string_view name) {
  while (true) {
    const auto slash = row_unit.find('/');
    const auto alternative = row_unit.substr(0, slash);
    if (alternative == name || alternative.substr(0, alternative.find(' ')) == name)
      return true;  // "MSE Degraded" is two words
    if (slash == std::string_view::npos) return false;
    row_unit.remove_prefix(slash + 1);
  }
}

// The line may give one of the unit's names, or all of them: "TLW_RX/TLW_RX_PIPE0".
bool unit_fits(std::string_view row_unit, std::string_view unit) {
  while (true) {
    const auto slash = unit.find('/');
    if (!is_name_of(row_unit, unit.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    unit.remove_prefix(slash + 1);
  }
}

bool status_fits(const Nvlink5Entry& entry, const Nvlink5Line& line, bool by_bits) {
  if (entry.statuses.empty()) return true;
  if (line.word_count < 2) return false;  // cut off
  const auto status = line.words[1];
  for (auto wanted : entry.statuses)
    if (status == wanted || (by_bits && wanted != 0 && (status & wanted) == wanted)) return true;
  return false;
}

struct Verdict {
  std::string_view action, investigate;
};

int rank(std::string_view action) { return action == "RESET_GPU" ? 2 : action == "XID_154_EVAL" ? 1 : 0; }

// Looks with the masks of both driver generations. Several status bits at once: the gravest row counts.
std::optional<Verdict> look_up(const Nvlink5Line& line, std::string_view xid, bool by_bits) {
  std::optional<Verdict> best;
  for (const auto& entry : Catalog::instance().nvlink5()) {
    if (entry.xid != xid || (!line.unit.empty() && !unit_fits(entry.unit, line.unit))) continue;
    if (!status_fits(entry, line, by_bits)) continue;
    Verdict found{entry.action, entry.investigate};
    if (entry.escalation_v1.matches(line.words[0]) || entry.escalation_v2.matches(line.words[0]))
      found.action = entry.escalation_action;
    else if (!entry.mask_v1.matches(line.words[0]) && !entry.mask_v2.matches(line.words[0]))
      continue;
    if (!best || rank(found.action) > rank(best->action)) best = found;
  }
  return best;
}

}  // namespace

void decode_nvlink5(std::string_view detail, Finding& finding) {
  const auto line = read_line(detail);
  const std::string xid = finding.code;
  if (!line.unit.empty()) finding.code += "/" + std::string(line.unit);
  finding.injected = line.injected;
  std::optional<Verdict> verdict;
  if (line.word_count > 0) {
    verdict = look_up(line, xid, false);
    if (!verdict) verdict = look_up(line, xid, true);
  }
  if (verdict) {
    finding.action = verdict->action;
    finding.severity = verdict->action == "RESET_GPU"      ? Severity::fatal
                       : verdict->action == "XID_154_EVAL" ? Severity::error
                                                           : Severity::info;
    if (!verdict->investigate.empty()) finding.title += "; investigate: " + std::string(verdict->investigate);
  } else if (line.says_fatal) {
    finding.severity = Severity::error;  // the driver says fatal, the catalogue cannot say: people must look
  }
  // An injected fault is a test of somebody else's: shown, never healed.
  if (line.injected && finding.severity > Severity::warn) finding.severity = Severity::warn;
}

}  // namespace homeostat::fault
