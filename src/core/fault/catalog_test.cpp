#include "core/fault/catalog.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace homeostat::fault;

TEST_CASE("every row of the compiled-in tables can be read, and every action word is explained") {
  const auto& catalog = Catalog::instance();
  CHECK(catalog.malformed_rows() == 0);
  CHECK(catalog.rules().size() > 150);
  CHECK(catalog.nvlink5().size() == 95);
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
