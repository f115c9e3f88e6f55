// The opener against an API server, a Slurm and a provider in memory, under a clock that the test moves.
#include "controller/repair/opener.hpp"

#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "api/node_health.hpp"
#include "api/repair.hpp"
#include "controller/node_pool/reconciler.hpp"
#include "controller/repair/changes.hpp"
#include "controller/repair/observe.hpp"
#include "core/names.hpp"
#include "io/fake_clock.hpp"
#include "io/json.hpp"
#include "kube/conditions.hpp"
#include "kube/fake_api_server.hpp"
#include "kube/meta.hpp"
#include "provider/fake_provider.hpp"
#include "slurm/fake_slurm.hpp"
#include "tests/test_clock.hpp"

using namespace homeostat;
using namespace homeostat::controller;

namespace {

namespace resources = kube::resources;
constexpr Duration second{1'000};

constexpr const char* policy_text = R"({"budget": {"maxConcurrent": 100, "maxPercent": 100}, "startup_s": 0,
  "resetFallback": "replace-node",
  "conditions": [{"type": "GPUMissing", "for_s": 60, "component": "gpu-lost", "code": "DEVICE_COUNT", "severity": "fatal",
                  "class": "replace-node"},
                 {"type": "KernelDeadlock", "for_s": 0, "component": "kernel", "code": "KERNEL_DEADLOCK"}]})";

// A pool of some nodes that report every 10 s, as long as nothing is done to them.
struct World {
  explicit World(int nodes = 4, const char* policy = policy_text) : size(nodes) {
    kube::Object pool = kube::new_object(resources::node_pools, "", "gpu");
    pool["spec"] = {{"size", nodes}, {"provider", {{"type", "local"}}}};
    server.put(resources::node_pools, pool);
    kube::Object health_policy = kube::new_object(resources::health_policies, "", "default");
    health_policy["spec"] = boost::json::parse(policy);
    server.put(resources::health_policies, health_policy);
    for (int i = 0; i < nodes; ++i) {
      std::string name = node_name(i);
      machines.machines.push_back({name, "t-" + name, "gpu", 8, provider::MachineState::running, "", std::nullopt});
      slurm.register_node(name, 8);
      put_node(name, "True");
      report(name);
    }
    start();
  }

  static std::string node_name(int i) { return "gpu-n" + std::to_string(i); }

  void put_node(const std::string& name, const std::string& ready, boost::json::array conditions = {}) {
    kube::Object node = kube::new_object(resources::nodes, "", name);
    if (auto old = server.find(resources::nodes, "", name)) node = *old;
    io::set_at(node, {"metadata", "labels", names::pool_label}, "gpu");
    io::set_at(node, {"metadata", "labels", names::workers_label}, "slurm.demo.gpu");
    conditions.push_back(condition("Ready", ready));
    io::set_at(node, {"status", "conditions"}, std::move(conditions));
    server.put(resources::nodes, node);
  }
  boost::json::object condition(const std::string& type, const std::string& status) {
    std::string& since = transitions[type + status];
    if (since.empty()) since = format_rfc3339(clock.now());
    return {{"type", type}, {"status", status}, {"reason", "Test"}, {"lastTransitionTime", since}};
  }

  void report(const std::string& name, const std::vector<api::HealthFinding>& findings = {},
              const std::vector<api::HealthIncident>& incidents = {}) {
    kube::Object health = kube::new_object(resources::node_healths, "", name);
    api::NodeHealthStatus status;
    status.boot_id = "boot-" + name, status.last_report = clock.now();
    status.verdict = findings.empty() ? "Healthy" : "Unhealthy";
    status.findings = findings, status.incidents = incidents;
    health["status"] = api::encode_node_health_status(status);
    server.put(resources::node_healths, health);
  }
  api::HealthFinding finding(const std::string& code, const std::string& repair_class, const std::string& role = "") {
    api::HealthFinding found;
    found.id = code, found.component = "gpu-xid", found.code = code, found.severity = "fatal";
    found.repair_class = repair_class, found.role = role, found.incident = role.empty() ? "" : "i1";
    found.first_seen = found.last_seen = clock.now();
    return found;
  }

