#include "core/fault/counter_codes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "core/fault/catalog.hpp"

using namespace homeostat::fault;

namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (true) {
    const auto tab = line.find('\t', at);
    parts.push_back(line.substr(at, tab - at));
    if (tab == std::string::npos) return parts;
    at = tab + 1;
  }
}

// component, code, class, action, severity
std::string row_of(const CounterCode& code) {
  const auto finding = counter_finding(code, "", "");
  std::string row;
  for (const auto text :
       {code.component, code.code, to_string(finding.repair_class), code.action, to_string(code.severity)}) {
    row += text;
    row += '|';
  }
  return row;
}

}  // namespace

TEST_CASE("catalog/counters.tsv explains what the code finds, row for row") {
  std::ifstream file(HOMEOSTAT_SOURCE_DIR "/catalog/counters.tsv");
  REQUIRE(file);
  std::vector<std::string> told, done;
  std::string line;
  bool header = true;
  while (std::getline(file, line)) {
    if (line.starts_with("#")) continue;
    const auto parts = split(line);
    CAPTURE(line);
    REQUIRE(parts.size() == 7);
    if (header) {
      header = false;
      continue;
    }
    CHECK(parts[5].size() > 20);
    CHECK_FALSE(parts[6].empty());
    std::string row;
    for (size_t i = 0; i < 5; ++i) {
      row += parts[i];
      row += '|';
    }
    told.push_back(row);
  }
  for (const auto* code : counter_codes::all) {
    done.push_back(row_of(*code));
    if (!code->action.empty()) CHECK(Catalog::instance().action(code->action));
  }
  std::ranges::sort(told);
  std::ranges::sort(done);
  CHECK(std::ranges::adjacent_find(done) == done.end());
  CHECK(told == done);
}

TEST_CASE("a part behind the code leaves the row's treatment as it is") {
  const auto whole = counter_finding(counter_codes::ib_down_lasting, "0000:41:00.0", "title");
  const auto part = counter_finding(counter_codes::ib_down_lasting, "0000:41:00.0", "title", "2");
  CHECK(whole.code == "LINK_DOWN");
  CHECK(part.code == "LINK_DOWN/2");
  CHECK(part.repair_class == whole.repair_class);
  CHECK(whole.repair_class == RepairClass::drain_after_job);
}
