#include "api/drill.hpp"

#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "io/json.hpp"

using namespace homeostat;

TEST_CASE("a Drill survives writing and reading, all of it") {
  const TimePoint t{Duration{1'764'483'000'123}};
  api::Drill drill;
  drill.node = "gpu-a", drill.fault = "xid=79", drill.device = "1", drill.allow_production = true;
  drill.status = {api::DrillPhase::seen,
                  "secret",
                  "m",
                  "0000:3d:00",
                  {"gpu-xid:79@0000:3d:00"},
                  {{3, "NVRM: x"}},
                  "rep-1",
                  t,
                  t,
                  t,
                  t};
  const boost::json::object object{{"metadata", {{"name", "d"}, {"uid", "u"}}},
                                   {"spec", api::encode_drill_spec(drill)},
                                   {"status", api::encode_drill_status(drill.status)}};
  const auto read = api::decode_drill(object);
  CHECK(read.name == "d");
  CHECK(read.uid == "u");
  CHECK(read.node == drill.node);
  CHECK(read.fault == drill.fault);
  CHECK(read.device == drill.device);
  CHECK(read.allow_production);
  CHECK(read.status == drill.status);
}

TEST_CASE("a Drill that was just created is Pending; nonsense does no harm") {
  auto drill = api::decode_drill({{"spec", {{"nodeName", "n"}, {"fault", "hang"}}}});
  CHECK(drill.status.phase == api::DrillPhase::pending);
  CHECK_FALSE(drill.allow_production);
  drill = api::decode_drill({{"status", {{"phase", "Dancing"}, {"lines", {1, "x"}}, {"findings", {1}}}}, {"spec", 7}});
  CHECK(drill.status.phase == api::DrillPhase::pending);
  CHECK(drill.status.findings.empty());
  CHECK(drill.node.empty());
}

TEST_CASE("every phase has one name; three of them stand in the way of another drill") {
  using api::DrillPhase;
  int active = 0;
  for (auto phase : {DrillPhase::pending, DrillPhase::armed, DrillPhase::seen, DrillPhase::done, DrillPhase::refused,
                     DrillPhase::expired}) {
    CHECK(api::parse_drill_phase(api::to_string(phase)) == phase);
    active += api::is_active(phase) ? 1 : 0;
  }
  CHECK(active == 3);
  CHECK_FALSE(api::parse_drill_phase("armed"));
}

TEST_CASE("what is shown has no token") {
  const boost::json::object drill{{"status", {{"phase", "Armed"}, {"token", "secret"}}}};
  CHECK(io::to_text(api::without_token(drill)).find("secret") == std::string::npos);
  CHECK(io::string_at(api::without_token(drill), {"status", "phase"}) == "Armed");
  CHECK(api::without_token({}).empty());
}
