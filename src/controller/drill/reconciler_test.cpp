#include "controller/drill/reconciler.hpp"

#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <set>
#include <thread>

#include "api/drill.hpp"
#include "api/node_health.hpp"
#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/fake_api_server.hpp"
#include "kube/meta.hpp"

using namespace homeostat;
using namespace homeostat::controller;

namespace {

namespace resources = kube::resources;

//  pool gpu (local): node gpu-a with one GPU, its NodeHealth, the policy
struct World {
  io::SystemClock clock;
  io::SystemRandom random;
  kube::FakeApiServer server{clock};
  std::vector<std::string> told;
  DrillReconciler reconciler{server.client_factory(random, "homeostat-controller"),
                             [this](const kube::Resource& resource, const kube::Object&, bool, std::string_view reason,
                                    std::string_view message) {
                               told.push_back(resource.kind + " " + std::string(reason) + ": " + std::string(message));
                             },
                             clock, random};

  World() {
    auto pool = kube::new_object(resources::node_pools, "", "gpu");
    pool["spec"] = {{"size", 2}, {"provider", {{"type", "local"}}}};
    server.put(resources::node_pools, pool);
    auto node = kube::new_object(resources::nodes, "", "gpu-a");
    io::set_at(node, {"metadata", "labels", names::pool_label}, boost::json::value("gpu"));
    server.put(resources::nodes, node);
    report({});
  }
  void report(std::vector<api::HealthFinding> findings) {
    auto health = kube::new_object(resources::node_healths, "", "gpu-a");
    api::NodeHealthStatus status;
    status.last_report = clock.now();
    status.verdict = findings.empty() ? "Healthy" : "Unhealthy";
    status.devices = {{"0000:17:00", 0, "GPU-a", "Good", ""}};
    status.findings = std::move(findings);
    health["status"] = api::encode_node_health_status(status);
    server.put(resources::node_healths, health);
  }
  void order(const std::string& name, const std::string& fault) {
    auto drill = kube::new_object(resources::drills, "", name);
    drill["spec"] = {{"nodeName", "gpu-a"}, {"fault", fault}};
    server.put(resources::drills, drill);
  }
  kube::ReconcileResult look(const std::string& name) {
    auto result = reconciler.reconcile({"", name}, {});
    REQUIRE(result);
    return *result;
  }
  api::Drill read(const std::string& name) { return api::decode_drill(*server.find(resources::drills, "", name)); }
};

}  // namespace

TEST_CASE("a drill is armed with a token of its own, seen, and its token taken away when it is over") {
  World world;
  world.order("d", "xid=79");
  CHECK(world.look("d").requeue_after);
  auto drill = world.read("d");
  REQUIRE(drill.status.phase == api::DrillPhase::armed);
  CHECK(drill.status.token.size() == 32);
  CHECK(drill.status.token.find_first_not_of("0123456789abcdef") == std::string::npos);
  for (const auto& line : world.told) CHECK(line.find(drill.status.token) == std::string::npos);
  REQUIRE(world.told.size() == 2);  // of the drill and of the node
  CHECK(world.told[1].starts_with("Node DrillArmed: Drill d (xid=79 on gpu-a)"));

  api::HealthFinding finding;
  finding.id = "gpu-xid:79@0000:17:00", finding.drill = true, finding.severity = "fatal";
  world.report({finding});
  world.look("d");
  CHECK(world.read("d").status.phase == api::DrillPhase::seen);
  world.report({});
  world.look("d");
  drill = world.read("d");
  CHECK(drill.status.phase == api::DrillPhase::done);
  CHECK(drill.status.token.empty());
  CHECK(world.look("d").requeue_after > Duration(80'000'000));  // only to be taken away
}

TEST_CASE("tokens differ") {
  World world;
  std::set<std::string> tokens;
  for (int i = 0; i < 8; ++i) {
    const auto name = "d" + std::to_string(i);
    world.order(name, "xid=79");
    world.look(name);
    tokens.insert(world.read(name).status.token);
    world.server.erase(resources::drills, "", name);
  }
  CHECK(tokens.size() == 8);
}

TEST_CASE("a pool that is marked as production is not struck without leave") {
  World world;
  auto pool = *world.server.find(resources::node_pools, "", "gpu");
  io::set_at(pool, {"metadata", "labels", names::production_label}, boost::json::value("true"));
  world.server.put(resources::node_pools, pool);
  world.order("d", "xid=79");
  world.look("d");
  const auto drill = world.read("d");
  CHECK(drill.status.phase == api::DrillPhase::refused);
  CHECK(drill.status.message.find("--production") != std::string::npos);
  CHECK(drill.status.token.empty());
  CHECK(world.told.size() == 1);  // nothing will happen to the node
}

TEST_CASE("a write that somebody else overtook is made anew from what is there then") {
  World world;
  world.order("d", "xid=79");
  int conflicts = 0;
  world.server.set_fault_hook([&](const kube::FakeApiServer::Call& call) {
    return call.subresource == "status" && conflicts++ == 0 ? kube::FakeApiServer::Fault::conflict
                                                            : kube::FakeApiServer::Fault::none;
  });
  CHECK(world.look("d").requeue_after < Duration(1'000));
  CHECK(world.read("d").status.phase == api::DrillPhase::pending);
  CHECK(world.told.empty());
  world.look("d");
  CHECK(world.read("d").status.phase == api::DrillPhase::armed);
}

TEST_CASE("drills that are long over are taken away, and one that is gone is no trouble") {
  World world;
  world.order("d", "xid=79");
  world.look("d");
  auto object = *world.server.find(resources::drills, "", "d");
  auto drill = api::decode_drill(object);
  drill.status.phase = api::DrillPhase::done;
  drill.status.finished_at = world.clock.now() - Duration(86'400'001);
  object["status"] = api::encode_drill_status(drill.status);
  world.server.put(resources::drills, object);
  world.look("d");
  CHECK_FALSE(world.server.find(resources::drills, "", "d"));
  CHECK_FALSE(world.look("d").requeue_after);
}

TEST_CASE("the operator arms what is ordered while it runs, and counts drills by phase") {
  World world;
  DrillOperator drills(world.server.client_factory(world.random, "homeostat-controller"), world.clock, world.random);
  const std::jthread running([&](std::stop_token stop) { drills.run(nullptr, stop); });
  world.order("d", "xid=79");
  for (int i = 0; i < 500 && drills.metrics().find("{phase=\"Armed\"} 1") == std::string::npos; ++i)
    world.clock.sleep(Duration(10), {});
  CHECK(drills.metrics().find("homeostat_drills{phase=\"Armed\"} 1\n") != std::string::npos);
  CHECK(drills.metrics().find("homeostat_drills{phase=\"Done\"} 0\n") != std::string::npos);
  CHECK(drills.metrics().find(world.read("d").status.token) == std::string::npos);
}