  // A process that knows nothing yet.
  struct Process {
    explicit Process(World& world)
        : sessions({world.server.client_factory(world.random, "homeostat-controller"),
                    [&world](kube::Client&, std::string_view) -> Result<std::unique_ptr<slurm::Client>> {
                      return world.slurm.client();
                    },
                    [&world](kube::Client&, const api::NodePool&) -> Result<std::unique_ptr<provider::Provider>> {
                      return world.machines.connect();
                    }}),
          fleet(world.clock),
          book(world.clock),
          opener(
              sessions,
              [&world](const kube::Resource&, const kube::Object& about, bool, std::string_view reason,
                       std::string_view message) {
                world.told.push_back(kube::name_of(about) + " " + std::string(reason) + ": " + std::string(message));
              },
              world.clock, fleet, book),
          pooler(sessions, world.clock, book) {}
    Sessions sessions;
    FleetWatch fleet;
    PlanBook book;
    RepairOpener opener;
    NodePoolReconciler pooler;
  };
  void start() { process = std::make_unique<Process>(*this); }

  kube::ReconcileResult look(const std::string& name) {
    auto result = process->opener.reconcile({"", name}, {});
    REQUIRE_MESSAGE(result.has_value(), result.error().message);
    return *result;
  }

  // Time goes by in steps of five seconds: who is not silent reports, everybody is looked at.
  void pass(Duration duration) {
    for (TimePoint end = clock.now() + duration; clock.now() < end;) {
      clock.time += 5 * second;
      slurm.advance_to(clock.now());
      for (int i = 0; i < size; ++i)
        if (!silent.contains(node_name(i))) beat(node_name(i));
      for (int i = 0; i < size; ++i) look(node_name(i));
    }
  }
  void beat(const std::string& name) {
    auto health = *server.find(resources::node_healths, "", name);
    io::set_at(health, {"status", "lastReport"}, boost::json::value(format_rfc3339(clock.now())));
    server.put(resources::node_healths, health);
  }
  void lose(const std::string& name) {
    silent.insert(name);
    put_node(name, "Unknown");
    slurm.lose_slurmd(name);
  }

  std::vector<repair::Record> repairs() const {
    std::vector<repair::Record> all;
    for (const auto& object : server.all(resources::repairs)) all.push_back(api::decode_repair(object));
    return all;
  }
  bool was_told(std::string_view part) const {
    return std::ranges::any_of(told, [&](const std::string& text) { return text.find(part) != std::string::npos; });
  }
  kube::Object pool_object() const { return *server.find(resources::node_pools, "", "gpu"); }

  int size;
  io::FakeClock clock;
  io::FakeRandom random;
  kube::FakeApiServer server{clock};
  slurm::FakeSlurm slurm{clock.now()};
  provider::FakeProvider machines;
  std::map<std::string, std::string> transitions;
  std::set<std::string> silent;
  std::vector<std::string> told;
  std::unique_ptr<Process> process;
};

}  // namespace

TEST_CASE("a Node condition that stands opens a Repair, one that comes and goes does not") {
  World world;
  SUBCASE("it stands") {
    world.put_node("gpu-n1", "True", {world.condition("GPUMissing", "True")});
    world.pass(60 * second);
    CHECK(world.repairs().empty());
    world.pass(10 * second);
    REQUIRE(world.repairs().size() == 1);
    auto repair = world.repairs().front();
    CHECK(repair.node == "gpu-n1");
    CHECK(repair.fault.source == "condition:GPUMissing=True");
    CHECK(repair.fault.code == "DEVICE_COUNT");
    CHECK(repair.boot_id == "boot-gpu-n1");
    CHECK(world.was_told("gpu-n1 RepairOpened"));
    world.pass(60 * second);
    CHECK(world.repairs().size() == 1);
  }
  SUBCASE("it flaps") {
    for (int i = 0; i < 20; ++i) {
      world.transitions.clear();
      world.put_node("gpu-n1", "True", {world.condition("GPUMissing", i % 2 == 0 ? "True" : "False")});
      world.pass(30 * second);
    }
    CHECK(world.repairs().empty());
  }
  SUBCASE("a restart of the controller starts the wait anew rather than to trust a clock") {
    world.put_node("gpu-n1", "True", {world.condition("GPUMissing", "True")});
    world.pass(55 * second);
    world.start();
    world.pass(55 * second);
    CHECK(world.repairs().empty());
    world.pass(15 * second);
    CHECK(world.repairs().size() == 1);
  }
  SUBCASE("one that is only watched is told once") {
    world.put_node("gpu-n1", "True", {world.condition("KernelDeadlock", "True")});
    world.pass(120 * second);
    CHECK(world.repairs().empty());
    CHECK(world.told ==
          std::vector<std::string>{"gpu-n1 KernelDeadlock: Node condition KernelDeadlock is True (Test)"});
    CHECK(world.process->book.detected().size() == 1);
    world.put_node("gpu-n1", "True");
    world.pass(5 * second);
    CHECK(world.process->book.detected().empty());
  }
}

