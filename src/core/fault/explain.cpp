#include "core/fault/explain.hpp"

#include <algorithm>

#include "core/fault/catalog.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

constexpr size_t max_code_bytes = 128;

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

bool same_ignoring_case(std::string_view a, std::string_view b) { return a.size() == b.size() && upper(a) == upper(b); }

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "xid 79" -> {"xid", "79"}; "RAS_UE/umc" -> {"", "RAS_UE/umc"}; "nic/LINK_DOWN" -> {"nic", "LINK_DOWN"}.
struct Asked {
  std::string component, code;
};

bool is_component(std::string_view word) {
  const auto& catalog = Catalog::instance();
  if (word == "gpu-xid" || word == "gpu-sxid" || word == "nvlink") return true;
  const auto is_it = [word](const auto& entry) { return entry.component == word; };
  return std::ranges::any_of(catalog.rules(), is_it) || std::ranges::any_of(catalog.decoded(), is_it);
}

Asked read_question(std::string_view text) {
  text = trim(text.substr(0, max_code_bytes));
  for (const auto& [word, component] : {std::pair{"sxid", "gpu-sxid"}, std::pair{"xid", "gpu-xid"}}) {
    if (!starts_with_ignoring_case(text, word)) continue;
    auto rest = text.substr(std::string_view(word).size());
    while (!rest.empty() &&
           (is_space(rest.front()) || rest.front() == '=' || rest.front() == ':' || rest.front() == '/'))
      rest.remove_prefix(1);
    if (!rest.empty() && is_digit(rest.front())) return {component, std::string(rest)};
  }
  const auto cut = text.find_first_of(" /:");
  if (cut != std::string_view::npos && is_component(text.substr(0, cut)))
    return {std::string(text.substr(0, cut)), std::string(trim(text.substr(cut + 1)))};
  return {"", std::string(text)};
}

std::string duration(std::int64_t seconds) {
  const auto amount = [](std::int64_t n, std::string_view unit) {
    return std::to_string(n).append(1, ' ').append(unit).append(n == 1 ? "" : "s");
  };
  if (seconds % 86400 == 0) return amount(seconds / 86400, "day");
  if (seconds % 3600 == 0) return amount(seconds / 3600, "hour");
  if (seconds % 60 == 0) return amount(seconds / 60, "minute");
  return amount(seconds, "second");
}

void add_class(Explanation& out, std::optional<RepairClass> stated) {
  Finding finding;
  finding.component = out.component;
  finding.code = out.code;
  finding.severity = out.severity;
  finding.action = out.action;
  set_repair_class(finding);
  out.repair_class = stated.value_or(finding.repair_class);
  out.at_once = finding.unambiguous;
  if (const auto* action = Catalog::instance().action(out.action)) out.action_meaning = action->meaning;
}

void add_decision(Explanation& out) {
  const auto* decision = Catalog::instance().decision(out.component, out.code);
  if (!decision) return;
  out.repair_class = decision->repair_class;
  out.why = decision->reason;
  if (decision->repeat) {
    const auto& rule = *decision->repeat;
    out.repeat = std::to_string(rule.count)
                     .append(rule.different_jobs ? " of different jobs" : "")
                     .append(" on one device within ")
                     .append(duration(rule.window_s))
                     .append(": ")
                     .append(to_string(rule.then));
  }
  for (const auto& exception : decision->exceptions)
    out.details.push_back(
        std::string("On ").append(exception.model).append(": ").append(to_string(exception.repair_class)));
  for (const auto& publisher : decision->published)
    out.published.push_back(std::string(publisher.name).append(": ").append(publisher.says));
}

bool is_nvlink_code(std::string_view code) {
  return code == "74" || (code.size() == 3 && code >= "144" && code <= "150");
}

std::string status_text(const Nvlink5Entry& entry) {
  static constexpr char hex[] = "0123456789abcdef";
  if (entry.statuses.empty()) return "any status";
  std::string out;
  for (auto status : entry.statuses) {
    if (!out.empty()) out += '/';
    std::string digits;
    for (auto rest = status; rest != 0 || digits.empty(); rest >>= 4) digits.insert(digits.begin(), hex[rest & 15]);
    out.append("0x").append(digits);
  }
  return "status " + out;
}

