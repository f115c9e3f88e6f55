// The behaviour of Slurm that a repair stands on, as tested on Slurm 24.11.5: the fake must show it, or the simulation
// proves nothing.
#include "slurm/fake_slurm.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::slurm;

namespace {

constexpr TimePoint start{std::chrono::seconds{1'796'000'000}};

struct World {
  FakeSlurm slurm{start};
  std::unique_ptr<Client> client = slurm.client();
  TimePoint now = start;

  World() {
    for (const char* name : {"n1", "n2", "n3"}) slurm.register_node(name, 8);
    after(1'000);
  }
  void after(int ms) { slurm.advance_to(now += Duration{ms}); }
  StateSet job_states(long id) { return slurm.find_job(id)->states; }
  void down(const char* name) {
    REQUIRE(client->set_node_state(name, NodeOrder::drain, "homeostat: rep-1").has_value());
    REQUIRE(client->set_node_state(name, NodeOrder::down, "homeostat: rep-1").has_value());
  }
  size_t count(FakeSlurm::Event event) {
    size_t n = 0;
    for (const auto& record : slurm.records()) n += record.event == event ? 1 : 0;
    return n;
  }
};

}  // namespace

// n1 n2: train (8 GPUs each); n1 DOWN -> TERM on both, PENDING+COMPLETING, PENDING; then made eligible -> n2 n3
TEST_CASE("DOWN stops and requeues a job at once; told that its time has come it starts without the sick node") {
  World w;
  const auto id = w.slurm.submit({.nodes = 2, .gpus_per_node = 8});
  w.after(2'000);
  REQUIRE(w.slurm.find_job(id)->nodes == std::vector<std::string>{"n1", "n2"});
  w.down("n1");
  CHECK(w.job_states(id) == StateSet{"PENDING", "COMPLETING"});
  CHECK(w.slurm.find_job(id)->restart_count == 1);
  CHECK(w.count(FakeSlurm::Event::term) == 2);
  w.after(1'000);
  CHECK(w.job_states(id) == StateSet{"PENDING"});
  w.after(60'000);
  CHECK(w.job_states(id) == StateSet{"PENDING"});  // BeginTime: 121 s by itself
  REQUIRE(w.client->make_job_eligible_now(id).has_value());
  w.after(1'000);
  CHECK(w.job_states(id) == StateSet{"RUNNING"});
  CHECK(w.slurm.find_job(id)->nodes == std::vector<std::string>{"n2", "n3"});
  CHECK(w.slurm.find_node("n1")->states == StateSet{"DOWN", "DRAIN", "DYNAMIC_NORM"});
}

TEST_CASE("left alone, a requeued job starts when its credential has expired") {
  World w;
  const auto id = w.slurm.submit({.nodes = 2, .gpus_per_node = 8});
  w.after(2'000);
  w.down("n1");
  w.after(121'000);
  CHECK(job_is_pending(w.job_states(id)));
  w.after(3'000);
  CHECK(job_is_running(w.job_states(id)));
}

TEST_CASE("processes that ignore SIGTERM have KillWait and no more") {
  World w;
  const auto id = w.slurm.submit({.nodes = 2, .gpus_per_node = 8, .exits_after_term = Duration{1'000'000}});
  w.after(2'000);
  w.down("n1");
  w.after(119'000);
  CHECK(job_is_completing(w.job_states(id)));
  CHECK(w.slurm.has_processes("n2"));
  w.after(1'500);
  CHECK(w.count(FakeSlurm::Event::killed) == 2);
  CHECK_FALSE(w.slurm.has_processes("n2"));
  CHECK(job_is_pending(w.job_states(id)));
}

TEST_CASE("eligible while it still completes is in vain: Slurm sets the begin time when the last process is gone") {
  World w;
  const auto id = w.slurm.submit({.nodes = 2, .gpus_per_node = 8});
  w.after(2'000);
  w.down("n1");
  REQUIRE(w.client->make_job_eligible_now(id).has_value());
  w.after(10'000);
  CHECK(job_is_pending(w.job_states(id)));
}

// The trap that the fence is for: Slurm does not wait for a DOWN node.
TEST_CASE("a hung node's processes outlive the job's completion until its slurmd is gone") {
  World w;
  const auto id = w.slurm.submit({.nodes = 2, .gpus_per_node = 8});
  w.after(2'000);
  w.slurm.hang_node("n1");
  w.down("n1");
  w.after(5'000);
  CHECK(job_is_pending(w.job_states(id)));
  CHECK(w.slurm.has_processes("n1"));
  w.slurm.lose_slurmd("n1");
  CHECK_FALSE(w.slurm.has_processes("n1"));
}

TEST_CASE("srun and --no-requeue jobs end in NODE_FAIL") {
  for (const auto& spec : {FakeJobSpec{.batch = false}, FakeJobSpec{.requeue = false}}) {
    World w;
    const auto id = w.slurm.submit(spec);
    w.after(2'000);
    w.down("n1");
    w.after(2'000);
    CHECK(w.job_states(id) == StateSet{"NODE_FAIL"});
    CHECK(w.client->make_job_eligible_now(id).error().kind == ErrorKind::conflict);
  }
}

TEST_CASE("a silent node is missed after SlurmdTimeout, and comes back DOWN under ReturnToService=0") {
  World w;
  w.slurm.lose_slurmd("n1");
  w.after(119'000);
  CHECK(w.slurm.find_node("n1")->states.contains("NOT_RESPONDING"));
  w.after(2'000);
  CHECK(node_is_down(w.slurm.find_node("n1")->states));
  CHECK(w.slurm.find_node("n1")->reason == "Not responding");
  w.slurm.register_node("n1", 8);
  CHECK(node_is_down(w.slurm.find_node("n1")->states));
  REQUIRE(w.client->set_node_state("n1", NodeOrder::resume, "").has_value());
  CHECK(node_takes_jobs(w.slurm.find_node("n1")->states));
}

TEST_CASE("faults: no effect, a lost reply, a stale read") {
  World w;
  auto fault = FakeSlurm::Fault::none;
  w.slurm.set_fault_hook([&](const FakeSlurm::Call&) { return fault; });
  fault = FakeSlurm::Fault::unreachable;
  CHECK(w.client->set_node_state("n1", NodeOrder::drain, "x").error().kind == ErrorKind::unreachable);
  CHECK_FALSE(node_is_drain(w.slurm.find_node("n1")->states));
  fault = FakeSlurm::Fault::lost_reply;
  CHECK(w.client->set_node_state("n1", NodeOrder::drain, "x").error().kind == ErrorKind::unknown_outcome);
  CHECK(node_is_drain(w.slurm.find_node("n1")->states));
  fault = FakeSlurm::Fault::stale_read;
  CHECK_FALSE(node_is_drain((*w.client->node("n1"))->states));
  w.slurm.set_fault_hook(nullptr);
  CHECK(node_is_drain((*w.client->node("n1"))->states));
  w.slurm.set_reachable(false);
  CHECK(w.client->ping().error().kind == ErrorKind::unreachable);
}

TEST_CASE("a node with a job cannot be deleted; deleting twice is one deletion") {
  World w;
  w.slurm.submit({.nodes = 1});
  w.after(2'000);
  CHECK(w.client->delete_node("n1").error().kind == ErrorKind::conflict);
  CHECK(w.client->delete_node("n3").has_value());
  CHECK(w.client->delete_node("n3").has_value());
  CHECK(*w.client->node("n3") == std::nullopt);
}

TEST_CASE("time has a next event, and nothing happens without one") {
  World w;
  CHECK_FALSE(w.slurm.next_event().has_value());
  w.slurm.submit({.nodes = 4});  // more than there are
  CHECK_FALSE(w.slurm.next_event().has_value());
  const auto id = w.slurm.submit({.nodes = 1, .runs_for = Duration{5'000}});
  w.after(60'000);
  CHECK(w.job_states(id) == StateSet{"COMPLETED"});
}
