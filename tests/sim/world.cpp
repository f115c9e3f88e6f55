#include "tests/sim/world.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "api/repair.hpp"
#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::sim {

namespace {

constexpr const char* workers = "slurm.demo.gpu";
constexpr int gpus = 8;

kube::Object health_of(const std::string& node, const std::string& verdict, TimePoint now) {
  std::string at = format_rfc3339(now);
  boost::json::array devices;
  for (int i = 0; i < gpus; ++i) devices.push_back(boost::json::object{{"id", std::to_string(i)}, {"state", "Good"}});
  boost::json::array findings;
  if (verdict == "Unhealthy")
    findings.push_back(boost::json::object{{"id", "f"},
                                           {"component", "gpu-xid"},
                                           {"code", "79"},
                                           {"device", "0000:17:00"},
                                           {"severity", "fatal"},
                                           {"action", "RESTART_BM"},
                                           {"firstSeen", at},
                                           {"lastSeen", at},
                                           {"count", 1}});
  kube::Object object = kube::new_object(kube::resources::node_healths, "", node);
  object["status"] = {{"bootId", "boot-" + node}, {"lastReport", at},   {"verdict", verdict},
                      {"expectedGpus", gpus},     {"devices", devices}, {"findings", findings}};
  return object;
}

}  // namespace

