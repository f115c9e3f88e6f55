// The fake's inside: ownership of fields, patches and selectors.
#include "kube/fake_fields.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>

#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::kube::fake;
namespace json = boost::json;

namespace {
json::object parse(const char* text) { return *io::parse_json_object(text); }
const Owner one{"one", "Apply", ""}, two{"two", "Apply", ""};
}  // namespace

TEST_CASE("apply: list-maps by key, the last field of an item takes the item with it, other lists are one value") {
  json::object live;
  Owners owners;
  apply(live, owners, parse(R"({"status":{"conditions":[{"type":"A","status":"True"}],"list":[1,2]}})"), one, false);
  apply(live, owners, parse(R"({"status":{"conditions":[{"type":"B","status":"True"}]}})"), two, false);
  CHECK(io::array_at(live, {"status", "conditions"}).size() == 2);
  CHECK(apply(live, owners, parse(R"({"status":{"list":[2]}})"), two, false).size() == 1);
  apply(live, owners, parse(R"({"status":{"list":[1,2]}})"), one, false);
  CHECK(io::to_text(live) == R"({"status":{"conditions":[{"type":"B","status":"True"}],"list":[1,2]}})");
  apply(live, owners, parse("{}"), one, false);
  apply(live, owners, parse("{}"), two, false);
  CHECK(live.empty());
  CHECK(owners.empty());
}

TEST_CASE("a plain write takes over what it changes and orphans what it removes") {
  json::object live;
  Owners owners;
  apply(live, owners, parse(R"({"data":{"a":"1","b":"1"}})"), one, false);
  json::object next = parse(R"({"data":{"a":"2"}})");
  track(live, next, owners, {"writer", "Update", ""});
  CHECK_FALSE(owners.contains(one));
  const auto conflicts = apply(next, owners, parse(R"({"data":{"a":"1"}})"), one, false);
  REQUIRE(conflicts.size() == 1);
  CHECK(conflicts[0].manager == "writer");
  CHECK(path_text(conflicts[0].path) == ".data.a");
}

TEST_CASE("json patch: pointers with escapes, array positions, and failures that change nothing") {
  json::value value = parse(R"({"a/b":{"~":1},"l":[1,2]})");
  CHECK(
      json_patch(
          value,
          io::parse_json(
              R"([{"op":"replace","path":"/a~1b/~0","value":2},{"op":"add","path":"/l/1","value":9},{"op":"add","path":"/l/-","value":3},{"op":"remove","path":"/l/0"}])")
              ->get_array())
          .has_value());
  CHECK(io::to_text(value) == R"({"a/b":{"~":2},"l":[9,2,3]})");
  for (const char* bad : {R"([{"op":"remove","path":"/x"}])", R"([{"op":"add","path":"/l/7","value":1}])",
                          R"([{"op":"test","path":"/l/0","value":1}])", R"([{"op":"fly","path":"/l"}])"})
    CHECK_FALSE(json_patch(value, io::parse_json(bad)->get_array()).has_value());
}

TEST_CASE("selectors") {
  const auto object = parse(R"({"metadata":{"name":"n","labels":{"a":"1","b.c/d":"2"}},"spec":{"nodeName":"x"}})");
  struct Case {
    const char* selector;
    bool matches;
  };
  for (const auto& [selector, matches] : {Case{"", true},
                                          {"a=1", true},
                                          {"a==1,b.c/d=2", true},
                                          {"a=2", false},
                                          {"a!=2", true},
                                          {"z!=2", true},
                                          {"a", true},
                                          {"!a", false},
                                          {"!z", true},
                                          {"a in (0,1)", true},
                                          {"a notin (0, 1)", false},
                                          {"z notin (1)", true},
                                          {"z in (1)", false}}) {
    CAPTURE(selector);
    CHECK(matches_labels(object, selector) == matches);
  }
  CHECK(matches_fields(object, "metadata.name=n,spec.nodeName!=y"));
  CHECK_FALSE(matches_fields(object, "spec.nodeName="));
  CHECK(matches_fields(object, "status.phase!=Running"));
}
