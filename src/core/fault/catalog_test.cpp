#include "core/fault/catalog.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/fault/text.hpp"
#include "core/fault/verdict.hpp"

using namespace homeostat::fault;

namespace {

// "13 56-58" -> 13, 56, 57, 58
std::set<int> codes_of(std::string_view list) {
  std::set<int> out;
  while (!list.empty()) {
    auto word = take_word(list);
    const auto first = take_number(word);
    REQUIRE(first);
    auto last = first;
    if (!word.empty()) last = (word.remove_prefix(1), take_number(word));
    REQUIRE(last);
    for (auto code = *first; code <= *last; ++code) out.insert(static_cast<int>(code));
  }
  return out;
}

// The rules of the policy that we ship, read from its flow mappings: "- {component: gpu-xid, code: "48", class:
// reset}".
std::vector<PolicyRule> default_rules() {
  std::ifstream file(HOMEOSTAT_SOURCE_DIR "/catalog/default-policy.yaml");
  REQUIRE(file.good());
  std::vector<PolicyRule> rules;
  for (std::string line; std::getline(file, line);) {
    std::string_view text = trim(line);
    if (!text.starts_with("- {")) continue;
    for (char& c : line)
      if (c == '{' || c == '}' || c == ',' || c == '"') c = ' ';
    text = skip_spaces(line);
    REQUIRE(take_word(text) == "-");
    PolicyRule rule;
    while (!text.empty()) {
      const auto key = take_word(text);
      const auto value = take_word(text);
      if (key == "component:") rule.component = value;
      if (key == "code:") rule.code = value;
      if (key == "action:") rule.action = value;
      if (key == "class:") {
        const auto repair_class = parse_repair_class(value);
        REQUIRE(repair_class);
        rule.repair_class = *repair_class;
      }
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<std::string> codes_of(const Decision& decision) {
  std::vector<std::string> out;
  for (auto code = decision.first; code != 0 && code <= decision.last; ++code) out.push_back(std::to_string(code));
  if (out.empty()) out.emplace_back(decision.codes);
  return out;
}

// What a finding of that code looks like before any policy: severity and action as the catalogue gives them.
Treatment untouched(std::string_view component, std::string_view code, std::span<const PolicyRule> rules) {
  const auto& catalog = Catalog::instance();
  if (const auto* entry = component == "gpu-xid" || component == "nvlink" ? catalog.xid(code) : nullptr)
    return treatment(component, code, entry->severity, entry->action, rules);
  for (const auto& entry : catalog.decoded())
    if (entry.component == component && entry.code == code)
      return treatment(component, code, entry.severity, entry.action, rules);
  const KernelRule* gravest = nullptr;
  for (const auto& rule : catalog.rules())
    if (rule.component == component && rule.code == code && (!gravest || rule.severity > gravest->severity))
      gravest = &rule;
  REQUIRE_MESSAGE(gravest, std::string(component), " ", std::string(code));
  return treatment(component, code, gravest->severity, gravest->action, rules);
}

}  // namespace

TEST_CASE("the class of each decision is what the catalogue with the default policy gives") {
  const auto rules = default_rules();
  CHECK(rules.size() >= 5);
  for (const auto& decision : Catalog::instance().decisions())
    for (const auto& code : codes_of(decision)) {
      CAPTURE(std::string(decision.component));
      CAPTURE(code);
      const auto how = untouched(decision.component, code, rules);
      CHECK(to_string(how.repair_class) == to_string(decision.repair_class));
    }
}

// The lists as published; a code that somebody lists and we have not decided about is an oversight.
TEST_CASE("every code on which published policies differ is decided, and says what each publisher does") {
  const std::pair<std::string_view, std::string_view> lists[] = {
      {"Crusoe", "32 48 64 74 79 95 119 120 140 143"},
      {"EKS", "46 48 54 62 63 64 74 79 95 109 110 119 120 136 140 142 143 151 155 156 158"},
      {"Azure", "48 56 57 58 62-65 68 69 73 74 79-81 92 119 120"},
      {"Meta GCM", "13 31 43 45 63 68 92 109"},
      {"Imbue", "48 56-58 62-64 68-77 79-86 88 89 92 94-105 110-120 122-125"},
      {"NVIDIA", "13 31 32 43 45 48 54 61-64 74 79 92 94 95 109 110 119 120 140 143 160"},
  };
  for (const auto& [publisher, list] : lists) {
    const auto listed = codes_of(list);
    for (int code = 1; code <= 172; ++code) {
      const auto text = std::to_string(code);
      CAPTURE(publisher);
      CAPTURE(text);
      const auto* decision = Catalog::instance().decision(code == 74 ? "nvlink" : "gpu-xid", text);
      if (listed.contains(code)) REQUIRE(decision);
      if (!decision || publisher == "NVIDIA") continue;
      std::string_view says;
      for (const auto& p : decision->published)
        if (p.name == publisher) says = p.says;
      // A row for a range names those that are meant where it is not all of them.
      if (listed.contains(code))
        CHECK(!says.empty());
      else
        CHECK((says.empty() || (contains(says, "(") && !has_word(says, text))));
    }
  }
}

TEST_CASE("repeat rules and exceptions of a model are data that the code reads") {
  const auto& catalog = Catalog::instance();
  const auto* illegal = catalog.decision("gpu-xid", "31");
  REQUIRE(illegal);
  REQUIRE(illegal->repeat);
  CHECK(illegal->repeat->count == 3);
  CHECK(illegal->repeat->window_s == 86'400);
  CHECK(illegal->repeat->then == RepairClass::drain_after_job);
  CHECK(illegal->repeat->different_jobs);
  const auto* link = catalog.decision("nvlink", "74");
  REQUIRE(link);
  CHECK(link->class_for("NVIDIA H100 80GB HBM3") == RepairClass::replace_node);
  CHECK(link->class_for("NVIDIA L40S") == RepairClass::watch);
  CHECK(link->class_for("NVIDIA L400") == RepairClass::replace_node);
  CHECK(link->class_for("") == RepairClass::replace_node);
  CHECK(catalog.decision("amd-ras", "RAS_CE/umc") == catalog.decision("amd-ras", "RAS_CE"));
  CHECK(catalog.decision("amd-ras", "RAS_CEX") == nullptr);
  CHECK(catalog.decision("gpu-xid", "154/0x1") == nullptr);
  CHECK(catalog.decision("gpu-sxid", "79") == nullptr);
  for (const auto& decision : catalog.decisions()) {
    CAPTURE(std::string(decision.codes));
    CHECK(&decision == catalog.decision(decision.component, codes_of(decision).front()));  // no row hides another
    CHECK_FALSE(decision.reason.empty());
    CHECK_FALSE(decision.source.empty());
  }
}

TEST_CASE("every row of the compiled-in tables can be read, and every action word is explained") {
  const auto& catalog = Catalog::instance();
  CHECK(catalog.malformed_rows() == 0);
  CHECK(catalog.rules().size() > 150);
  CHECK(catalog.nvlink5().size() == 95);
  CHECK(catalog.nvlink_registers().size() == 14);
  for (int code = 1; code <= 172; ++code) {
    const auto* entry = catalog.xid(std::to_string(code));
    CAPTURE(code);
    REQUIRE(entry);
    if (!entry->action.empty()) CHECK(catalog.action(entry->action));
  }
  for (const auto& rule : catalog.rules())
    if (!rule.action.empty()) CHECK_MESSAGE(catalog.action(rule.action), std::string(rule.action));
}

TEST_CASE("a mild finding never takes a node away, whatever its action word") {
  Finding finding;
  finding.severity = Severity::warn;
  finding.action = "RESTART_BM";
  set_repair_class(finding);
  CHECK(finding.repair_class == RepairClass::watch);
  CHECK_FALSE(finding.unambiguous);
}
