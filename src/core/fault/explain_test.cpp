#include "core/fault/explain.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "core/fault/catalog.hpp"

using namespace homeostat::fault;

TEST_CASE("a code is found in each spelling that people type") {
  struct Case {
    std::string_view typed, component, code;
  };
  for (const auto& c : std::initializer_list<Case>{
           {"79", "gpu-xid", "79"},
           {" 79 ", "gpu-xid", "79"},
           {"xid 79", "gpu-xid", "79"},
           {"XID79", "gpu-xid", "79"},
           {"Xid=79", "gpu-xid", "79"},
           {"xid:79", "gpu-xid", "79"},
           {"gpu-xid 79", "gpu-xid", "79"},
           {"gpu-xid:79", "gpu-xid", "79"},
           {"gpu-lost 79", "gpu-lost", "79"},
           {"74", "nvlink", "74"},
           {"nvlink/74", "nvlink", "74"},
           {"154", "gpu-xid", "154"},
           {"154/0x2", "gpu-xid", "154/0x2"},
           {"154/2", "gpu-xid", "154/0x2"},
           {"149", "nvlink", "149"},
           {"149/NETIR_LINK_EVT", "nvlink", "149/NETIR_LINK_EVT"},
           {"nvlink 149/netir_link_evt", "nvlink", "149/NETIR_LINK_EVT"},
           {"sxid 12028", "gpu-sxid", "12028"},
           {"SXID12028", "gpu-sxid", "12028"},
           {"12028", "gpu-sxid", "12028"},
           {"RAS_UE", "amd-ras", "RAS_UE"},
           {"ras_ue/umc", "amd-ras", "RAS_UE"},
           {"nic/LINK_DOWN", "nic", "LINK_DOWN"},
           {"pcie-link LINK_DOWN", "pcie-link", "LINK_DOWN"},
           {"EDAC_CE", "memory-edac", "EDAC_CE"},
       }) {
    CAPTURE(c.typed);
    const auto found = explain(c.typed);
    REQUIRE(found);
    CHECK(found->component == c.component);
    CHECK(found->code == c.code);
    CHECK_FALSE(found->title.empty());
    CHECK_FALSE(found->source.empty());
  }
}

TEST_CASE("what nobody knows is not explained; something near is offered") {
  for (std::string_view typed :
       {"", " ", "0", "173", "9999", "154/0x22", "154/x", "149/NOTHING", "LINK_SIDEWAYS", "nic"}) {
    CAPTURE(typed);
    CHECK_FALSE(explain(typed));
  }
  CHECK(suggestions("LINK_DWN").front() == "LINK_DOWN");
  CHECK(suggestions("ras_eu").front() == "RAS_UE");
  CHECK(suggestions("lockup").size() >= 2);
  CHECK(suggestions("").empty());
  CHECK(suggestions(std::string(100'000, 'x')).empty());
}

TEST_CASE("an explanation names the action, its meaning, the decision and who decides otherwise") {
  const auto e = explain("109");
  REQUIRE(e);
  CHECK(e->action == "RESET_GPU");
  CHECK(e->action_meaning == Catalog::instance().action("RESET_GPU")->meaning);
  CHECK(e->repair_class == RepairClass::reset);
  CHECK(e->repeat == "2 on one device within 7 days: replace-node");
  CHECK(std::ranges::find(e->published, "Meta GCM: not critical") != e->published.end());
  const auto text = render(*e);
  CHECK(text.starts_with("gpu-xid 109 (ROBUST_CHANNEL_CTXSW_TIMEOUT_ERROR)\n"));
  CHECK(text.find(e->why.substr(0, 20)) != std::string::npos);
  CHECK(text.ends_with("\n"));
  CHECK(render(*explain("79")).find("at once") != std::string::npos);
}

TEST_CASE("NVLink5: the number leads to its units, the unit to what each status asks for") {
  const auto number = explain("149");
  REQUIRE(number);
  CHECK(std::ranges::find(number->related, "149/NETIR_LINK_EVT") != number->related.end());
  for (const auto& related : number->related) CHECK_MESSAGE(explain(related), related);
  const auto unit = explain("145/RLW_SRC_TRACK");
  REQUIRE(unit);
  CHECK(std::ranges::any_of(unit->details, [](const auto& d) { return d.starts_with("status 0x4: XID_154_EVAL"); }));
}

TEST_CASE("every code of the catalogue can be explained, and all it refers to as well") {
  const auto& catalog = Catalog::instance();
  const auto holds = [](const std::string& typed) {
    CAPTURE(typed);
    const auto e = explain(typed);
    REQUIRE(e);
    CHECK(e->severity != Severity::none);
    for (const auto& related : e->related) CHECK_MESSAGE(explain(related), related);
  };
  for (const auto& entry : catalog.xids()) holds("xid " + std::string(entry.code));
  for (const auto& entry : catalog.sxids()) holds("sxid " + std::string(entry.code));
  for (const auto& entry : catalog.decoded()) holds(std::string(entry.component) + "/" + std::string(entry.code));
  for (const auto& rule : catalog.rules())
    if (rule.severity != Severity::none) holds(std::string(rule.component) + "/" + std::string(rule.code));
}
