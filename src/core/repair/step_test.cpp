#include "core/repair/step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace homeostat;
using namespace homeostat::repair;

namespace {

constexpr TimePoint start{Duration{1'000'000}};
TimePoint at(double seconds) { return start + Duration{static_cast<std::int64_t>(seconds * 1000)}; }

Record fresh() {
  Record record;
  record.name = "rep-0123456789abcdef";
  record.node = "pool-bad11";
  record.node_uid = "uid-bad";
  record.pool = "pool";
  record.workers = "default.demo.gpu";
  record.boot_id = "boot-1";
  record.fault.component = "gpu-xid";
  record.fault.code = "79";
  record.fault.device = "0000:17:00";
  record.fault.severity = "fatal";
  record.fault.observed_at = start;
  return record;
}

NodeView node(std::string name, std::string uid, bool spare) {
  NodeView view;
  view.name = std::move(name);
  view.uid = std::move(uid);
  view.ready = true;
  view.spare = spare;
  if (!spare) view.workers = "default.demo.gpu";
  return view;
}

JobView job() {
  JobView view;
  view.id = 7;
  view.name = "train";
  view.user = "ada";
  view.state = JobState::running;
  view.requeueable = true;
  view.nodes = {"pool-bad11", "pool-good1"};
  return view;
}

// A small world that answers effects as the real one does, so that a repair can be played from its first step to its
// last.
struct World {
  NodeView sick = node("pool-bad11", "uid-bad", false);
  bool sick_exists = true;
  NodeView spare = node("pool-spare", "uid-spare", true);
  bool spare_exists = true;
  HealthView health{"Unhealthy", "boot-1", 7, start};
  SlurmNodeView slurm;
  bool slurm_exists = true, slurm_answers = true;
  std::vector<JobView> jobs{job()};
  std::vector<PodView> pods{{"default", "worker", "uid-w", true, false, false, false}};
  std::vector<MachineView> machines{{"pool-bad11", "t-1", "", MachineView::State::running}};
  bool new_machine_fit = true;
  std::vector<std::string> effects;

  Observed observe(const Record& record) {
    Observed seen;
    seen.node = sick_exists ? Fact<NodeView>::present(sick) : Fact<NodeView>::absent();
    seen.health = Fact<HealthView>::present(health);
    if (slurm_answers) {
      seen.slurm = slurm_exists ? Fact<SlurmNodeView>::present(slurm) : Fact<SlurmNodeView>::absent();
      seen.jobs = Fact<std::vector<JobView>>::present(jobs);
    }
    seen.pods = Fact<std::vector<PodView>>::present(pods);
    std::vector<NodeView> spares;
    if (spare_exists && spare.spare) spares.push_back(spare);
    seen.spares = Fact<std::vector<NodeView>>::present(spares);
    if (record.spare_node == spare.name && spare_exists)
      seen.spare = Fact<NodeView>::present(spare);
    else
      seen.spare = Fact<NodeView>::absent();
    seen.machines = Fact<std::vector<MachineView>>::present(machines);
    seen.replacement = Fact<NodeView>::absent();
    for (const MachineView& machine : machines)
      if (machine.name == record.replacement.machine && new_machine_fit) {
        seen.replacement = Fact<NodeView>::present(new_node(machine.name));
        seen.replacement_health = Fact<HealthView>::present({"Healthy", "boot-2", 8, start});
      }
    return seen;
  }
  NodeView promoted_new;
  NodeView new_node(const std::string& name) {
    return promoted_new.name == name ? promoted_new : node(name, "uid-new", true);
  }

