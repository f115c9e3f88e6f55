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
  CHECK(policy.detectors.conditions.empty());
  CHECK(policy.detectors.agent_silence == std::chrono::minutes(2));
  CHECK(policy.detectors.node_silence == std::chrono::minutes(5));
  CHECK(policy.detectors.startup == std::chrono::minutes(5));
  CHECK(policy.reset_fallback == fault::RepairClass::watch);
  CHECK(policy.reset_hold == std::chrono::minutes(1));
  CHECK(policy.breaker.max_nodes == 3);
  CHECK(policy.breaker.max_percent == 10);
}

TEST_CASE("a policy survives the way through JSON") {
  HealthPolicy policy;
  policy.name = "strict";
  policy.grace = std::chrono::seconds(30);
  policy.max_percent = 5;
  policy.rules = {{"gpu-xid", "63", "", fault::RepairClass::replace_node},
                  {"", "", "RESET_GPU", fault::RepairClass::watch}};
  policy.detectors.conditions = {{"KernelDeadlock", "True", "Docker*", std::chrono::seconds(90), "kernel",
                                  "KERNEL_DEADLOCK", fault::Severity::error, fault::RepairClass::watch},
                                 {"AcceleratedHardwareReady", "False", "", std::chrono::seconds(0), "gpu-lost", "79",
                                  fault::Severity::fatal, fault::RepairClass::replace_node}};
  policy.detectors.agent_silence = std::chrono::seconds(45);
  policy.detectors.node_silence = std::chrono::seconds(600);
  policy.detectors.startup = std::chrono::seconds(0);
  policy.reset_fallback = fault::RepairClass::replace_node;
  policy.reset_hold = std::chrono::seconds(30);
  policy.breaker = {5, 25, std::chrono::seconds(300), std::chrono::seconds(900)};
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
  CHECK(back.detectors.conditions == policy.detectors.conditions);
  CHECK(back.detectors.agent_silence == policy.detectors.agent_silence);
  CHECK(back.detectors.node_silence == policy.detectors.node_silence);
  CHECK(back.detectors.startup == policy.detectors.startup);
  CHECK(back.reset_fallback == policy.reset_fallback);
  CHECK(back.reset_hold == policy.reset_hold);
  CHECK(back.breaker.max_nodes == 5);
  CHECK(back.breaker.max_percent == 25);
  CHECK(back.breaker.window == policy.breaker.window);
  CHECK(back.breaker.quiet == policy.breaker.quiet);
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

TEST_CASE("a rule about a Node condition that is not whole is left out and told; what it leaves out has a default") {
  const auto object = io::parse_json_object(
      R"({"spec":{"nodeSilence_s":1,"conditions":[
        {"type":"KernelDeadlock","component":"kernel","code":"KERNEL_DEADLOCK"},
        {"type":"*","component":"a","code":"b"},
        {"type":"A","component":"a"},
        {"type":"A","component":"a","code":"b","status":"true"},
        {"type":"A","component":"a","code":"b","severity":"loud"},
        {"type":"A","component":"a","code":"b","class":"explode"}]}})");
  REQUIRE(object);
  const auto policy = decode_health_policy(*object);
  REQUIRE(policy.detectors.conditions.size() == 1);
  const auto& rule = policy.detectors.conditions.front();
  CHECK(rule.status == "True");
  CHECK(rule.stands_for == std::chrono::minutes(1));
  CHECK(rule.severity == fault::Severity::error);
  CHECK(rule.repair_class == fault::RepairClass::watch);
  CHECK(policy.problems.size() == 5);
  CHECK(policy.detectors.node_silence == std::chrono::minutes(1));
}
