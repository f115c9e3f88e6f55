// The heal itself, then what must not break it: an opt-out, and a controller that is killed at every phase.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "cli/bring_up.hpp"
#include "io/json.hpp"
#include "kube/connect.hpp"
#include "kube/kubeconfig.hpp"
#include "kube/meta.hpp"
#include "world.hpp"

using namespace homeostat;
using namespace homeostat::e2e;
using repair::Phase;

namespace {

constexpr Duration heal_limit{240'000};
constexpr const char* job_name = "homeostat-e2e";

bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool passed(const repair::Record& record, Phase phase) {
  return std::any_of(record.phases.begin(), record.phases.end(),
                     [&](const auto& entry) { return entry.phase == phase; });
}

void tell(const cli::Heal& heal) {
  for (const auto& row : cli::timeline(heal.facts, &heal.record, heal.log))
    fmt::print("{}\n", cli::format_row(row, heal.facts.fault_at));
  fmt::print("{}", cli::summary(heal.figures));
}

struct JobGuard {
  ~JobGuard() { cli::cancel_jobs_named(World::get().login(), job_name); }
};

// What holds after every heal, however it was disturbed.
void check_healed(const cli::Heal& heal, const std::string& spare_before, int made_before) {
  auto& world = World::get();
  const auto& record = heal.record;
  CHECK(record.phase == Phase::done);
  for (const auto phase : {Phase::observed, Phase::notified, Phase::stopping, Phase::requeued, Phase::draining,
                           Phase::replacing, Phase::verifying, Phase::done})
    CHECK_MESSAGE(passed(record, phase), "no time is noted for " << repair::to_string(phase));
  CHECK(std::is_sorted(record.phases.begin(), record.phases.end(),
                       [](const auto& a, const auto& b) { return a.entered_at < b.entered_at; }));

  // SIGTERM reached both ranks; what was saved is what training went on from.
  CHECK(heal.figures.ranks_told == 2);
  CHECK(heal.figures.saved_step);
  CHECK(heal.figures.resumed_step == heal.figures.saved_step);
  CHECK(heal.figures.steps_lost == 0);

  // It runs again, restarted, on two nodes of which none is the sick one.
  std::set<std::string> nodes;
  for (const auto& event : heal.log)
    if (event.kind == cli::TrainEvent::Kind::placed && event.at > *heal.facts.fault_at) {
      nodes.insert(event.node);
      CHECK(event.step >= 1);
    }
  CHECK(nodes.size() == 2);
  CHECK_FALSE(nodes.contains(heal.facts.sick_node));
  CHECK(nodes.contains(spare_before));

  // One machine for one: the sick one is gone, a new one is the spare, and the provider made exactly one.
  world.wait("the new machine is the pool's spare", Duration(60'000),
             [&] { return !world.node_name_of_spare().empty(); });
  const auto machines = world.machines();
  CHECK(machines.size() == 3);
  CHECK_FALSE(has(machines, heal.facts.sick_node));
  CHECK(record.replacement.node == world.node_name_of_spare());
  CHECK(world.machines_made() == made_before + 1);
  CHECK(world.client().get(kube::resources::nodes, "", heal.facts.sick_node).error().kind == ErrorKind::not_found);
}

// The controller as a process of its own in the control plane's network, so that it can be killed and started at will.
class LooseController {
 public:
  LooseController() {
    scale(0);
    World::get().wait("the controller's pod is gone", Duration(40'000), [] {
      return World::get()
          .kubectl({"-n", "homeostat-system", "get", "pods", "-l", "app.kubernetes.io/name=homeostat-controller", "-o",
                    "name"})
          .out.empty();
    });
    start();
  }
  ~LooseController() {
    process_->kill(SIGTERM);
    process_->wait(Duration(10'000));
    scale(1);
  }
  void kill_and_restart() {
    process_->kill(SIGKILL);
    process_->wait(Duration(5'000));
    start();
    ++kills_;
  }
  int kills() const { return kills_; }

 private:
  static void scale(int replicas) {
    World::get().kubectl(
        {"-n", "homeostat-system", "scale", "deployment/homeostat-controller", fmt::format("--replicas={}", replicas)});
  }
  void start() {
    auto& world = World::get();
    io::SpawnOptions options;
    options.stdout_path = options.stderr_path = world.places().state + "/e2e-controller.log";
    process_.emplace(must(io::Process::spawn(
        {"nsenter", "--net=/run/netns/" + world.instance() + "-control-plane",
         world.places().programs + "/homeostat-controller", "run", "--kubeconfig=" + world.places().kubeconfig(),
         "--identity=e2e", "--metrics-addr=127.0.0.1:18080"},
        options)));
  }
  std::optional<io::Process> process_;
  int kills_ = 0;
};

// Holds repairs in a phase for as long as the test wants: the API server refuses to write the phases named here.
//   Observed -x-> Notified -x-> Stopping
class Gate {
 public:
  explicit Gate(const std::vector<std::string>& refused) {
    refuse(refused);
    World::get().context().clock().sleep(Duration(3'000), {});  // until the API server has taken it up
  }
  void refuse(const std::vector<std::string>& refused) {
    refusal_.allow_only(fmt::format("!(object.?status.?phase.orValue('') in ['{}'])", fmt::join(refused, "', '")));
  }
  void lift() { refusal_.lift(); }

 private:
  Refusal refusal_{
      "e2e-gate",
      R"({apiGroups: [homeostat.dev], apiVersions: ["*"], operations: [UPDATE], resources: [repairs/status]})"};
};

// Phases of the Repairs, as the API server announces each of them.
class PhaseWatch {
 public:
  PhaseWatch() : thread_([this](std::stop_token stop) { run(stop); }) {}
  // A phase of this node's repair that has not been asked for yet.
  std::optional<std::string> next(const std::string& node) {
    std::lock_guard lock(mutex_);
    auto& seen = seen_[node];
    return seen.size() > taken_[node] ? std::optional(seen[taken_[node]++]) : std::nullopt;
  }

 private:
  void run(std::stop_token stop) {
    auto config = kube::load_kubeconfig({.paths = {World::get().places().kubeconfig()}, .context = ""});
    io::SystemClock clock;
    io::SystemRandom random;
    auto client = kube::make_client(std::move(*config), nullptr, clock, random);
    while (!stop.stop_requested()) {
      auto list = client->list(kube::resources::repairs, "", {});
      if (!list) continue;
      for (const auto& item : list->items) note(item);
      kube::WatchOptions options;
      options.resource_version = list->resource_version;
      (void)client->watch(
          kube::resources::repairs, "", options,
          [&](kube::WatchEvent&& event) { return note(event.object), !stop.stop_requested(); }, stop);
    }
  }
  void note(const kube::Object& object) {
    const auto node = io::string_at(object, {"spec", "nodeName"}), phase = io::string_at(object, {"status", "phase"});
    std::lock_guard lock(mutex_);
    auto& seen = seen_[node];
    if (!phase.empty() && !has(seen, phase)) seen.push_back(phase);
  }
  std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> seen_;
  std::map<std::string, std::size_t> taken_;
  std::jthread thread_;
};

}  // namespace

TEST_CASE("a GPU falls off the bus and training goes on from its checkpoint with nobody doing anything") {
  auto& world = World::get();
  world.wait_until_whole();
  JobGuard guard;
  auto listener = must(cli::NotificationListener::start(world.context()));
  auto job = must(cli::submit_training(world.context(), world.login(), job_name));
  const auto spare = world.node_name_of_spare();
  const int made = world.machines_made();
  const auto heal = must(cli::heal_once(world.context(), world.login(), job, heal_limit));
  tell(heal);
  check_healed(heal, spare, made);

  // People were told, and that nothing is asked of them.
  REQUIRE_FALSE(listener->notices().empty());
  CHECK(listener->notices().front().body.find(heal.facts.sick_node) != std::string::npos);

  // Bounds far above what `make bench` measures: this machine may be busy.
  CHECK(*heal.figures.fault_to_down_s < 5);
  CHECK(*heal.figures.end_to_running_s < 30);
  // A rank that has saved leaves at once. One that stands in its library's teardown is killed after 120 s, and only
  // then can the job start again.
  CHECK(*heal.figures.fault_to_running_s < 60);
  CHECK(*heal.figures.pool_whole_s < 150);

  // The record tells the story, and so does kubectl.
  CHECK(world.homeostat({"repair", heal.record.name}).out.find("Phases") != std::string::npos);
  CHECK(world.kubectl({"get", "repairs"}).out.find("Done") != std::string::npos);
  CHECK(world.kubectl({"describe", "repair", heal.record.name}).out.find("Slurm") != std::string::npos);
}

//  gpu-a (sick, runs a pod with the opt-out label)     gpu-b     spare
//  -> Blocked with a sentence, machine, Node and pod stay; the label off -> it goes on to Done
TEST_CASE("a pod that opts out blocks the replacement until its label is gone") {
  auto& world = World::get();
  world.wait_until_whole();
  const auto machines = world.machines();
  const auto spare = world.node_name_of_spare();
  const auto sick = *std::find_if(machines.begin(), machines.end(), [&](const auto& name) { return name != spare; });
  const auto pod = fmt::format(R"(
apiVersion: v1
kind: Pod
metadata: {{name: keeper, namespace: default, labels: {{homeostat.dev/no-replace: "true"}}}}
spec:
  nodeName: {}
  terminationGracePeriodSeconds: 0
  containers: [{{name: c, image: localhost/pause:1, imagePullPolicy: IfNotPresent}}]
)",
                               sick);
  REQUIRE(world.kubectl({"apply", "-f", "-"}, pod).code == 0);
  world.wait("the pod runs", Duration(30'000), [&] {
    return world.kubectl({"get", "pod", "keeper", "-o", "jsonpath={.status.phase}"}).out == "Running";
  });
  const auto pod_uid = world.kubectl({"get", "pod", "keeper", "-o", "jsonpath={.metadata.uid}"}).out;
  must(cli::break_gpu(world.context(), sick));

  std::optional<repair::Record> record;
  const auto in_phase = [&](Phase phase) {
    record = must(cli::repair_of(world.context(), sick));
    return record && record->phase == phase;
  };
  world.wait("the repair is Blocked", Duration(60'000), [&] { return in_phase(Phase::blocked); });
  CHECK(record->message.find("keeper") != std::string::npos);
  world.context().clock().sleep(Duration(4'000), {});
  CHECK(in_phase(Phase::blocked));
  CHECK(has(world.machines(), sick));
  CHECK(world.client().get(kube::resources::nodes, "", sick));
  CHECK(world.kubectl({"get", "pod", "keeper", "-o", "jsonpath={.metadata.uid}"}).out == pod_uid);

  REQUIRE(world.kubectl({"label", "pod", "keeper", "homeostat.dev/no-replace-"}).code == 0);
  world.wait("the repair is Done once nobody objects", Duration(120'000), [&] { return in_phase(Phase::done); });
  CHECK_FALSE(has(world.machines(), sick));
  CHECK(world.kubectl({"get", "pod", "keeper", "--ignore-not-found", "-o", "name"}).out.empty());
}

//  gate: Observed | kill | gate: Notified | kill | gate open: Stopping | kill | … | Verifying | kill | Done
TEST_CASE("killing the controller with -9 in each phase changes nothing in the outcome") {
  auto& world = World::get();
  world.wait_until_whole();
  JobGuard guard;
  auto listener = must(cli::NotificationListener::start(world.context()));
  auto job = must(cli::submit_training(world.context(), world.login(), job_name));
  LooseController controller;
  PhaseWatch phases;
  Gate gate({"Notified", "Stopping"});
  const auto spare = world.node_name_of_spare();
  const int made = world.machines_made();
  std::set<std::string> killed_in;
  const auto kill_in = [&](const std::string& phase) {
    if (phase == "Done" || !killed_in.insert(phase).second) return false;
    controller.kill_and_restart();
    return true;
  };
  const auto heal = must(cli::heal_once(world.context(), world.login(), job, heal_limit,
                                        [&](const cli::HealFacts& facts, const auto* record, const auto&) {
                                          // The first two pass in milliseconds unless they are held.
                                          if (record && record->phase == Phase::observed && kill_in("Observed"))
                                            gate.refuse({"Stopping"});
                                          if (record && record->phase == Phase::notified && kill_in("Notified"))
                                            gate.lift();
                                          if (!killed_in.contains("Notified")) return;
                                          while (const auto phase = phases.next(facts.sick_node)) kill_in(*phase);
                                        }));
  tell(heal);
  for (const auto* phase : {"Observed", "Notified", "Stopping", "Requeued", "Draining", "Replacing", "Verifying"})
    CHECK_MESSAGE(killed_in.contains(phase), "not killed in " << phase);
  CHECK(controller.kills() >= 7);
  check_healed(heal, spare, made);
  CHECK_FALSE(listener->notices().empty());
}

namespace {

// Each rank hears SIGTERM, notes when, and goes on working until it is killed. Started again it ends at once.
constexpr const char* stubborn_script = R"sh(#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --requeue --open-mode=append
[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] && exit 0
srun bash -c '
  cd "$SLURM_SUBMIT_DIR"
  trap "date +%s.%N >>term.$SLURM_PROCID" TERM
  while :; do date +%s.%N >alive.$SLURM_PROCID.new && mv alive.$SLURM_PROCID.new alive.$SLURM_PROCID; sleep 0.2; done'
)sh";

double number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

}  // namespace

//  rank 0, rank 1:  work ... SIGTERM at the DOWN ... work on ......... SIGKILL 120 s later, and not before
TEST_CASE("processes that do not end at SIGTERM are left their whole grace of 120 s") {
  auto& world = World::get();
  world.wait_until_whole();
  JobGuard guard;
  const std::string folder = "stubborn-" + std::to_string(world.context().now().time_since_epoch().count());
  must(cli::remote(world.login(), "mkdir " + folder + " && cat >" + folder + "/job.sh", Duration(60'000), {},
                   stubborn_script));
  const auto submitted =
      world.ssh("cd " + folder + " && sbatch --parsable --job-name=" + std::string(job_name) + " job.sh");
  const auto job = static_cast<std::uint32_t>(std::stoul(submitted));
  world.wait("both ranks work", Duration(60'000),
             [&] { return world.ssh("ls " + folder).find("alive.1") != std::string::npos; });
  const auto nodes = must(cli::nodes_of_job(world.context(), world.login(), job));
  REQUIRE(nodes.size() == 2);
  must(cli::break_gpu(world.context(), nodes.back()));

  world.wait("the repair is Done", Duration(300'000), [&] {
    const auto record = must(cli::repair_of(world.context(), nodes.back()));
    return record && record->phase == Phase::done;
  });
  for (const auto* rank : {"0", "1"}) {
    const auto told = world.ssh("cat " + folder + "/term." + rank);
    const double heard = number(told), last = number(world.ssh("cat " + folder + "/alive." + rank));
    INFO("rank " << rank << ": SIGTERM at " << told << ", alive until " << last);
    CHECK(heard > 0);
    CHECK(last - heard > 115);
    CHECK(last - heard < 135);
  }
  CHECK(world.ssh("scontrol show job " + std::to_string(job)).find("Restarts=1") != std::string::npos);
}
