#include "controller/straggler/watch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "core/names.hpp"
#include "io/fake_clock.hpp"
#include "io/json.hpp"
#include "kube/conditions.hpp"
#include "kube/connect.hpp"
#include "kube/fake_api_server.hpp"
#include "kube/meta.hpp"
#include "tests/test_clock.hpp"

using namespace homeostat;
using namespace homeostat::controller;

namespace {

struct Told {
  std::string node, reason;
  bool warning;
};

// Nodes of one Slurm cluster whose agents report every 10 s.
struct World {
  io::FakeClock clock;
  io::FakeRandom random;
  kube::FakeApiServer server{clock};
  kube::ClientFactory clients = server.client_factory(random, "homeostat-controller");
  std::unique_ptr<kube::Client> client = clients();
  kube::Informer nodes{clients, kube::resources::nodes, {}, clock, random};
  kube::Informer healths{clients, kube::resources::node_healths, {}, clock, random};
  std::unique_ptr<StragglerWatch> watch = std::make_unique<StragglerWatch>(clients, nodes, healths, clock);
  std::vector<Told> events;
  std::map<std::string, api::NodeHealthStatus> status;
  std::int64_t step = 0;

  void add(const std::string& name, double compute_s, const std::string& job = "12",
           const std::string& workers = "slurm.demo.gpu") {
    auto node = kube::new_object(kube::resources::nodes, "", name);
    io::set_at(node, {"metadata", "labels", names::workers_label}, boost::json::value(workers));
    io::set_at(node, {"status", "conditions"},
               boost::json::array{boost::json::object{{"type", "Ready"}, {"status", "True"}}});
    server.put(kube::resources::nodes, node);
    if (compute_s > 0) works(name, compute_s, job);
  }
  void works(const std::string& name, double compute_s, const std::string& job = "12") {
    api::JobPerformance told;
    told.job = job, told.uid = 1000, told.ranks = 8;
    told.compute_time_s = compute_s, told.step_time_s = 0.6, told.wait_time_s = 0.6 - compute_s;
    status[name].performance = {told};
  }
  void look(Duration length = Duration{10'000}) {
    for (const auto end = clock.time + length; clock.time < end;) {
      clock.time += Duration{10'000};
      ++step;
      for (auto& [name, said] : status) {
        for (auto& told : said.performance) told.step = step, told.updated_at = clock.time;
        auto object = kube::new_object(kube::resources::node_healths, "", name);
        object["status"] = api::encode_node_health_status(said);
        server.put(kube::resources::node_healths, object);
      }
      see();
    }
  }
  void see() {
    REQUIRE(nodes.relist());
    REQUIRE(healths.relist());
    watch->look(*client,
                [this](const kube::Resource&, const kube::Object& about, bool warning, std::string_view reason,
                       std::string_view) { events.push_back({kube::name_of(about), std::string(reason), warning}); });
  }
  kube::Object node(const std::string& name) { return *server.find(kube::resources::nodes, "", name); }
  std::string said(const std::string& name, std::string_view field = "status") {
    const auto object = node(name);
    const auto* condition = kube::find_condition(object, names::slow_condition);
    return condition ? io::string_at(*condition, {field}) : "";
  }
  size_t writes() {
    size_t count = 0;
    for (const auto& mutation : server.mutations()) count += mutation.manager == names::straggler_manager ? 1 : 0;
    return count;
  }
};

constexpr Duration minute{60'000};

}  // namespace

//   a ████████░░ b ████████░░ c ███████████      c is told, as a condition, an event and a metric; it recovers
TEST_CASE("a straggler becomes a condition of its node, an event and a metric, and recovers") {
  World world;
  world.add("a", 0.4), world.add("b", 0.41), world.add("c", 0.52);
  world.look(2 * minute);
  CHECK(world.said("a") == "False");
  CHECK(world.said("c") == "False");
  world.look(5 * minute);
  CHECK(world.said("a") == "False");
  CHECK(world.said("c") == "True");
  CHECK(world.said("c", "reason") == "Straggler");
  CHECK(world.said("c", "message").starts_with("c computes 0.520 s a step, the other 2 nodes of job 12 0.405 s"));
  CHECK(kube::condition_status(world.node("c"), "Ready") == "True");  // somebody else's
  REQUIRE(world.events.size() == 1);
  CHECK(world.events[0].node == "c");
  CHECK(world.events[0].reason == "Straggler");
  CHECK(world.events[0].warning);
  const auto labels = std::string(R"(cluster="slurm.demo",slurm_job="12",group=""} )");
  CHECK(world.watch->metrics().contains("homeostat_straggler{node=\"c\"," + labels + "1\n"));
  CHECK(world.watch->metrics().contains("homeostat_straggler{node=\"a\"," + labels + "0\n"));
  CHECK(world.watch->metrics().contains("homeostat_straggler_ratio{node=\"c\"," + labels + "1.284\n"));
  CHECK(world.watch->metrics().contains("homeostat_job_hang_suspected{" + labels + "0\n"));
  const auto turned = world.said("c", "lastTransitionTime");
  world.look(10 * minute);
  CHECK(world.said("c", "lastTransitionTime") == turned);

  world.works("c", 0.4);
  world.look(5 * minute);
  CHECK(world.said("c") == "False");
  CHECK(world.events.back().reason == "StragglerRecovered");
}

TEST_CASE("only news is written: a day of a quiet job costs one write per node, a straggler's one in five minutes") {
  World world;
  world.add("a", 0.4), world.add("b", 0.4), world.add("c", 0.4);
  world.look(60 * minute);
  CHECK(world.writes() == 3);
  world.works("c", 0.6);
  world.look(60 * minute);
  CHECK(world.writes() <= 3 + 1 + 12);
}

TEST_CASE("the hardware facts of a node's findings corroborate") {
  World world;
  world.add("a", 0.4), world.add("b", 0.4), world.add("c", 0.4);
  world.look(5 * minute);
  world.works("c", 0.5);
  api::HealthFinding hot;
  hot.component = "gpu-nvml", hot.code = "THROTTLE_HW_THERMAL", hot.device = "0000:05:00", hot.severity = "warn";
  hot.title = "The GPU slows down because it is too hot";
  world.status["c"].findings = {hot};
  world.look(2 * minute);
  CHECK(world.said("c") == "True");
  CHECK(world.said("c", "message").contains("too hot (0000:05:00)"));
}

//   job 12 of cluster demo: a, b, c     job 12 of cluster other: d, e, f, twice as slow      two jobs, not one
TEST_CASE("jobs of two Slurm clusters that share a number are not compared; nor is what a stranger reports") {
  World world;
  for (const char* name : {"a", "b", "c"}) world.add(name, 0.25);
  for (const char* name : {"d", "e"}) world.add(name, 0.5, "12", "slurm.other.gpu");
  auto stranger = world.status["a"].performance[0];
  stranger.uid = 1001, stranger.compute_time_s = 0.5;
  world.status["a"].performance.push_back(stranger);
  world.look(15 * minute);
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    CAPTURE(name);
    CHECK(world.said(name) == "False");
  }
  CHECK(world.events.empty());
}

TEST_CASE("nodes that cannot be compared get no condition") {
  World world;
  world.add("alone", 0.4), world.add("idle", 0);
  world.look(10 * minute);
  CHECK(world.said("alone").empty());
  CHECK(world.said("idle").empty());
  CHECK(world.writes() == 0);
}

TEST_CASE("when the job is over, its straggler is unknown, and what was known is kept") {
  World world;
  world.add("a", 0.4), world.add("b", 0.4), world.add("c", 0.6);
  world.look(10 * minute);
  REQUIRE(world.said("c") == "True");
  for (auto& [name, status] : world.status) status.performance.clear();
  world.look(minute);
  CHECK(world.said("c") == "Unknown");
  CHECK(world.said("c", "reason") == "NoReports");
  CHECK(world.said("c", "message").contains("Before: c computes 0.600 s"));
  CHECK(world.said("a") == "Unknown");
  const auto writes = world.writes();
  world.look(10 * minute);
  CHECK(world.writes() == writes);
}

TEST_CASE("a controller that starts anew keeps what the nodes say until it has measured") {
  World world;
  world.add("a", 0.4), world.add("b", 0.4), world.add("c", 0.6);
  world.look(10 * minute);
  REQUIRE(world.said("c") == "True");
  world.watch = std::make_unique<StragglerWatch>(world.clients, world.nodes, world.healths, world.clock);
  world.events.clear();
  for (int i = 0; i < 60; ++i) {
    world.look();
    CHECK(world.said("c") == "True");
  }
  CHECK(world.events.empty());
}

TEST_CASE("another machine of the same name begins anew") {
  World world;
  world.add("a", 0.4), world.add("b", 0.4), world.add("c", 0.6);
  world.look(10 * minute);
  REQUIRE(world.said("c") == "True");
  world.server.erase(kube::resources::nodes, "", "c");
  world.status.erase("c");
  world.server.erase(kube::resources::node_healths, "", "c");
  world.look(minute);
  world.add("c", 0.4);
  world.look(5 * minute);
  CHECK(world.said("c") == "False");
}

TEST_CASE("a job that stands still is told once, on one node") {
  World world;
  world.add("a", 0.4), world.add("b", 0.4), world.add("c", 0.4);
  world.look(5 * minute);
  for (int i = 0; i < 90; ++i) {  // 15 minutes in which no step is made
    world.clock.time += Duration{10'000};
    world.see();
  }
  REQUIRE(world.events.size() == 1);
  CHECK(world.events[0].reason == "JobHangSuspected");
  CHECK(world.said("b") == "Unknown");
  CHECK(world.said("b", "reason") == "HangSuspected");
  CHECK(world.watch->metrics().contains(
      "homeostat_job_hang_suspected{cluster=\"slurm.demo\",slurm_job=\"12\",group=\"\"} 1"));
}

TEST_CASE("a job that becomes slower as a whole is told once and blames nobody") {
  World world;
  for (const char* name : {"a", "b", "c", "d"}) world.add(name, 0.3);
  world.look(10 * minute);
  for (const char* name : {"a", "b", "c", "d"}) world.works(name, 0.45);
  world.look(10 * minute);
  REQUIRE(world.events.size() == 1);
  CHECK(world.events[0].reason == "JobSlower");
  CHECK(world.said("a") == "False");
  CHECK(world.said("a", "reason") == "JobSlower");
}

TEST_CASE("a write that fails is tried again at the next look; one look makes a bounded number of writes") {
  World world;
  for (int i = 0; i < 100; ++i) world.add("n" + std::to_string(i), 0.4);
  world.server.set_fault_hook([](const kube::FakeApiServer::Call& call) {
    return call.verb == "apply" ? kube::FakeApiServer::Fault::server_error : kube::FakeApiServer::Fault::none;
  });
  world.look(2 * minute);
  CHECK(world.writes() == 0);
  world.server.set_fault_hook({});
  world.look();
  CHECK(world.writes() == 64);
  world.look();
  CHECK(world.writes() == 100);
}

TEST_CASE("the gravest verdict of a node's jobs is its condition") {
  using fault::Pace;
  const SlowCondition none, slow{"True", "Straggler", "c computes long."};
  const fault::NodePace ok{"c", Pace::ok, 1.0, "AsFastAsOthers", "fine"},
      bad{"c", Pace::straggler, 1.3, "Straggler", "bad"}, alone{"c", Pace::unknown, 0, "Alone", "alone"},
      watched{"c", Pace::suspect, 1.2, "SlowerForNow", "watched"},
      one_of_two{"c", Pace::suspect, 1.2, "OneOfTwo", "two"}, silent{"c", Pace::unknown, 0, "NoNewStep", "silent"};
  struct Case {
    std::vector<fault::NodePace> paces;
    SlowCondition present;
    const char* status;
    const char* reason;
  };
  const Case cases[] = {
      {{ok, bad, alone}, none, "True", "Straggler"},
      {{alone, ok}, none, "False", "AsFastAsOthers"},
      {{alone}, none, "", ""},
      {{alone}, slow, "Unknown", "NoReports"},
      {{watched}, slow, "True", "Straggler"},
      {{watched}, none, "False", "AsFastAsOthers"},
      {{one_of_two}, none, "Unknown", "OneOfTwo"},
      {{silent}, slow, "Unknown", "NoNewStep"},
      {{}, none, "", ""},
      {{}, slow, "Unknown", "NoReports"},
  };
  for (const auto& [paces, present, status, reason] : cases) {
    CAPTURE(status);
    const auto next = slow_condition(paces, present);
    CHECK(next.status == status);
    CHECK(next.reason == reason);
  }
}