void add_nvlink5_units(Explanation& out, std::string_view xid, std::string_view unit) {
  std::vector<std::string_view> units;
  for (const auto& entry : Catalog::instance().nvlink5()) {
    if (entry.xid != xid) continue;
    if (unit.empty()) {
      if (std::ranges::find(units, entry.unit) == units.end()) units.push_back(entry.unit);
      continue;
    }
    if (!starts_with_ignoring_case(entry.unit, upper(unit)) && !has_word(entry.unit, unit)) continue;
    std::string line = status_text(entry).append(": ").append(entry.action);
    if (!entry.escalation_action.empty() && entry.escalation_v1.present)
      line.append(", or ").append(entry.escalation_action).append(" when the escalation bit is set");
    if (!entry.investigate.empty()) line.append("; investigate ").append(entry.investigate);
    if (std::ranges::find(out.details, line) == out.details.end()) out.details.push_back(std::move(line));
  }
  for (auto name : units) {
    const auto first = name.substr(0, name.find_first_of("/ "));
    auto code = std::string(xid).append("/").append(first);
    if (std::ranges::find(out.related, code) == out.related.end()) out.related.push_back(std::move(code));
  }
}

bool knows_unit(std::string_view xid, std::string_view unit) {
  Explanation probe;
  add_nvlink5_units(probe, xid, unit);
  return !probe.details.empty();
}

constexpr std::string_view related_xids[][2] = {
    {"48", "63"},   {"48", "64"},   {"48", "171"}, {"48", "172"},  {"48", "154"},  {"63", "48"},   {"63", "64"},
    {"64", "63"},   {"64", "48"},   {"94", "95"},  {"95", "94"},   {"171", "48"},  {"172", "48"},  {"79", "154"},
    {"119", "120"}, {"120", "119"}, {"74", "149"}, {"109", "119"}, {"160", "161"}, {"161", "160"}, {"156", "157"},
    {"157", "156"}, {"177", "63"},  {"45", "43"},  {"43", "45"},   {"13", "31"},   {"31", "13"}};

std::optional<Explanation> explain_xid(std::string_view asked) {
  const auto& catalog = Catalog::instance();
  const auto slash = asked.find('/');
  const auto number = asked.substr(0, slash);
  std::string code(number);
  std::string_view unit;
  if (slash != std::string_view::npos && number == "154") {
    const auto value = parse_hex32(asked.substr(slash + 1));
    if (!value || *value > 15) return std::nullopt;
    code = std::string("154/0x").append(1, "0123456789abcdef"[*value]);
  } else if (slash != std::string_view::npos) {
    unit = asked.substr(slash + 1);
    if (!is_nvlink_code(number) || number == "74" || !knows_unit(number, upper(unit))) return std::nullopt;
  }
  const auto* entry = catalog.xid(code);
  if (!entry) return std::nullopt;
  Explanation out;
  out.component = is_nvlink_code(number) ? "nvlink" : "gpu-xid";
  out.code = unit.empty() ? code : std::string(number).append("/").append(upper(unit));
  out.name = entry->mnemonic;
  out.title = entry->title;
  out.severity = entry->severity;
  out.action = entry->action;
  out.source = entry->source;
  add_class(out, entry->repair_class);
  if (!entry->models.empty() && entry->models != "none")
    out.details.push_back(std::string("NVIDIA lists it for: ").append(entry->models));
  if (!entry->investigate.empty())
    out.details.push_back(std::string("NVIDIA's second step: ").append(entry->investigate));
  if (is_nvlink_code(number) && number != "74") {
    if (unit.empty()) out.details.emplace_back("What is done depends on the unit and the error status on the line.");
    add_nvlink5_units(out, number, upper(unit));
  }
  if (code == "154")
    for (const auto& other : catalog.xids())
      if (other.code.starts_with("154/")) out.related.emplace_back(other.code);
  if (code.starts_with("154/")) out.related.emplace_back("154");
  for (const auto& pair : related_xids)
    if (pair[0] == code) out.related.emplace_back(pair[1]);
  add_decision(out);
  return out;
}

std::optional<Explanation> explain_sxid(std::string_view code) {
  const auto* entry = Catalog::instance().sxid(code);
  if (!entry) return std::nullopt;
  Explanation out;
  out.component = "gpu-sxid";
  out.code = entry->code;
  out.title = std::string("NVSwitch: ").append(entry->title);
  out.severity = entry->severity;
  out.action = entry->action;
  out.source = entry->source;
  out.details.emplace_back("A line that says Non-fatal is at most a warning, one that says Fatal is fatal.");
  add_class(out, entry->repair_class);
  add_decision(out);
  return out;
}

// `Entry` is a rule of the table or a decoded finding. "RAS_UE/umc" is explained as "RAS_UE".
template <class Entry>
std::optional<Explanation> explain_entry(const Entry& entry, const Asked& asked) {
  if (entry.severity == Severity::none || (!asked.component.empty() && asked.component != entry.component))
    return std::nullopt;
  const auto base = std::string_view(asked.code).substr(0, asked.code.find('/'));
  if (!same_ignoring_case(entry.code, asked.code) && !same_ignoring_case(entry.code, base)) return std::nullopt;
  Explanation out;
  out.component = entry.component;
  out.code = entry.code;
  out.title = entry.title;
  out.severity = entry.severity;
  out.action = entry.action;
  out.source = entry.source;
  std::optional<RepairClass> stated;
  if constexpr (requires { entry.repair_class; }) stated = entry.repair_class;
  add_class(out, stated);
  add_decision(out);
  return out;
}