  void operator()(const Notify&) { effects.push_back("notify"); }
  void operator()(const SlurmDrain&) { effects.push_back("drain"), slurm.drain = true; }
  void operator()(const SlurmUndrain&) { effects.push_back("undrain"), slurm.drain = false; }
  void operator()(const SlurmDown&) {
    effects.push_back("down");
    slurm.down = true;
    for (JobView& view : jobs) {
      view.state = view.requeueable ? JobState::pending : JobState::ended;
      view.completing = true;
      view.begin = at(400);
    }
  }
  void operator()(const TellJobOwner&) { effects.push_back("tell"); }
  void operator()(const MakeJobEligible&) {
    effects.push_back("eligible");
    for (JobView& view : jobs)
      view.state = JobState::running, view.restart_count = 1, view.nodes = {"pool-good1", "pool-spare"},
      view.begin.reset();
  }
  void operator()(const RemoveWorkersLabel&) {
    effects.push_back("fence"), sick.workers.clear(), std::erase_if(pods, [](auto& p) { return p.worker; });
  }
  void operator()(const Cordon&) { effects.push_back("cordon"), sick.unschedulable = true; }
  void operator()(const EvictPods& evict) {
    effects.push_back("evict");
    for (const PodView& gone : evict.pods) std::erase_if(pods, [&](auto& pod) { return pod.uid == gone.uid; });
  }
  void operator()(const PromoteSpare& promote) {
    effects.push_back("promote");
    NodeView& view = promote.node == spare.name ? spare : promoted_new = node(promote.node, promote.uid, true);
    view.spare = false;
    view.workers = promote.workers;
    view.promoted_for = fresh().name;
  }
  void operator()(const DeleteMachine& gone) {
    effects.push_back("delete_machine");
    std::erase_if(machines, [&](auto& machine) { return machine.name == gone.machine; });
  }
  void operator()(const OrderMachine& order) {
    effects.push_back("order");
    machines.push_back({order.machine, order.token, "", MachineView::State::running});
  }
  void operator()(const DeleteNodeObject&) { effects.push_back("delete_node"), sick_exists = false; }
  void operator()(const DeleteSlurmNode&) { effects.push_back("delete_slurm_node"), slurm_exists = false; }

  void end_processes() {
    for (JobView& view : jobs) view.completing = false;
  }
};

// Steps until nothing is left to do at once. Each transition must be one of the table.
TimePoint now = start;
Record play(World& world, Record record, int bound = 60) {
  for (int i = 0; i < bound; ++i) {
    Decision decision = step(record, world.observe(record), Policy{}, 8, now);
    REQUIRE(may_follow(record.phase, decision.next.phase));
    record = decision.next;
    if (decision.effect) {
      std::visit(world, *decision.effect);
      if (!decision.step.empty()) report_outcome(record, decision.step, true, "", now);
    } else if (!decision.look_again || *decision.look_again > Duration{0}) {
      return record;
    }
  }
  FAIL("the repair did not come to rest");
  return record;
}

}  // namespace

TEST_CASE("a heal from the fault to Done: each effect once, in its order") {
  now = start;
  World world;
  Record record = play(world, fresh());
  CHECK(record.phase == Phase::stopping);
  CHECK(record.slurm_down_at == start);
  // The spare is in before the job's processes have ended.
  CHECK(world.effects == std::vector<std::string>{"notify", "drain", "down", "promote"});
  now = at(30);
  world.end_processes();
  record = play(world, record);
  CHECK(record.phase == Phase::done);
  CHECK(world.effects == std::vector<std::string>{"notify", "drain", "down", "promote", "fence", "eligible", "cordon",
                                                  "delete_machine", "order", "delete_node", "delete_slurm_node"});
  CHECK(record.processes_gone_at == at(30));
  CHECK(record.running_again_at == at(30));
  CHECK(record.pool_whole_at == at(30));
  CHECK(record.gpu_seconds_lost == 2 * 8 * 30);
  CHECK(record.spare_node == "pool-spare");
  CHECK(record.replacement.token == "rep-0123456789abcdef-1");
  for (const Step& taken : record.steps) CHECK_MESSAGE(taken.finished_at.has_value(), taken.name);
}

