#include "api/health_policy.hpp"

#include <doctest/doctest.h>

#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::api;

TEST_CASE("an empty policy has the schema's defaults") {
  const auto policy = decode_health_policy({});
  CHECK(policy.grace == std::chrono::seconds(120));
  CHECK(policy.drain_deadline == std::chrono::minutes(10));
  CHECK(policy.opt_out_label == "homeostat.dev/no-replace");
  CHECK(policy.max_concurrent == 2);
  CHECK(policy.max_percent == 20);
  CHECK(policy.rules.empty());
  CHECK(policy.notify.empty());
}

TEST_CASE("a policy survives the way through JSON") {
  HealthPolicy policy;
  policy.name = "strict";
  policy.grace = std::chrono::seconds(30);
  policy.max_percent = 5;
  policy.rules = {{"gpu-xid", "63", "", fault::RepairClass::replace_node},
                  {"", "", "RESET_GPU", fault::RepairClass::watch}};
  policy.notify = {{"https://hooks.example.com/x", "ops", "hook"}, {"http://127.0.0.1:1/", "", ""}};
  const auto back =
      decode_health_policy({{"metadata", {{"name", "strict"}}}, {"spec", encode_health_policy_spec(policy)}});
  CHECK(back.name == "strict");
  CHECK(back.grace == policy.grace);
  CHECK(back.max_percent == 5);
  REQUIRE(back.rules.size() == 2);
  CHECK(back.rules[0].component == "gpu-xid");
  CHECK(back.rules[0].code == "63");
  CHECK(back.rules[0].repair_class == fault::RepairClass::replace_node);
  CHECK(back.rules[1].action == "RESET_GPU");
  CHECK(back.rules[1].repair_class == fault::RepairClass::watch);
  CHECK(back.notify == policy.notify);
  CHECK(back.problems.empty());
}

TEST_CASE("what makes no sense is left out and told; numbers are held within bounds") {
  const auto object = io::parse_json_object(
      R"({"spec":{"grace_s":999999,"budget":{"maxConcurrent":-1},"rules":[{"code":"79","class":"explode"},{"class":"watch"},{"code":"48","class":"reset"}]}})");
  REQUIRE(object);
  const auto policy = decode_health_policy(*object);
  CHECK(policy.grace == std::chrono::hours(1));
  CHECK(policy.max_concurrent == 1);
  CHECK(policy.rules.size() == 1);
  CHECK(policy.problems.size() == 2);
}
