#include "cli/drill_driver.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <fstream>
#include <mutex>
#include <thread>

#include "agent/drill.hpp"
#include "controller/drill/reconciler.hpp"
#include "core/fault/classify.hpp"
#include "core/fault/ledger.hpp"
#include "core/names.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "kube/fake_api_server.hpp"
#include "kube/meta.hpp"

using namespace homeostat;
using namespace homeostat::cli;

namespace {

namespace resources = kube::resources;

//  the order ──> API server ──> controller's operator (arms)
//                    └────────> the node's watcher and book (ready, marks) ──> kernel log of a real node
struct World {
  io::SystemClock clock;
  io::SystemRandom random;
  kube::FakeApiServer server{clock};
  agent::DrillBook book;
  std::string log;
  std::vector<std::string> told;
  std::stop_source stop;
  std::unique_ptr<kube::Client> client = server.client_factory(random, "homeostat")();
  controller::DrillOperator drills{server.client_factory(random, "homeostat-controller"), clock, random};
  DrillDriver driver{*client, clock, random, stop.get_token(),
                     [this](const std::string& line) { told.push_back(line); }};
  std::vector<std::jthread> threads;

  bool by_kernel_log;

  // by_kernel_log: its agent can write and prove drills, as on real nodes.
  explicit World(std::string_view provider, bool agent_writes = true)
      : by_kernel_log(provider != "local" && agent_writes) {
    char path[] = "/tmp/drill-driver-test-XXXXXX";
    ::close(::mkstemp(path));
    log = path;
    auto pool = kube::new_object(resources::node_pools, "", "gpu");
    pool["spec"] = {{"size", 2}, {"provider", {{"type", provider}}}};
    server.put(resources::node_pools, pool);
    auto node = kube::new_object(resources::nodes, "", "gpu-a");
    io::set_at(node, {"metadata", "labels", names::pool_label}, boost::json::value("gpu"));
    server.put(resources::nodes, node);
    report({}, "Healthy");
  }
  ~World() {
    for (auto& thread : threads) thread.request_stop();
    threads.clear();
    ::unlink(log.c_str());
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void run_controller() {
    threads.emplace_back([this](std::stop_token own) { drills.run(nullptr, own); });
  }
  void run_agent(bool by_kmsg) {
    threads.emplace_back([this, by_kmsg](std::stop_token own) {
      agent::DrillWatcher watcher({.node_name = "gpu-a", .kmsg_path = by_kmsg ? log : ""}, book,
                                  server.client_factory(random, "homeostat-agent"), clock, random);
      watcher.run(own);
    });
  }
  // What the agent's reporter does.
  void report(std::vector<api::HealthFinding> findings, std::string verdict) {
    auto health = server.find(resources::node_healths, "", "gpu-a")
                      .value_or(kube::new_object(resources::node_healths, "", "gpu-a"));
    api::NodeHealthStatus status;
    status.last_report = clock.now();
    status.verdict = std::move(verdict);
    status.devices = {{"0000:17:00", 0, "GPU-a", "Good", ""}};
    status.findings = std::move(findings);
    health["status"] = api::encode_node_health_status(status);
    if (by_kernel_log)
      io::set_at(health, {"metadata", "annotations", names::drills_by_annotation},
                 boost::json::string(names::drills_by_kernel_log));
    server.put(resources::node_healths, health);
  }
  void report_line(std::string_view line) {
    const auto finding = fault::classify_text(line);
    if (!finding) return;
    api::HealthFinding found;
    found.id = fault::finding_id(*finding);
    found.severity = fault::to_string(finding->severity);
    found.repair_class = fault::to_string(finding->repair_class);
    found.drill = book.marks(*finding);
    report({found}, "Unhealthy");
  }
  bool has_drills() const { return !server.all(resources::drills).empty(); }
  bool told_of(std::string_view text) const {
    return std::any_of(told.begin(), told.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }
};

}  // namespace

TEST_CASE("in the lab: armed, ready, struck, seen and marked as a drill, and decided") {
  World world("local");
  world.run_controller();
  world.run_agent(false);
  REQUIRE(world.driver.order({"gpu-a", "xid=79", "0", false}));
  const auto before = world.clock.now();
  const auto struck = world.driver.strike([&]() -> Result<void> {
    world.report_line("NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
    return {};
  });
  REQUIRE(struck);
  CHECK(*struck >= before);
  REQUIRE(world.driver.wait_seen());
  const auto& outcome = world.driver.outcome();
  REQUIRE(outcome.finding);
  CHECK(outcome.finding->drill);
  CHECK(outcome.verdict == "Unhealthy");
  CHECK(outcome.times.seen);
  CHECK(outcome.times.armed <= outcome.times.ready);
  const auto phase = [&] { return api::decode_drill(world.server.all(resources::drills).front()).status.phase; };
  for (int i = 0; i < 500 && phase() != api::DrillPhase::seen; ++i) world.clock.sleep(Duration(10), {});
  REQUIRE(phase() == api::DrillPhase::seen);
  world.report({}, "Healthy");  // the node recovers: no Repair is due
  REQUIRE(world.driver.wait_decision());
  CHECK(outcome.drill.status.phase == api::DrillPhase::done);
  CHECK(outcome.drill.status.token.empty());
  for (const auto* part : {"armed after", "the agent is ready", "injected: xid=79", "gpu-xid:79@0000:17:00 (fatal",
                           "marked as a drill", "verdict is Unhealthy"})
    CHECK_MESSAGE(world.told_of(part), part);
}

TEST_CASE("on a real node the agent writes the lines itself, and they are taken back out of the log as the fault") {
  World world("cluster-api");
  world.run_controller();
  world.run_agent(true);
  REQUIRE(world.driver.order({"gpu-a", "xid=48", "", true}));
  world.driver.struck_by_agent();
  world.threads.emplace_back([&world](std::stop_token own) {
    size_t taken = 0;
    while (!own.stop_requested()) {
      std::ifstream in(world.log);
      std::string line;
      for (size_t number = 0; std::getline(in, line); ++number) {
        if (number < taken || !line.starts_with("<")) continue;
        taken = number + 1;
        const auto judged = world.book.judge(std::string_view(line).substr(3), world.clock.now());
        CHECK(judged.what == fault::UserLine::drill);
        world.report_line(judged.line);
      }
      world.clock.sleep(Duration(5), own);
    }
  });
  REQUIRE(world.driver.wait_seen());
  REQUIRE(world.driver.outcome().finding);
  CHECK(world.driver.outcome().finding->id == "gpu-xid:48@0000:17:00");
  CHECK(world.driver.outcome().finding->drill);
}

TEST_CASE("a production pool refuses, with what to write, and nothing strikes") {
  World world("cluster-api");
  world.run_controller();
  const auto refused = world.driver.order({"gpu-a", "xid=79", "", false});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::forbidden);
  CHECK(refused.error().message.find("homeostat inject gpu-a xid=79 --production") != std::string::npos);
  CHECK(world.driver.outcome().drill.status.phase == api::DrillPhase::refused);
}

//  provider cluster-api, agent without --drill-by-kmsg   -> refused at once, not after a minute of waiting
TEST_CASE("a node whose agent cannot prove a drill refuses at once, even where drills are allowed") {
  World world("cluster-api", false);
  world.run_controller();
  world.run_agent(false);
  const auto before = world.clock.monotonic();
  const auto refused = world.driver.order({"gpu-a", "amd=ue", "", true});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::forbidden);
  CHECK(refused.error().message.find("--drill-by-kmsg") != std::string::npos);
  CHECK(world.clock.monotonic() - before < Duration(5'000));
}

TEST_CASE("an interrupted order and a strike that fails take the drill back") {
  World world("local");
  world.run_controller();
  world.threads.emplace_back([&world](std::stop_token own) {
    while (!own.stop_requested() && !world.has_drills()) world.clock.sleep(Duration(5), own);
    world.stop.request_stop();  // there is no agent: it is interrupted while it waits for one
  });
  const auto interrupted = world.driver.order({"gpu-a", "xid=79", "", false});
  REQUIRE_FALSE(interrupted);
  CHECK(interrupted.error().kind == ErrorKind::cancelled);
  CHECK_FALSE(world.has_drills());

  World other("local");
  other.run_controller();
  other.run_agent(false);
  REQUIRE(other.driver.order({"gpu-a", "xid=79", "", false}));
  CHECK(other.has_drills());
  CHECK_FALSE(other.driver.strike([] { return fail(ErrorKind::internal, "no"); }));
  CHECK_FALSE(other.has_drills());
}

TEST_CASE("names of drills are valid and differ") {
  io::SystemRandom random;
  const auto name = new_drill_name("gpu-a", random);
  CHECK(name.starts_with("gpu-a-"));
  CHECK(name.size() == 14);
  CHECK(name != new_drill_name("gpu-a", random));
  CHECK(new_drill_name(std::string(253, 'a'), random).size() <= 253);
}