//  Notified is written with its intent | the controller dies | a new one comes: nobody has been told yet
TEST_CASE("people are told again when it is not sure that they were told") {
  now = start;
  World world;
  const Decision first = step(fresh(), world.observe(fresh()), Policy{}, 8, now);
  REQUIRE(first.next.phase == Phase::notified);
  REQUIRE(first.effect.has_value());
  Record record = first.next;  // the effect was never carried out
  SUBCASE("the sending never happened") {
    record = play(world, record);
    CHECK(world.effects.front() == "notify");
  }
  SUBCASE("it failed: the repair goes on without") {
    report_outcome(record, first.step, false, "no such host", now);
    record = play(world, record);
    CHECK(world.effects.front() == "drain");
  }
  CHECK(record.phase == Phase::stopping);
}

// One thing at a time cannot be read; nothing that cannot be undone may happen then.
//   unknown     effects that must not be seen
TEST_CASE("what cannot be read is never taken for an answer") {
  now = start;
  World world;
  auto first_effects = [&](auto blind) {
    Record record = fresh();
    for (int i = 0; i < 20; ++i) {
      Observed seen = world.observe(record);
      blind(seen);
      Decision decision = step(record, seen, Policy{}, 8, now);
      record = decision.next;
      if (decision.effect) std::visit(world, *decision.effect), report_outcome(record, decision.step, true, "", now);
      world.end_processes();
    }
    return std::set<std::string>(world.effects.begin(), world.effects.end());
  };
  SUBCASE("the node") {
    CHECK(first_effects([](Observed& seen) { seen.node = {}; }).empty());
  }
  SUBCASE("its health") {
    CHECK(first_effects([](Observed& seen) { seen.health = {}; }).empty());
  }
  SUBCASE("a health that says Unknown") {
    CHECK(first_effects([](Observed& seen) { seen.health.value.verdict = "Unknown"; }).empty());
  }
  SUBCASE("Slurm's node") {
    CHECK(first_effects([](Observed& seen) { seen.slurm = {}; }) == std::set<std::string>{"notify"});
  }
  SUBCASE("Slurm's jobs: they must be known before they are stopped") {
    CHECK_FALSE(first_effects([](Observed& seen) { seen.jobs = {}; }).contains("down"));
  }
  SUBCASE("the pods") {
    auto effects = first_effects([](Observed& seen) { seen.pods = {}; });
    CHECK_FALSE(effects.contains("delete_machine"));
    CHECK_FALSE(effects.contains("eligible"));
  }
  SUBCASE("the machines") {
    CHECK_FALSE(first_effects([](Observed& seen) { seen.machines = {}; }).contains("delete_machine"));
  }
}

TEST_CASE("a fault that is withdrawn before the job was stopped changes nothing") {
  now = start;
  World world;
  Record record = fresh();
  world.health.reported_at = at(1);
  SUBCASE("at once") {
    world.health.verdict = "Healthy";
    record = play(world, record);
    CHECK(world.effects.empty());
  }
  SUBCASE("between DRAIN and DOWN: our DRAIN is undone") {
    for (int i = 0; i < 3; ++i) {
      Decision decision = step(record, world.observe(record), Policy{}, 8, now);
      record = decision.next;
      if (decision.effect) std::visit(world, *decision.effect), report_outcome(record, decision.step, true, "", now);
    }
    REQUIRE(world.effects.back() == "drain");
    world.health.verdict = "Healthy";
    record = play(world, record);
    CHECK(world.effects == std::vector<std::string>{"notify", "drain", "undrain"});
    CHECK_FALSE(world.slurm.drain);
  }
  SUBCASE("the node has rebooted") {
    world.health.boot_id = "boot-2";
    record = play(world, record);
    CHECK(world.effects.empty());
  }
  CHECK(record.phase == Phase::cancelled);
}