void add_new(std::vector<std::string>& list, std::string text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(std::move(text));
}

// A code can be mild in one form and grave in another, and stand in several components: the gravest of the first
// component is explained, the others are named.
void merge(std::optional<Explanation>& best, std::optional<Explanation> found) {
  if (!found) return;
  if (!best) {
    best = std::move(found);
    return;
  }
  if (found->component != best->component) return add_new(best->related, found->component + "/" + found->code);
  if (found->severity > best->severity) std::swap(*found, *best);
  for (auto& other : found->related) add_new(best->related, std::move(other));
  for (auto& detail : found->details) add_new(best->details, std::move(detail));
  if (found->title != best->title)
    add_new(best->details, std::string("Also ").append(to_string(found->severity)).append(": ").append(found->title));
}

std::optional<Explanation> explain_named(const Asked& asked) {
  const auto& catalog = Catalog::instance();
  std::optional<Explanation> best;
  for (const auto& entry : catalog.decoded()) merge(best, explain_entry(entry, asked));
  for (const auto& rule : catalog.rules()) merge(best, explain_entry(rule, asked));
  return best;
}

// Single edits between two short words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

void add_line(std::string& out, std::string_view label, std::string_view text) {
  static constexpr size_t label_width = 10, line_width = 100;
  if (text.empty()) return;
  out.append(label).append(label_width - std::min(label_width, label.size()), ' ');
  size_t column = label_width;
  bool first = true;
  while (!text.empty()) {
    const auto word = take_word(text);
    if (!first && column + 1 + word.size() > line_width) {
      out.append(1, '\n').append(label_width, ' ');
      column = label_width;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  out += '\n';
}

std::string joined(const std::vector<std::string>& items, std::string_view separator) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += separator;
    out += item;
  }
  return out;
}

}  // namespace

std::optional<Explanation> explain(std::string_view code) {
  const auto asked = read_question(code);
  if (asked.code.empty()) return std::nullopt;
  const bool number = is_digit(asked.code.front());
  if (number && (asked.component.empty() || asked.component == "gpu-xid" || asked.component == "nvlink"))
    if (auto found = explain_xid(asked.code)) return found;
  if (all_digits(asked.code) && (asked.component.empty() || asked.component == "gpu-sxid"))
    if (auto found = explain_sxid(asked.code)) return found;
  return explain_named(asked);
}

std::string render(const Explanation& e) {
  std::string out = e.component + " " + e.code;
  if (!e.name.empty()) out.append(" (").append(e.name).append(")");
  out += '\n';
  add_line(out, "What", e.title);
  add_line(out, "Severity", to_string(e.severity));
  std::string does(to_string(e.repair_class));
  if (e.at_once) does += ", at once, without waiting for other lines";
  add_line(out, "We do", does);
  add_line(out, "Action", e.action.empty() ? "none published" : e.action + ": " + e.action_meaning);
  add_line(out, "Why", e.why);
  add_line(out, "Repeated", e.repeat);
  for (const auto& detail : e.details) add_line(out, "", detail);
  add_line(out, "Others", joined(e.published, "; "));
  add_line(out, "Related", joined(e.related, ", "));
  add_line(out, "Source", e.source);
  return out;
}

std::vector<std::string> suggestions(std::string_view code) {
  const auto& catalog = Catalog::instance();
  const auto asked = read_question(code);
  const auto wanted = upper(asked.code);
  std::vector<std::pair<size_t, std::string>> near;
  if (wanted.empty()) return {};
  const auto consider = [&near, &wanted](std::string_view candidate) {
    const auto name = upper(candidate);
    const bool within = wanted.size() > 2 && contains(name, wanted);
    const size_t allowed = std::max<size_t>(1, wanted.size() / 3);
    const size_t longer = std::max(wanted.size(), name.size()), shorter = std::min(wanted.size(), name.size());
    if (!within && longer - shorter > allowed) return;  // that many edits at the least
    const size_t d = within ? 1 : distance(wanted, name);
    if (d <= allowed && std::ranges::none_of(near, [&](const auto& known) { return known.second == candidate; }))
      near.emplace_back(d, candidate);
  };
  if (asked.component != "gpu-sxid")
    for (const auto& entry : catalog.xids()) consider(entry.code);
  for (const auto& entry : catalog.sxids()) consider(entry.code);
  for (const auto& rule : catalog.rules())
    if (rule.severity != Severity::none) consider(rule.code);
  for (const auto& entry : catalog.decoded()) consider(entry.code);
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < near.size() && i < 5; ++i) out.push_back(std::move(near[i].second));
  return out;
}

}  // namespace homeostat::fault