//  condition stands, for_s 60        -> waits       the policy says for_s 0 -> told at the next look, not 60 s later
TEST_CASE("another policy counts at the next look") {
  World world;
  world.put_node("gpu-n1", "True", {world.condition("KernelDeadlock", "True")});
  auto set_for_s = [&](int for_s) {
    kube::Object policy = *world.server.find(resources::health_policies, "", "default");
    for (auto& rule : io::find(policy, {"spec", "conditions"})->as_array()) rule.as_object()["for_s"] = for_s;
    world.server.put(resources::health_policies, policy);
    world.process->opener.rules_changed();
  };
  set_for_s(60);
  CHECK(world.look("gpu-n1").requeue_after == std::optional(60 * second));
  CHECK(world.told.empty());
  set_for_s(0);
  world.look("gpu-n1");
  CHECK(world.was_told("gpu-n1 KernelDeadlock"));
}

TEST_CASE("silence: a lost node is replaced, a silent agent is not") {
  World world(10);
  SUBCASE("kubelet, agent and slurmd are silent") {
    world.pass(60 * second);
    world.lose("gpu-n1");
    world.pass(290 * second);
    CHECK(world.repairs().empty());
    world.pass(20 * second);
    REQUIRE(world.repairs().size() == 1);
    CHECK(world.repairs().front().fault.code == "NODE_LOST");
    CHECK(world.repairs().front().fault.source == "silence");
  }
  SUBCASE("only the agent: people are told, with what its pod does") {
    kube::Object pod = kube::new_object(resources::pods, names::system_namespace, "agent-x");
    io::set_at(pod, {"metadata", "labels", "app.kubernetes.io/name"}, "homeostat-agent");
    pod["spec"] = {{"nodeName", "gpu-n1"}};
    pod["status"] = boost::json::parse(
        R"({"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]})");
    world.server.put(resources::pods, pod);
    world.silent.insert("gpu-n1");
    world.pass(600 * second);
    CHECK(world.repairs().empty());
    CHECK(world.was_told("gpu-n1 AgentSilent"));
    CHECK(world.was_told("agent-x is Running, CrashLoopBackOff"));
    CHECK(world.told.size() == 1);
  }
  SUBCASE("slurmd answers: the machine lives") {
    world.silent.insert("gpu-n1");
    world.put_node("gpu-n1", "Unknown");
    world.pass(600 * second);
    CHECK(world.repairs().empty());
    CHECK(world.was_told("its slurmd answers"));
  }
  SUBCASE("Slurm cannot be asked") {
    world.lose("gpu-n1");
    world.slurm.set_reachable(false);
    world.pass(600 * second);
    CHECK(world.repairs().empty());
    CHECK(world.was_told("nothing is done on half of the facts"));
  }
  SUBCASE("the machine is gone at the provider: that is the NodePool's") {
    world.lose("gpu-n1");
    std::erase_if(world.machines.machines, [](const auto& machine) { return machine.name == "gpu-n1"; });
    world.pass(600 * second);
    CHECK(world.repairs().empty());
    CHECK(world.was_told("the NodePool orders another"));
  }
  SUBCASE("it comes back in time") {
    world.lose("gpu-n1");
    world.pass(250 * second);
    world.silent.clear();
    world.put_node("gpu-n1", "True");
    world.slurm.register_node("gpu-n1", 8);
    world.pass(300 * second);
    CHECK(world.repairs().empty());
  }
  SUBCASE("a third of the nodes within a minute: it is the network, and the NodePool says so") {
    world.pass(70 * second);
    for (int i = 0; i < 3; ++i) world.lose(World::node_name(i));
    world.pass(600 * second);
    CHECK(world.repairs().empty());
    CHECK(world.was_told("gpu ManyNodesSilent: 3 of 10 nodes fell silent within a minute"));
    CHECK_FALSE(world.was_told("NodeSilent:"));  // not once per node
    (void)world.process->pooler.reconcile({"", "gpu"}, {});
    CHECK(kube::condition_status(world.pool_object(), "Breaker") == "True");
    CHECK(io::string_at(*kube::find_condition(world.pool_object(), "Breaker"), {"reason"}) == "ManyNodesSilent");
    // Two come back: the third is a node of its own.
    world.silent = {"gpu-n2"};
    for (int i = 0; i < 2; ++i)
      world.put_node(World::node_name(i), "True"), world.slurm.register_node(World::node_name(i), 8);
    world.pass(30 * second);
    REQUIRE(world.repairs().size() == 1);
    CHECK(world.repairs().front().node == "gpu-n2");
    (void)world.process->pooler.reconcile({"", "gpu"}, {});
    CHECK(kube::condition_status(world.pool_object(), "Breaker") == "False");
  }
  SUBCASE("a start of the controller amid an outage proves nothing about single nodes") {
    for (int i = 0; i < 9; ++i) world.lose(World::node_name(i));
    world.start();
    world.pass(900 * second);
    CHECK(world.repairs().empty());
  }
}