TEST_CASE("a report from before the fault neither confirms nor withdraws it") {
  now = start;
  World world;
  world.health = {"Healthy", "boot-1", 8, at(-1)};
  Record record = play(world, fresh());
  CHECK(record.phase == Phase::observed);
  CHECK(world.effects.empty());
}

TEST_CASE(
    "opt-out: the job is saved and requeued, the node cordoned, nothing deleted; it goes on when the pod is gone") {
  now = start;
  World world;
  world.pods.push_back({"default", "keep-me", "uid-k", false, true, false, true});
  Record record = play(world, fresh());
  now = at(5);
  world.end_processes();
  record = play(world, record);
  CHECK(record.phase == Phase::blocked);
  CHECK(record.message.find("default/keep-me") != std::string::npos);
  CHECK(record.message.find("homeostat.dev/no-replace=true") != std::string::npos);
  CHECK(record.next_look.has_value());
  CHECK(record.running_again_at.has_value());
  CHECK(world.sick.unschedulable);
  CHECK(world.machines.size() == 1);
  CHECK(std::ranges::find(world.effects, "evict") == world.effects.end());
  // Looking again before it is time writes nothing.
  CHECK_FALSE(step(record, world.observe(record), Policy{}, 8, at(6)).changed);
  std::erase_if(world.pods, [](auto& pod) { return pod.opted_out; });
  now = at(20);
  record = play(world, record);
  CHECK(record.phase == Phase::done);
}

TEST_CASE("the label that comes at the last moment still stops the deletion") {
  now = start;
  World world;
  Record record = play(world, fresh());
  world.end_processes();
  for (int i = 0; i < 40 && record.phase != Phase::replacing; ++i) {
    Decision decision = step(record, world.observe(record), Policy{}, 8, now);
    record = decision.next;
    if (decision.effect) std::visit(world, *decision.effect), report_outcome(record, decision.step, true, "", now);
  }
  REQUIRE(record.phase == Phase::replacing);
  world.pods.push_back({"default", "late", "uid-l", false, true, false, true});
  record = play(world, record);
  CHECK(record.phase == Phase::blocked);
  CHECK(world.machines.size() == 1);
}

TEST_CASE("no spare: the machine is ordered, and the new one takes the place itself") {
  now = start;
  World world;
  world.spare_exists = false;
  Record record = play(world, fresh());
  world.end_processes();
  record = play(world, record);
  CHECK(record.phase == Phase::done);
  CHECK(record.spare_node == record.replacement.node);
  CHECK(world.promoted_new.workers == "default.demo.gpu");
  CHECK_FALSE(world.promoted_new.spare);
}

TEST_CASE("two repairs want one spare: the loser takes another or goes on without") {
  now = start;
  World world;
  Record record = fresh();
  for (int i = 0; i < 30 && record.spare_node.empty(); ++i) {
    Decision decision = step(record, world.observe(record), Policy{}, 8, now);
    record = decision.next;
    if (decision.effect && !std::holds_alternative<PromoteSpare>(*decision.effect))
      std::visit(world, *decision.effect), report_outcome(record, decision.step, true, "", now);
  }
  REQUIRE(record.spare_node == "pool-spare");
  world.spare.spare = false;
  world.spare.workers = "default.demo.gpu";
  world.spare.promoted_for = "rep-other";
  record = play(world, record);
  CHECK(record.spare_node.empty());
}

TEST_CASE("srun and salloc jobs are named and their owners told; the repair does not wait for them") {
  now = start;
  World world;
  world.jobs[0].requeueable = false;
  Record record = play(world, fresh());
  world.end_processes();
  record = play(world, record);
  CHECK(std::ranges::count(world.effects, "tell") == 1);
  CHECK(std::ranges::find(world.effects, "eligible") == world.effects.end());
  CHECK(record.phase == Phase::done);
  CHECK_FALSE(record.jobs[0].requeueable);
}