World::World(bool with_spare) {
  kube::Object pool = kube::new_object(kube::resources::node_pools, "", "pool");
  pool["spec"] = {{"size", 2},
                  {"spares", with_spare ? 1 : 0},
                  {"gpusPerNode", gpus},
                  {"provider", {{"type", "local"}}},
                  {"healing", {{"enabled", true}}}};
  api_.put(kube::resources::node_pools, pool);
  kube::Object cluster = kube::new_object(kube::resources::slurm_clusters, "slurm", "demo");
  cluster["spec"] = {{"workers", {{{"name", "gpu"}, {"pool", "pool"}}}}};
  api_.put(kube::resources::slurm_clusters, cluster);
  provider_.on_create = [this](const provider::Machine& machine) { make_node(machine.name, true); };
  provider_.on_remove = [this](const provider::Machine& machine) { slurm_.lose_slurmd(machine.name); };
  add_machine(sick, false);
  add_machine("pool-good1", false);
  if (with_spare) add_machine("pool-spare", true);
  settle();
  slurm::FakeJobSpec spec;
  spec.nodes = 2;
  job_ = slurm_.submit(spec);
  clock_.advance(Duration{2'000});
  settle();
  hook_servers();
  start_controller();
}

void World::add_machine(const std::string& name, bool spare) {
  provider_.machines.push_back(
      {name, "token-" + name, "pool", gpus, provider::MachineState::running, "", std::nullopt});
  make_node(name, spare);
}

void World::make_node(const std::string& name, bool spare) {
  kube::Object node = kube::new_object(kube::resources::nodes, "", name);
  io::set_at(node, {"metadata", "labels", names::pool_label}, "pool");
  if (!spare) io::set_at(node, {"metadata", "labels", names::workers_label}, workers);
  if (spare) node["spec"] = {{"taints", {{{"key", names::spare_taint}, {"value", "true"}, {"effect", "NoSchedule"}}}}};
  node["status"] = {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}};
  api_.put(kube::resources::nodes, node);
  api_.put(kube::resources::node_healths, health_of(name, "Healthy", clock_.now()));
}

void World::report(const std::string& node, const std::string& verdict) {
  api_.put(kube::resources::node_healths, health_of(node, verdict, clock_.now()));
}
void World::lose_node() {
  lost_ = true;
  kube::Object node = *api_.find(kube::resources::nodes, "", sick);
  node["status"] = {{"conditions",
                     {{{"type", "Ready"},
                       {"status", "Unknown"},
                       {"reason", "NodeStatusUnknown"},
                       {"lastTransitionTime", format_rfc3339(clock_.now())}}}}};
  api_.put(kube::resources::nodes, node);
  slurm_.lose_slurmd(sick);
}

// Silence is only that where others report.
void World::beat() {
  if (!lost_ || ticks_ % 40 != 0) return;
  for (const auto& node : api_.all(kube::resources::nodes))
    if (kube::name_of(node) != sick) report(kube::name_of(node), "Healthy");
}

void World::break_gpu() { report(sick, "Unhealthy"); }

void World::add_pod(const std::string& name, bool opted_out) {
  kube::Object pod = kube::new_object(kube::resources::pods, "default", name);
  if (opted_out) io::set_at(pod, {"metadata", "labels", names::no_replace_label}, "true");
  pod["spec"] = {{"nodeName", sick}};
  pod["status"] = {{"phase", "Running"}};
  api_.put(kube::resources::pods, pod);
}

void World::remove_pod(const std::string& name) { api_.erase(kube::resources::pods, "default", name); }

// Everything that is not ours moves on: slurmctld's clock, the DaemonSet and the kubelets.
void World::settle() {
  slurm_.advance_to(clock_.now());
  for (const auto& node : api_.all(kube::resources::nodes)) sync_workers(node);
  for (const auto& pod : api_.all(kube::resources::pods)) {
    std::string node = io::string_at(pod, {"spec", "nodeName"});
    if (!api_.find(kube::resources::nodes, "", node) || kube::is_deleting(pod))
      api_.erase(kube::resources::pods, kube::namespace_of(pod), kube::name_of(pod));
  }
  slurm_.advance_to(clock_.now());
}

// The label is the switch: on, a slurmd registers; off, its pod goes as soon as no process of a job is left on it.
void World::sync_workers(const kube::Object& node) {
  std::string name = kube::name_of(node);
  std::string pod_name = "worker-" + name;
  bool wanted = kube::has_label(node, names::workers_label);
  bool there = api_.find(kube::resources::pods, "slurm", pod_name).has_value();
  if (wanted && !there) {
    kube::Object pod = kube::new_object(kube::resources::pods, "slurm", pod_name);
    io::set_at(pod, {"metadata", "labels", names::component_label}, "worker");
    io::set_at(pod, {"metadata", "labels", names::cluster_label}, "demo");
    pod.at("metadata").as_object()["ownerReferences"] = {{{"apiVersion", "apps/v1"},
                                                          {"kind", "DaemonSet"},
                                                          {"name", "demo-worker-gpu"},
                                                          {"uid", "d"},
                                                          {"controller", true}}};
    pod["spec"] = {{"nodeName", name}};
    api_.put(kube::resources::pods, pod);
    slurm_.register_node(name, gpus);
  }
  if (!wanted && there && !slurm_.has_processes(name)) {
    slurm_.lose_slurmd(name);
    api_.erase(kube::resources::pods, "slurm", pod_name);
  }
}

Verdict World::decide(const Point& point) {
  if (point.write) ++writes_;
  Verdict verdict = fate ? fate(point) : Verdict::pass;
  if (verdict == Verdict::crash_before) throw Crash{};
  crash_after_ = verdict == Verdict::crash_after;
  return verdict;
}

void World::hook_servers() {
  using Api = kube::FakeApiServer;
  api_.set_fault_hook([this](const Api::Call& call) {
    switch (decide({"api", call.verb + " " + call.resource.plural + "/" + call.name + " " + call.subresource,
                    Api::is_mutation(call)})) {
      case Verdict::unreachable:
        return Api::Fault::unreachable;
      case Verdict::lost_request:
        return Api::Fault::lost_request;
      case Verdict::lost_reply:
        return Api::Fault::lost_reply;
      case Verdict::conflict:
        return Api::is_mutation(call) ? Api::Fault::conflict : Api::Fault::none;
      case Verdict::throttled:
        return Api::Fault::throttled;
      case Verdict::stale:
        return Api::is_mutation(call) ? Api::Fault::none : Api::Fault::stale_list;
      default:
        return Api::Fault::none;
    }
  });
  api_.set_mutation_hook([this](const Api::Mutation&) {
    if (std::exchange(crash_after_, false)) throw Crash{};
  });
  slurm_.set_fault_hook([this](const slurm::FakeSlurm::Call& call) {
    bool write = call.name.starts_with("set_") || call.name.starts_with("make_") || call.name.starts_with("delete_");
    switch (decide({"slurm", call.name + " " + call.target + " " + call.detail, write})) {
      case Verdict::unreachable:
        return slurm::FakeSlurm::Fault::unreachable;
      case Verdict::lost_request:
        return slurm::FakeSlurm::Fault::lost_request;
      case Verdict::lost_reply:
        return slurm::FakeSlurm::Fault::lost_reply;
      case Verdict::conflict:
        return slurm::FakeSlurm::Fault::refused;
      case Verdict::throttled:
        return slurm::FakeSlurm::Fault::timeout;
      case Verdict::stale:
        return write ? slurm::FakeSlurm::Fault::none : slurm::FakeSlurm::Fault::stale_read;
      default:
        return slurm::FakeSlurm::Fault::none;
    }
  });
  slurm_.set_effect_hook([this](const slurm::FakeSlurm::Call&) {
    if (std::exchange(crash_after_, false)) throw Crash{};
  });
  provider_.before = [this](std::string_view call) -> Result<void> {
    provider_after_.reset();
    switch (decide({"provider", std::string(call), call != "list"})) {
      case Verdict::unreachable:
        return fail(ErrorKind::unreachable, "the provider is unreachable");
      case Verdict::lost_request:
        return fail(ErrorKind::unknown_outcome, "the request was lost");
      case Verdict::conflict:
      case Verdict::throttled:
        return fail(ErrorKind::unavailable, "the provider is busy");
      case Verdict::lost_reply:
        provider_after_ = Error{ErrorKind::unknown_outcome, "the answer was lost", std::nullopt};
        return {};
      default:
        return {};
    }
  };
  provider_.after = [this](std::string_view) -> Result<void> {
    if (std::exchange(crash_after_, false)) throw Crash{};
    if (provider_after_) return std::unexpected(*std::exchange(provider_after_, std::nullopt));
    return {};
  };
}

void World::start_controller() {
  controller::Connectors connectors{
      api_.client_factory(random_, "homeostat-controller"),
      [this](kube::Client&, std::string_view) -> Result<std::unique_ptr<slurm::Client>> { return slurm_.client(); },
      [this](kube::Client&, const api::NodePool&) -> Result<std::unique_ptr<provider::Provider>> {
        return provider_.connect();
      }};
  controller_ = std::make_unique<Controller>(std::move(connectors), notifications_, clock_);
}

void World::look() {
  try {
    // As the informers would: news of a verdict, and now and then whoever is silent.
    beat();
    for (const auto& health : api_.all(kube::resources::node_healths))
      if (io::string_at(health, {"status", "verdict"}) == "Unhealthy" || (lost_ && ticks_ % 20 == 0))
        (void)controller_->opener.reconcile(kube::key_of(health), {});
    for (const auto& repair : api_.all(kube::resources::repairs))
      (void)controller_->repairer.reconcile(kube::key_of(repair), {});
    if (ticks_++ % 4 == 0) (void)controller_->pooler.reconcile({"", "pool"}, {});
  } catch (const Crash&) {
    ++restarts_;
    crash_after_ = false;
    start_controller();
  }
}

bool World::run(Duration limit, const std::function<bool()>& until) {
  TimePoint end = clock_.now() + limit;
  while (clock_.now() < end) {
    settle();
    look();
    settle();
    check();
    if (!violation_.empty()) return false;
    if (until && until()) return true;
    clock_.advance(Duration{250});
  }
  return !until;
}

void World::check() {
  size_t open = 0;
  for (const auto& object : api_.all(kube::resources::repairs))
    open += repair::is_terminal(api::decode_repair(object).phase) ? 0 : 1;
  if (open > 1) violation_ = "two repairs are open for one node";
  if (provider_.created > 1) violation_ = "two machines were ordered for one repair";
  size_t wanted =
      static_cast<size_t>(2 + io::int_at(*api_.find(kube::resources::node_pools, "", "pool"), {"spec", "spares"}));
  if (provider_.machines.size() > wanted) violation_ = "there are more machines than the pool wants";
  for (const char* healthy : {"pool-good1", "pool-spare"})
    if (std::ranges::find(provider_.machines, healthy, &provider::Machine::name) == provider_.machines.end() &&
        (wanted == 3 || healthy != std::string("pool-spare")))
      violation_ = std::string("the healthy machine ") + healthy + " was deleted";
}

std::optional<repair::Record> World::repair() const {
  auto all = api_.all(kube::resources::repairs);
  if (all.size() != 1) return std::nullopt;
  return api::decode_repair(all.front());
}

bool World::over() const {
  auto record = repair();
  return record && repair::is_terminal(record->phase);
}

bool World::downed() const {
  return std::ranges::any_of(slurm_.calls(), [](const auto& call) {
    return call.name == "set_node_state" && call.detail.find("down") != std::string::npos;
  });
}

std::string World::difference_from_healed() const {
  auto record = repair();
  if (!record) return "there is not exactly one repair";
  if (record->phase != repair::Phase::done)
    return "the repair is " + std::string(repair::to_string(record->phase)) + ": " + record->message;
  if (provider_.created != 1 || provider_.removed != 1) return "not exactly one machine was made and one deleted";
  if (api_.find(kube::resources::nodes, "", sick)) return "the sick node is still there";
  auto job = slurm_.find_job(job_);
  if (!job || !slurm::job_is_running(job->states)) return "the job does not run again";
  if (job->restart_count != 1) return "the job was requeued " + std::to_string(job->restart_count) + " times";
  if (std::ranges::find(job->nodes, sick) != job->nodes.end()) return "the job runs on the sick node";
  int promoted = 0, spares = 0;
  for (const auto& node : api_.all(kube::resources::nodes))
    ++(io::array_at(node, {"spec", "taints"}).empty() && kube::label_of(node, names::workers_label) == workers
           ? promoted
           : spares);
  int wanted = static_cast<int>(io::int_at(*api_.find(kube::resources::node_pools, "", "pool"), {"spec", "spares"}));
  if (promoted != 2 || spares != wanted)
    return std::to_string(promoted) + " nodes work and " + std::to_string(spares) + " are spares";
  return "";
}

}  // namespace homeostat::sim