//  size 4: gpu-n0 gpu-n1 gpu-n2 work, gpu-n3 is a spare that is wanted; its agent is silent -> it waits; heard again ->
//  promoted
TEST_CASE("a spare that nobody watches is given no job, neither by its pool nor by a repair") {
  World world;
  auto spare = *world.server.find(resources::nodes, "", "gpu-n3");
  io::set_at(spare, {"spec", "taints"},
             boost::json::array{boost::json::object{{"key", names::spare_taint}, {"effect", "NoSchedule"}}});
  world.server.put(resources::nodes, spare);
  auto is_spare = [&] {
    return !io::array_at(*world.server.find(resources::nodes, "", "gpu-n3"), {"spec", "taints"}).empty();
  };
  world.silent.insert("gpu-n3");
  world.pass(130 * second);
  CHECK(world.process->book.unwatched("gpu-n3"));
  CHECK_FALSE(world.process->book.unwatched("gpu-n1"));
  REQUIRE(world.process->pooler.reconcile({"", "gpu"}, {}));
  CHECK(is_spare());

  repair::Record record;
  record.name = "rep-1", record.node = "gpu-n1", record.pool = "gpu", record.phase = repair::Phase::requeued;
  REQUIRE(repair::needs(record).spares);
  auto session = world.process->sessions.lend();
  auto spares = [&] { return observe(*session, record, {std::nullopt, {}, &world.process->book}).spares.value.size(); };
  CHECK(spares() == 0);

  world.silent.clear();
  world.pass(10 * second);
  CHECK(spares() == 1);
  REQUIRE(world.process->pooler.reconcile({"", "gpu"}, {}));
  CHECK_FALSE(is_spare());
}