TEST_CASE("processes that never end: the grace is waited for, then the node is fenced") {
  now = start;
  World world;
  Record record = play(world, fresh());
  now = at(149);
  record = play(world, record);
  CHECK(record.phase == Phase::stopping);
  now = at(151);
  record = play(world, record);
  CHECK(record.phase == Phase::requeued);
  CHECK_FALSE(record.processes_gone_at.has_value());
}

TEST_CASE("a dead kubelet does not hold the fence up for ever") {
  now = start;
  World world;
  Record record = play(world, fresh());
  world.end_processes();
  PodView stuck{"default", "worker", "uid-w2", true, false, true, false};
  world.pods.push_back(stuck);
  for (int i = 0; i < 10; ++i) {
    Decision decision = step(record, world.observe(record), Policy{}, 8, now);
    record = decision.next;
    if (decision.effect) std::visit(world, *decision.effect), report_outcome(record, decision.step, true, "", now);
    if (world.pods.empty()) world.pods.push_back(stuck);
  }
  CHECK(record.phase == Phase::requeued);
  CHECK(std::ranges::find(world.effects, "eligible") == world.effects.end());
  now = at(200);
  record = play(world, record);
  CHECK(record.phase == Phase::done);
}

TEST_CASE("a replacement that fails is deleted before another is ordered; three failures call for people") {
  now = start;
  World world;
  world.new_machine_fit = false;
  Record record = play(world, fresh());
  world.end_processes();
  std::set<std::string> tokens;
  for (int i = 0; i < 400 && !is_terminal(record.phase); ++i) {
    record = play(world, record);
    now += Duration{20'000};
    CHECK(world.machines.size() <= 1);
    if (!record.replacement.token.empty()) tokens.insert(record.replacement.token);
  }
  CHECK(record.phase == Phase::failed);
  CHECK(tokens.size() == 3);
  CHECK(world.machines.empty());
}

TEST_CASE("a person who uncordons the node gets it back") {
  now = start;
  World world;
  world.pods.push_back({"default", "keep-me", "uid-k", false, true, false, true});
  Record record = play(world, fresh());
  world.end_processes();
  record = play(world, record);
  REQUIRE(record.phase == Phase::blocked);
  world.sick.unschedulable = false;
  record = play(world, record);
  CHECK(record.phase == Phase::blocked);  // one look may be an old one
  SUBCASE("it was an old look") {
    world.sick.unschedulable = true;
    now = at(1);
    record = play(world, record);
    world.sick.unschedulable = false;
    record = play(world, record);
    CHECK(record.phase == Phase::blocked);
    now = at(2);
  }
  SUBCASE("it was not") { now = at(1); }
  record = play(world, record);
  CHECK(record.phase == Phase::cancelled);
  CHECK(world.machines.size() == 1);
}

// who saw the fault | what is read when it is to be acted on | acts, waits or withdraws
TEST_CASE("a fault that others saw is asked of them again") {
  now = start;
  World world;
  Record record = fresh();
  world.health.verdict = "Healthy";  // the agent knows nothing of it
  auto condition = [](std::string type, std::string status, TimePoint since) {
    return NodeCondition{std::move(type), std::move(status), "", "", since, std::nullopt};
  };
  Phase expected = Phase::stopping;
  SUBCASE("a condition that stands") {
    record.fault.source = "condition:GPUMissing=True";
    world.sick.conditions = {condition("GPUMissing", "True", start)};
  }
  SUBCASE("a condition that went away after the fault") {
    record.fault.source = "condition:GPUMissing=True";
    world.sick.conditions = {condition("GPUMissing", "False", at(1))};
    expected = Phase::cancelled;
  }
  SUBCASE("a condition as it was before the fault: an old look") {
    record.fault.source = "condition:GPUMissing=True";
    world.sick.conditions = {condition("GPUMissing", "False", at(-1))};
    expected = Phase::observed;
  }
  SUBCASE("a condition that nobody writes any more") {
    record.fault.source = "condition:GPUMissing=True";
    expected = Phase::observed;
  }
  SUBCASE("silence that lasts; the last report is the fault's time") {
    record.fault.source = silence_source;
    world.sick.conditions = {condition("Ready", "Unknown", start)};
  }
  SUBCASE("the kubelet is heard again") {
    record.fault.source = silence_source;
    world.sick.conditions = {condition("Ready", "True", at(1))};
    expected = Phase::cancelled;
  }
  SUBCASE("the agent is heard again") {
    record.fault.source = silence_source;
    world.sick.conditions = {condition("Ready", "Unknown", start)};
    world.health.reported_at = at(1);
    expected = Phase::cancelled;
  }
  SUBCASE("nobody says how the kubelet is") {
    record.fault.source = silence_source;
    expected = Phase::observed;
  }
  record = play(world, record);
  CHECK(record.phase == expected);
  CHECK((world.effects.empty() || world.effects.front() == "notify"));
  CHECK(world.slurm.down == (expected == Phase::stopping));
}

TEST_CASE("on a lost node no kubelet ends a pod: what is terminating goes with the machine") {
  now = start;
  World world;
  Record record = fresh();
  record.fault.source = silence_source;
  world.sick.conditions = {NodeCondition{"Ready", "Unknown", "", "", start, std::nullopt}};
  world.pods.push_back({"default", "stuck", "uid-s", false, true, true, false});
  record = play(world, record);
  world.end_processes();
  record = play(world, record);
  CHECK(record.phase == Phase::done);
}

// Every phase against every combination of a few facts: no illegal transition, no effect without its intent, terminal
// phases rest.
TEST_CASE("every phase, every event") {
  for (Phase phase : all_phases)
    for (unsigned bits = 0; bits < 4096; ++bits) {
      World world;
      Record record = fresh();
      record.phases = {{Phase::observed, start}};
      record.phase = phase;
      record.phases.push_back({phase == Phase::blocked ? Phase::draining : phase, start});
      if (phase == Phase::blocked) record.phases.push_back({phase, start});
      if (bits & 1)
        record.slurm_down_at = start, intend(record, "slurm_down", "", start), finish(record, "slurm_down", start);
      if (bits & 2) world.slurm.down = world.slurm.drain = true;
      if (bits & 4) world.health.verdict = "Healthy";
      if (bits & 8) world.sick_exists = false;
      if (bits & 16) world.slurm_answers = false;
      if (bits & 32) world.pods.push_back({"d", "p", "u", false, true, false, true});
      if (bits & 64) world.spare_exists = false;
      if (bits & 128) world.machines.clear();
      if (bits & 256)
        record.replacement = {record.name + "-1", 1, "pool-new11", ""},
        world.machines.push_back({"pool-new11", record.name + "-1", "", MachineView::State::running});
      if (bits & 512) world.jobs.clear();
      if (bits & 1024)
        world.sick.unschedulable = true, world.sick.workers.clear(), intend(record, "cordon", "", start),
        finish(record, "cordon", start);
      TimePoint when = bits & 2048 ? at(1000) : at(1);
      Observed seen = world.observe(record);
      Decision decision = step(record, seen, Policy{}, 8, when);
      CAPTURE(to_string(phase));
      CAPTURE(bits);
      REQUIRE(may_follow(phase, decision.next.phase));
      if (is_terminal(phase))
        REQUIRE((!decision.effect && !decision.changed && !decision.look_again));
      else
        REQUIRE((decision.look_again.has_value() || is_terminal(decision.next.phase)));
      if (decision.effect) REQUIRE(find_step(decision.next, decision.step) != nullptr);
      if ((bits & 32) && decision.effect && find_step(record, "delete_machine") == nullptr)
        if (auto* gone = std::get_if<DeleteMachine>(&*decision.effect)) REQUIRE(gone->machine != record.node);
      REQUIRE_FALSE(decision.reason.empty());
    }
}