TEST_CASE("one Repair per incident: the root's, with its companions; victims open none") {
  World world;
  auto root = world.finding("48", "reset", "root");
  auto companion = world.finding("64", "replace-node", "companion");
  auto cascade = world.finding("45", "restart-job", "cascade");
  auto victim = world.finding("149", "replace-node", "victim");
  api::HealthIncident incident;
  incident.id = "i1", incident.root = "48", incident.state = "Gathering";
  SUBCASE("gathering: waited for, then opened") {
    world.report("gpu-n1", {root, companion, cascade, victim}, {incident});
    CHECK(world.look("gpu-n1").requeue_after == second);
    CHECK(world.repairs().empty());
    incident.state = "Open";
    world.report("gpu-n1", {root, companion, cascade, victim}, {incident});
    world.look("gpu-n1");
    REQUIRE(world.repairs().size() == 1);
    CHECK(world.repairs().front().fault.code == "48");
    CHECK(world.repairs().front().companions == std::vector<std::string>{"xid 64", "xid 45"});
  }
  SUBCASE("a victim alone") {
    victim.incident = "elsewhere";
    world.report("gpu-n1", {victim}, {});
    world.look("gpu-n1");
    CHECK(world.repairs().empty());
  }
  SUBCASE("a reset that nobody makes: replaced after the hold") {
    root.role.clear(), root.incident.clear(), root.code = "119", root.id = "119";
    world.report("gpu-n1", {root});
    world.pass(55 * second);
    CHECK(world.repairs().empty());
    world.pass(10 * second);
    REQUIRE(world.repairs().size() == 1);
    CHECK(world.repairs().front().fault.code == "119");
  }
  SUBCASE("a drill stays one") {
    root.role.clear(), root.incident.clear(), root.code = "79", root.repair_class = "replace-node", root.drill = true;
    world.report("gpu-n1", {root});
    world.look("gpu-n1");
    REQUIRE(world.repairs().size() == 1);
    CHECK(world.repairs().front().fault.drill);
  }
}

//  five nodes show XID 79 within a minute: none is replaced; ten quiet minutes later one is, as a trial
TEST_CASE("the breaker: seen on the NodePool, half open after a quiet time") {
  World world(10);
  for (int i = 0; i < 5; ++i) world.report(World::node_name(i), {world.finding("79", "replace-node")});
  world.pass(30 * second);
  CHECK(world.repairs().empty());
  CHECK(world.was_told("gpu-n0 RepairHeldByBreaker: xid 79 shows on 5 nodes of pool gpu (the breaker allows 3)"));
  CHECK(world.told.size() == 5);  // once per node, not every few seconds
  (void)world.process->pooler.reconcile({"", "gpu"}, {});
  CHECK(kube::condition_status(world.pool_object(), "Breaker") == "True");
  CHECK(io::string_at(*kube::find_condition(world.pool_object(), "Breaker"), {"reason"}) == "OneCauseManyNodes");
  world.pass(560 * second);
  CHECK(world.repairs().empty());
  world.pass(15 * second);
  CHECK(world.repairs().size() == 1);
  world.pass(60 * second);
  CHECK(world.repairs().size() == 1);
}

//  A and B see a sick node each; the budget allows one. B looks at every moment of A's opening.
TEST_CASE("two controllers at once stay within one budget") {
  constexpr const char* one_at_once = R"({"budget": {"maxConcurrent": 1}})";
  size_t calls = 0;
  for (size_t moment = 0; moment == 0 || moment < calls; ++moment) {
    CAPTURE(moment);
    World world(4, one_at_once);
    World::Process other(world);
    world.report("gpu-n0", {world.finding("79", "replace-node")});
    world.report("gpu-n1", {world.finding("48", "replace-node")});
    calls = 0;
    bool inside = false;
    world.server.set_fault_hook([&](const kube::FakeApiServer::Call&) {
      if (!inside && calls++ == moment) {
        inside = true;
        for (int i = 0; i < 3; ++i) (void)other.opener.reconcile({"", "gpu-n1"}, {});
        inside = false;
      }
      return kube::FakeApiServer::Fault::none;
    });
    (void)world.process->opener.reconcile({"", "gpu-n0"}, {});
    for (int i = 0; i < 3; ++i) (void)other.opener.reconcile({"", "gpu-n1"}, {});
    CHECK(world.repairs().size() == 1);
  }
  CHECK(calls > 8);
}

TEST_CASE("a claim whose writer died is void after a while, and its own writer goes on at once") {
  World world(4, R"({"budget": {"maxConcurrent": 2, "maxPercent": 100}})");
  world.report("gpu-n0", {world.finding("79", "replace-node")});
  world.report("gpu-n1", {world.finding("48", "replace-node")});
  world.server.set_fault_hook([](const kube::FakeApiServer::Call& call) {
    bool create = call.verb == "create" && call.resource.plural == "repairs";
    return create ? kube::FakeApiServer::Fault::unreachable : kube::FakeApiServer::Fault::none;
  });
  CHECK_FALSE(world.process->opener.reconcile({"", "gpu-n0"}, {}).has_value());
  world.server.set_fault_hook(nullptr);
  SUBCASE("another node waits for it, then goes on") {
    CHECK(world.look("gpu-n1").requeue_after == Duration{250});
    CHECK(world.repairs().empty());
    world.clock.time += 31 * second;
    world.look("gpu-n1");
    CHECK(world.repairs().size() == 1);
  }
  SUBCASE("the same node goes on, also in another process") {
    world.start();
    world.look("gpu-n0");
    CHECK(world.repairs().size() == 1);
    world.look("gpu-n1");
    CHECK(world.repairs().size() == 2);
  }
}

TEST_CASE("a look at a node that is well costs two reads") {
  World world(10);
  world.look("gpu-n0");  // reads the rules
  size_t calls = 0;
  world.server.set_fault_hook(
      [&](const kube::FakeApiServer::Call&) { return ++calls, kube::FakeApiServer::Fault::none; });
  for (int i = 0; i < 10; ++i) world.look(World::node_name(i));
  CHECK(calls == 20);
}

TEST_CASE("heartbeats are no news, everything that may change a decision is") {
  World world;
  auto object = [&](const kube::Resource& resource) {
    return std::make_shared<const kube::Object>(*world.server.find(resource, "", "gpu-n1"));
  };
  auto node = object(resources::nodes), health = object(resources::node_healths);
  CHECK(node_has_news(nullptr, node));
  CHECK(node_has_news(node, nullptr));
  CHECK(node_has_news(node, node));  // a resync
  world.clock.time += 10 * second;
  world.beat("gpu-n1");
  CHECK_FALSE(health_has_news(health, object(resources::node_healths)));
  auto beaten = *node;
  for (auto& condition : io::find(beaten, {"status", "conditions"})->as_array())
    condition.as_object()["lastHeartbeatTime"] = "2026-11-30T00:00:00Z";
  CHECK_FALSE(node_has_news(node, std::make_shared<const kube::Object>(beaten)));
  world.put_node("gpu-n1", "True", {world.condition("GPUMissing", "True")});
  CHECK(node_has_news(node, object(resources::nodes)));
  world.report("gpu-n1", {world.finding("79", "replace-node")});
  CHECK(health_has_news(health, object(resources::node_healths)));

  auto rules = std::make_shared<kube::Object>(*world.server.find(resources::node_pools, "", "gpu"));
  io::set_at(*rules, {"metadata", "generation"}, 1);
  auto told = std::make_shared<kube::Object>(*rules), changed = std::make_shared<kube::Object>(*rules);
  io::set_at(*told, {"status", "healthy"}, 2);
  io::set_at(*changed, {"metadata", "generation"}, 2);
  CHECK(rules_have_news(nullptr, rules));
  CHECK(rules_have_news(rules, nullptr));
  CHECK_FALSE(rules_have_news(rules, rules));
  CHECK_FALSE(rules_have_news(rules, told));
  CHECK(rules_have_news(rules, changed));
}

TEST_CASE("who has fallen silent is told once, until it is heard again") {
  World world(3);
  FleetWatch& fleet = world.process->fleet;
  world.pass(10 * second);
  CHECK(fleet.newly_silent(30 * second).empty());
  world.silent = {"gpu-n1"};
  world.pass(30 * second);
  CHECK(fleet.newly_silent(30 * second) == std::vector<kube::ObjectKey>{{"", "gpu-n1"}});
  CHECK(fleet.newly_silent(30 * second).empty());
  CHECK(fleet.silent_for("gpu-n1") == 30 * second);
  CHECK(fleet.silent_for("gpu-n0") == Duration{0});
  world.silent.clear();
  world.clock.time += 5 * second;
  world.beat("gpu-n1");
  CHECK(fleet.see_health(*world.server.find(resources::node_healths, "", "gpu-n1")));  // worth a look
  world.beat("gpu-n0");
  CHECK_FALSE(fleet.see_health(*world.server.find(resources::node_healths, "", "gpu-n0")));
  world.pass(5 * second);
  world.silent = {"gpu-n1"};
  world.pass(30 * second);
  CHECK(fleet.newly_silent(30 * second).size() == 1);
  fleet.forget_node("gpu-n1");
  CHECK(fleet.silent_for("gpu-n1") == Duration{0});
}
