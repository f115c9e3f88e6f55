// What only a cluster shows of detection: a storm in the kernel's log, an agent that dies while lines come, heartbeats
// that are lost and are not taken for dead GPUs, what other detectors say of a Node, and what a Prometheus reads.
// Nothing here may repair anything: no machine is taken away.
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <set>
#include <thread>

#include "api/health_policy.hpp"
#include "api/health_report.hpp"
#include "core/fault/classify.hpp"
#include "core/fault/ledger.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "kube/conditions.hpp"
#include "kube/meta.hpp"
#include "lab/kernel_log.hpp"
#include "world.hpp"

using namespace homeostat;
using namespace homeostat::e2e;

namespace {

constexpr const char* system_ns = "homeostat-system";
constexpr int error_level = 3;

std::string machine_run(const std::string& node) { return World::get().places().state + "/machines/" + node + "/run"; }

void say(const std::string& node, const std::vector<std::string>& lines) {
  std::vector<fault::DrillLine> records;
  records.reserve(lines.size());
  for (const auto& line : lines) records.push_back({error_level, line});
  must(lab::append_lines(machine_run(node), records));
}

kube::Object health_of(const std::string& node) {
  return must(World::get().client().get(kube::resources::node_healths, "", node));
}
kube::Object node_object(const std::string& node) {
  return must(World::get().client().get(kube::resources::nodes, "", node));
}

std::int64_t occurrences(const kube::Object& health) {
  std::int64_t sum = 0;
  for (const auto& finding : io::array_at(health, {"status", "findings"})) sum += io::int_at(finding, {"count"}, 0);
  return sum;
}

bool has_finding(const kube::Object& health, std::string_view id) {
  return std::ranges::any_of(io::array_at(health, {"status", "findings"}),
                             [&](const auto& finding) { return io::string_at(finding, {"id"}) == id; });
}

std::size_t repairs_ever() { return must(World::get().client().list(kube::resources::repairs, "", {})).items.size(); }

// "-" before it is known, which is no beginning of any.
std::string boot_of(const kube::Object& health) { return io::string_at(health, {"status", "bootId"}, "-"); }

// Sound hardware and a new boot, which is what makes an agent forget.
void make_sound(const std::string& node) {
  auto& world = World::get();
  const auto cleared = world.lab({"inject", node, "clear"});
  REQUIRE_MESSAGE(cleared.code == 0, cleared.out << cleared.err);
  world.wait("the agent of " + node + " finds nothing", Duration(30'000), [&] {
    const auto health = health_of(node);
    return must(io::read_file(machine_run(node) + "/boot_id")).starts_with(boot_of(health)) &&
           io::array_at(health, {"status", "findings"}).empty() &&
           io::string_at(health, {"status", "verdict"}) == "Healthy";
  });
}

// Two that work, and the spare.
struct Nodes {
  std::vector<std::string> working;
  std::string spare;
};
Nodes whole_pool() {
  auto& world = World::get();
  world.wait_until_whole();
  Nodes nodes{world.machines(), world.node_name_of_spare()};
  std::erase(nodes.working, nodes.spare);
  REQUIRE(nodes.working.size() == 2);
  return nodes;
}

struct Event {
  std::string reason, message;
  std::int64_t count = 0;
};
// Of a node, as far as they are younger than `since`.
std::vector<Event> events_of(const std::string& node, TimePoint since) {
  std::vector<Event> events;
  const auto list = must(World::get().client().list(kube::resources::events, "default",
                                                    {.field_selector = "involvedObject.name=" + node}));
  for (const auto& event : list.items) {
    const auto at = parse_rfc3339(io::string_at(event, {"lastTimestamp"}));
    if (!at || *at < since - Duration(1'000)) continue;  // written in whole seconds
    events.push_back(
        {io::string_at(event, {"reason"}), io::string_at(event, {"message"}), io::int_at(event, {"count"}, 0)});
  }
  return events;
}
std::optional<Event> event_of(const std::string& node, std::string_view reason, TimePoint since) {
  const auto events = events_of(node, since);
  const auto found = std::ranges::find(events, reason, &Event::reason);
  return found == events.end() ? std::nullopt : std::optional(*found);
}

kube::Object pod_of(const std::string& app, const std::string& node = {}) {
  const auto pods = must(World::get().client().list(kube::resources::pods, system_ns,
                                                    {.label_selector = "app.kubernetes.io/name=" + app,
                                                     .field_selector = node.empty() ? "" : "spec.nodeName=" + node}));
  for (const auto& pod : pods.items)
    if (!kube::is_deleting(pod)) return pod;
  return {};
}

// By series, such as `name{label="x"}`. Read through the API server's proxy, which dials the pod as a Prometheus would.
using Series = std::map<std::string, double>;
Series scrape(const kube::Object& pod, const std::string& port) {
  const auto text = must(World::get().client().raw_get(
      fmt::format("/api/v1/namespaces/{}/pods/{}:{}/proxy/metrics", system_ns, kube::name_of(pod), port)));
  Series series;
  for (size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || line.starts_with('#')) continue;
    const auto blank = line.rfind(' ');
    series[line.substr(0, blank)] = std::strtod(line.c_str() + blank, nullptr);
  }
  return series;
}
Series scrape_agent(const std::string& node) {
  const auto pod = pod_of("homeostat-agent", node);
  CHECK(kube::annotation_of(pod, "prometheus.io/scrape") == "true");
  return scrape(pod, kube::annotation_of(pod, "prometheus.io/port"));
}
Series scrape_controller() { return scrape(pod_of("homeostat-controller"), "8080"); }

double value(const Series& series, const std::string& name) {
  const auto found = series.find(name);
  return found == series.end() ? 0 : found->second;
}
// Nodes of which the controller says this now.
double told_nodes(std::string_view component, std::string_view code, std::string_view repair_class = "watch") {
  return value(scrape_controller(), fmt::format(R"(homeostat_detector_nodes{{component="{}",code="{}",class="{}"}})",
                                                component, code, repair_class));
}

pid_t agent_process(const std::string& node) { return find_process("homeostat-agent run --node=" + node + " "); }

double rss_mib(pid_t pid) {
  const auto text = io::read_head(fmt::format("/proc/{}/smaps_rollup", pid), 4096).value_or("");
  const auto at = text.find("\nRss:");
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + 5, nullptr) / 1024;
}

// Writes of a node's health and condition that reached the API server, as its audit log has them: what the agent says
// of itself is no proof.
class WriteCount {
 public:
  explicit WriteCount(std::string node) : node_(std::move(node)), before_(log().size()) {}
  int now() const {
    const auto text = log().substr(before_);
    int writes = 0;
    for (size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find('\n', begin), text.size());
      const auto line = std::string_view(text).substr(begin, end - begin);
      begin = end + 1;
      writes += line.find("\"userAgent\":\"homeostat-agent/") != line.npos &&
                line.find("\"name\":\"" + node_ + "\"") != line.npos;
    }
    return writes;
  }

 private:
  static std::string log() { return must(io::read_file(World::get().places().state + "/audit.log", 64U << 20)); }
  std::string node_;
  size_t before_;
};

// The policy "default" with other numbers, as long as this lives. The controller takes it up at once.
class PolicyGuard {
 public:
  explicit PolicyGuard(const std::function<void(boost::json::object& spec)>& change) {
    auto policy = must(World::get().client().get(kube::resources::health_policies, "", "default"));
    before_ = io::object_at(policy, {"spec"});
    auto spec = before_;
    change(spec);
    put(spec);
  }
  ~PolicyGuard() { put(before_); }
  PolicyGuard(const PolicyGuard&) = delete;
  PolicyGuard& operator=(const PolicyGuard&) = delete;

 private:
  static void put(const boost::json::object& spec) {
    const boost::json::array patch{boost::json::object{{"op", "replace"}, {"path", "/spec"}, {"value", spec}}};
    const auto done =
        World::get().client().patch(kube::resources::health_policies, "", "default", kube::PatchType::json, patch);
    CHECK(done.has_value());
  }
  boost::json::object before_;
};

// A process that stands still, as a hung one does.
class Stopped {
 public:
  explicit Stopped(pid_t pid) : pid_(pid) {
    REQUIRE(pid_ > 0);
    REQUIRE(::kill(pid_, SIGSTOP) == 0);
  }
  ~Stopped() { go_on(); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;
  void go_on() {
    if (const auto pid = std::exchange(pid_, -1); pid > 0) ::kill(pid, SIGCONT);
  }

 private:
  pid_t pid_;
};

pid_t kubelet_process(const std::string& node) { return find_process("--hostname-override=" + node + " "); }

std::string xid_line(int gpu, int code, std::string_view rest) {
  return fmt::format("NVRM: Xid (PCI:{}): {}, pid=1234, name=python3, {}", lab::gpu_address(gpu).substr(0, 10), code,
                     rest);
}

// Every code of the catalogue's range that nobody replaces or resets anything for, by the policy that is in force.
std::vector<int> harmless_codes() {
  const auto policy =
      api::decode_health_policy(must(World::get().client().get(kube::resources::health_policies, "", "default")));
  std::vector<int> codes;
  for (int code = 1; code < 200; ++code) {
    const auto finding = fault::classify_text(xid_line(0, code, "Ch 00000008"));
    if (!finding || code == 154) continue;  // 154 takes back what it has said
    const auto repair_class = fault::treatment(*finding, policy.rules).repair_class;
    if (repair_class != fault::RepairClass::replace_node && repair_class != fault::RepairClass::reset)
      codes.push_back(code);
  }
  return codes;
}

}  // namespace

//  spare   10,000 lines (5 codes, 8 GPUs) in a second      -> every line counted, a handful of writes
//          then every harmless code on 8 GPUs, once each   -> 64 findings and how many more there were
TEST_CASE("a storm of kernel lines makes a handful of writes, and none is lost from the count") {
  auto& world = World::get();
  const auto node = whole_pool().spare;
  make_sound(node);
  const auto repairs_before = repairs_ever();
  const auto began = world.context().now();
  const auto agent = agent_process(node);
  REQUIRE(agent > 0);
  const auto rss_before = rss_mib(agent);
  const auto before = scrape_agent(node);
  const WriteCount writes(node);

  constexpr std::int64_t bursts = 100, lines_each = 100;
  constexpr int storm_codes[] = {13, 31, 43, 45, 94};
  std::set<std::string> ids;
  auto& clock = world.context().clock();
  const auto from = clock.monotonic();
  for (int burst = 0; burst < bursts; ++burst) {
    std::vector<std::string> lines;
    lines.reserve(lines_each);
    for (int i = 0; i < lines_each; ++i) lines.push_back(xid_line(i % 8, storm_codes[i / 8 % 5], "Ch 00000008"));
    say(node, lines);
    clock.sleep(std::max(Duration(0), Duration(10) * (burst + 1) - (clock.monotonic() - from)), {});
  }
  const auto storm_ms = (clock.monotonic() - from).count();
  world.wait("every line is counted", Duration(15'000),
             [&] { return occurrences(health_of(node)) >= bursts * lines_each; });
  clock.sleep(Duration(2'000), {});  // the storm's last batch, and no more after it
  const auto stormed = health_of(node);
  const auto after = scrape_agent(node);
  fmt::print("storm: {} lines in {} ms, {} writes, RSS {:.2f} -> {:.2f} MiB\n", bursts * lines_each, storm_ms,
             writes.now(), rss_before, rss_mib(agent));
  CHECK(storm_ms < 3'000);
  CHECK(occurrences(stormed) == bursts * lines_each);
  CHECK_FALSE(has_finding(stormed, "agent:KMSG_GAP"));
  CHECK(value(after, "homeostat_kmsg_records_total") - value(before, "homeostat_kmsg_records_total") ==
        bursts * lines_each);
  CHECK(value(after, "homeostat_kmsg_lost_records_total") == value(before, "homeostat_kmsg_lost_records_total"));
  // A sign of life each ten seconds, of NodeHealth and sometimes of the Node, is no answer to the storm.
  CHECK(writes.now() <= 8);

  std::vector<std::string> one_each;
  for (const auto& finding : io::array_at(stormed, {"status", "findings"})) ids.insert(io::string_at(finding, {"id"}));
  for (const int code : harmless_codes())
    for (int gpu = 0; gpu < 8; ++gpu) {
      one_each.push_back(xid_line(gpu, code, "Ch 00000008"));
      ids.insert(fault::finding_id(*fault::classify_text(one_each.back())));
    }
  REQUIRE(ids.size() > 2 * fault::Ledger::max_entries);
  say(node, one_each);
  world.wait("the rest is told as a number", Duration(15'000), [&] {
    const auto health = health_of(node);
    return io::array_at(health, {"status", "findings"}).size() +
               static_cast<size_t>(io::int_at(health, {"status", "droppedFindings"})) >=
           ids.size();
  });
  const auto full = health_of(node);
  const auto shown = io::array_at(full, {"status", "findings"}).size();
  const auto bytes = io::to_text(io::object_at(full, {"status"})).size();
  fmt::print("variety: {} findings, {} shown, {} bytes of status, RSS {:.2f} MiB\n", ids.size(), shown, bytes,
             rss_mib(agent));
  CHECK(shown <= fault::Ledger::max_entries);
  CHECK(shown + static_cast<size_t>(io::int_at(full, {"status", "droppedFindings"})) == ids.size());
  CHECK(bytes <= api::max_status_bytes);
  const auto all = scrape_agent(node);
  double fault_series = 0, in_metrics = 0;
  for (const auto& [name, count] : all)
    if (name.starts_with("homeostat_fault_total{")) ++fault_series, in_metrics += count;
  // The bound, and one "other" for each component beyond it.
  CHECK(fault_series <= 520);
  CHECK(in_metrics >= static_cast<double>(bursts * lines_each) + static_cast<double>(one_each.size()));

  CHECK(agent_process(node) == agent);
  CHECK(rss_mib(agent) < 14);
  CHECK(rss_mib(agent) - rss_before < 2);
  // People were told, not flooded: no message twice, and with what follows in the storm left out.
  world.wait("the incident is told", Duration(10'000),
             [&] { return event_of(node, "IncidentOpened", began).has_value(); });
  std::set<std::string> messages;
  for (const auto& event : events_of(node, began)) CHECK_MESSAGE(messages.insert(event.message).second, event.message);
  CHECK(messages.size() <= 12);
  CHECK(repairs_ever() == repairs_before);
  make_sound(node);
}

//  lines   |||||||||||||||||||||||||||||||||||||||
//  agent   -------x   -----------(pod deleted)  -----      counted: each line once
TEST_CASE("an agent that dies while lines are written loses none and counts none twice") {
  auto& world = World::get();
  const auto node = whole_pool().spare;
  make_sound(node);
  const auto began = world.context().now();
  constexpr std::int64_t bursts = 50, lines_each = 40;
  const auto first = agent_process(node);
  REQUIRE(first > 0);
  const auto pod = kube::name_of(pod_of("homeostat-agent", node));
  pid_t second = -1;
  int killed_at = -1, deleted_at = -1;
  for (int burst = 0; burst < bursts; ++burst) {
    std::vector<std::string> lines;
    lines.reserve(lines_each);
    for (int i = 0; i < lines_each; ++i) lines.push_back(xid_line(i % 8, 43, "Ch 00000008"));
    say(node, lines);
    world.context().clock().sleep(Duration(100), {});
    if (burst == 10) {
      REQUIRE(::kill(first, SIGKILL) == 0);
      killed_at = burst;
    }
    if (const auto pid = agent_process(node); killed_at >= 0 && second < 0 && pid != first) second = pid;
    if (second > 0 && deleted_at < 0 && burst >= 30) {
      must(world.client().remove(kube::resources::pods, system_ns, pod, {}));
      deleted_at = burst;
    }
  }
  CHECK(second > 0);
  CHECK(deleted_at > 0);
  world.wait("the pod's successor runs", Duration(30'000), [&] {
    const auto pid = agent_process(node);
    return pid > 0 && pid != first && pid != second;
  });
  world.wait("every line is counted", Duration(15'000),
             [&] { return occurrences(health_of(node)) >= bursts * lines_each; });
  world.context().clock().sleep(Duration(1'500), {});
  const auto health = health_of(node);
  CHECK(occurrences(health) == bursts * lines_each);
  CHECK_FALSE(has_finding(health, "agent:KMSG_GAP"));
  CHECK(io::string_at(health, {"status", "verdict"}) == "Healthy");  // 43 is a program's own doing
  // Where it goes on next time, on the machine's disk.
  const auto log = must(io::read_file(machine_run(node) + "/kmsg"));
  const auto memory = must(io::parse_json_object(must(io::read_file(machine_run(node) + "/agent/agent.json"))));
  CHECK(io::int_at(memory, {"lastSequence"}, -1) + 1 == static_cast<std::int64_t>(lab::next_sequence(log)));
  CHECK(io::string_at(memory, {"bootId"}) == io::string_at(health, {"status", "bootId"}));
  // An agent that starts anew is no event of the node.
  for (const auto& event : events_of(node, began)) CHECK_MESSAGE(!event.reason.starts_with("Node"), event.message);
  make_sound(node);
}

//             kubelet    agent           slurmd     told as
//  working 1  stopped    reports         answers    KubeletSilent
//  working 2  stopped    dead            answers    NodeSilent
//  spare      well       kept away       none       AgentSilent
TEST_CASE("a lost heartbeat is told as what it is, repairs nothing, and is over when it is back") {
  auto& world = World::get();
  const auto nodes = whole_pool();
  const auto &first = nodes.working[0], &second = nodes.working[1], &spare = nodes.spare;
  const auto repairs_before = repairs_ever();
  const int made_before = world.machines_made();
  const auto began = world.context().now();
  const PolicyGuard policy([](auto& spec) {
    spec["agentSilence_s"] = 30;
    spec["nodeSilence_s"] = 60;
    spec["startup_s"] = 0;
  });
  Refusal no_agent("e2e-no-agent", R"({apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]})");
  no_agent.allow_only(fmt::format(
      "!(object.metadata.?labels['app.kubernetes.io/name'].orValue('') == 'homeostat-agent' && "
      "object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.exists(term, "
      "has(term.matchFields) && term.matchFields.exists(field, '{}' in field.values)))",
      spare));
  Stopped first_kubelet(kubelet_process(first)), second_kubelet(kubelet_process(second));
  REQUIRE(::kill(agent_process(second), SIGKILL) == 0);
  world.context().clock().sleep(Duration(3'000), {});
  must(world.client().remove(kube::resources::pods, system_ns, kube::name_of(pod_of("homeostat-agent", spare)), {}));

  const auto told = [&](const std::string& node, std::string_view reason, Duration limit) {
    std::optional<Event> event;
    world.wait(fmt::format("{} is told of {}", reason, node), limit,
               [&] { return (event = event_of(node, reason, began)).has_value(); });
    fmt::print("{} s: {}\n", (world.context().now() - began).count() / 1000, event->message);
    return event->message;
  };
  const auto of_spare = told(spare, "AgentSilent", Duration(60'000));
  CHECK(of_spare.find("there is none on this node") != std::string::npos);
  CHECK(of_spare.find("The machine is not to blame") != std::string::npos);
  const auto of_first = told(first, "KubeletSilent", Duration(120'000));
  CHECK(of_first.find("the agent of this node reports") != std::string::npos);
  const auto of_second = told(second, "NodeSilent", Duration(60'000));
  CHECK(of_second.find("its slurmd answers") != std::string::npos);
  CHECK(told_nodes("agent", "AGENT_SILENT") == 1);
  CHECK(told_nodes("node", "KUBELET_SILENT") == 1);
  CHECK(told_nodes("node", "NODE_SILENT") == 1);

  // Whose GPUs are well and watched is known to be well, and nobody takes a machine away for silence like this.
  CHECK(io::string_at(health_of(first), {"status", "verdict"}) == "Healthy");
  CHECK(kube::condition_status(node_object(first), "AcceleratorHealthy") == "True");
  CHECK(event_of(first, "AgentSilent", began) == std::nullopt);
  CHECK(event_of(spare, "KubeletSilent", began) == std::nullopt);
  CHECK(value(scrape_controller(), R"(homeostat_breaker_open{pool="gpu"})") == 0);
  CHECK(repairs_ever() == repairs_before);

  first_kubelet.go_on();
  second_kubelet.go_on();
  no_agent.lift();
  // A change makes Kubernetes try again at once what was refused.
  world.kubectl({"-n", system_ns, "annotate", "daemonset/homeostat-agent", "--overwrite", "homeostat.dev/e2e=again"});
  world.wait("nobody is told to be silent any more", Duration(45'000), [&] {
    const auto series = scrape_controller();
    return std::ranges::none_of(series, [](const auto& one) {
      return one.first.starts_with("homeostat_detector_nodes{component=\"agent\"") ||
             one.first.starts_with("homeostat_detector_nodes{component=\"node\"");
    });
  });
  for (const auto& node : {first, second, spare}) {
    // A kubelet that goes on first finds that it has not looked at its pods for long.
    world.wait(node + " is ready", Duration(30'000),
               [&] { return kube::condition_status(node_object(node), "Ready") == "True"; });
    CHECK(agent_process(node) > 0);
  }
  world.kubectl({"-n", system_ns, "annotate", "daemonset/homeostat-agent", "homeostat.dev/e2e-"});
  world.wait_until_whole();
  CHECK(repairs_ever() == repairs_before);
  CHECK(world.machines_made() == made_before);
}

namespace {

// As the detector would: one condition of the Node's status, and no other.
void set_condition(const std::string& node, const std::string& type, const std::string& status,
                   const std::string& reason) {
  const auto at = kube::meta_time(World::get().context().now());
  boost::json::object body;
  io::set_at(body, {"status", "conditions"},
             boost::json::array{boost::json::object{{"type", type},
                                                    {"status", status},
                                                    {"reason", reason},
                                                    {"message", "set by the end-to-end test"},
                                                    {"lastHeartbeatTime", at},
                                                    {"lastTransitionTime", at}}});
  must(World::get().client().patch(kube::resources::nodes, "", node, kube::PatchType::strategic_merge, body, "status"));
}

void remove_condition(const std::string& node, const std::string& type) {
  boost::json::object body;
  io::set_at(body, {"status", "conditions"},
             boost::json::array{boost::json::object{{"type", type}, {"$patch", "delete"}}});
  must(World::get().client().patch(kube::resources::nodes, "", node, kube::PatchType::strategic_merge, body, "status"));
}

// The pool tells what it would do, and does nothing.
struct DryRun {
  DryRun() { set("true"); }
  ~DryRun() { set("false"); }
  static void set(const std::string& on) {
    auto& world = World::get();
    const auto done = world.kubectl({"patch", "nodepool", world.context().names().pool, "--type=merge", "-p",
                                     R"({"spec":{"healing":{"dryRun":)" + on + "}}}"});
    CHECK_MESSAGE(done.code == 0, done.err);
  }
};

}  // namespace

//  detector               condition                 status  reason                        policy says
//  node-problem-detector  KernelDeadlock            True    DockerHung                    kernel KERNEL_DEADLOCK, watch
//  EKS agent              AcceleratedHardwareReady  False   NvidiaXID31Error              gpu-xid OTHER_DETECTOR, watch
//  AMD GPU operator       AMDGPUHang                True    …                             amd-ras OTHER_DETECTOR, watch
//  NVSentinel             SysLogsGPUFallenOff       True    SysLogsGPUFallenOffIsNotHealthy  gpu-lost 79, replace-node
TEST_CASE("what another detector says of a node becomes the fault that the policy names, and clears again") {
  auto& world = World::get();
  const auto node = whole_pool().spare;
  const auto repairs_before = repairs_ever();
  const auto began = world.context().now();
  const PolicyGuard policy([](auto& spec) {
    spec["startup_s"] = 0;
    for (auto& rule : spec["conditions"].as_array()) rule.as_object()["for_s"] = 1;
  });
  const DryRun dry_run;
  struct Case {
    const char *type, *sick, *reason, *component, *code, *repair_class, *event, *message;
  };
  const Case cases[] = {{"KernelDeadlock", "True", "DockerHung", "kernel", "KERNEL_DEADLOCK", "watch", "KernelDeadlock",
                         "Node condition KernelDeadlock is True (DockerHung)"},
                        {"AcceleratedHardwareReady", "False", "NvidiaXID31Error", "gpu-xid", "OTHER_DETECTOR", "watch",
                         "OtherDetector", "Node condition AcceleratedHardwareReady is False (NvidiaXID31Error)"},
                        {"AMDGPUHang", "True", "AMDGPUHang", "amd-ras", "OTHER_DETECTOR", "watch", "OtherDetector",
                         "Node condition AMDGPUHang is True (AMDGPUHang)"},
                        {"SysLogsGPUFallenOff", "True", "SysLogsGPUFallenOffIsNotHealthy", "gpu-lost", "79",
                         "replace-node", "RepairDryRun", "gpu-lost 79"}};
  for (const auto& c : cases) set_condition(node, c.type, c.sick, c.reason);
  for (const auto& c : cases) {
    CAPTURE(c.type);
    world.wait(fmt::format("{} is taken for {} {}", c.type, c.component, c.code), Duration(30'000),
               [&] { return told_nodes(c.component, c.code, c.repair_class) == 1; });
    world.wait(fmt::format("{} is told to people", c.type), Duration(10'000), [&] {
      const auto events = events_of(node, began);
      return std::ranges::any_of(events, [&](const Event& event) {
        return event.reason == c.event && event.message.find(c.message) != std::string::npos;
      });
    });
  }
  // What the agent itself sees is its own matter.
  CHECK(io::string_at(health_of(node), {"status", "verdict"}) == "Healthy");
  std::set<std::string> messages;
  for (const auto& event : events_of(node, began)) CHECK_MESSAGE(messages.insert(event.message).second, event.message);

  for (const auto& c : cases)
    set_condition(node, c.type, c.sick == std::string_view("True") ? "False" : "True", "Recovered");
  for (const auto& c : cases)
    world.wait(fmt::format("{} is over", c.type), Duration(15'000),
               [&] { return told_nodes(c.component, c.code, c.repair_class) == 0; });
  for (const auto& c : cases) remove_condition(node, c.type);
  CHECK(repairs_ever() == repairs_before);
}

namespace {

constexpr const char* stepping_job = "homeostat-e2e-steps";
// Steps ten times a second and says so, on two nodes.
constexpr const char* stepping_script = R"sh(#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=5
srun python3 -c '
import time, homeostat_steps
for step in range(3000):
    homeostat_steps.step(step)
    time.sleep(0.1)'
)sh";

struct SteppingJob {
  SteppingJob() {
    auto& world = World::get();
    const auto helper = must(io::read_file(world.places().sources + "/examples/homeostat_steps.py"));
    must(cli::remote(world.login(), "mkdir -p steps && cat >steps/homeostat_steps.py", Duration(60'000), {}, helper));
    must(cli::remote(world.login(), "cat >steps/job.sh", Duration(60'000), {}, stepping_script));
    id = world.ssh(fmt::format("cd steps && sbatch --parsable --job-name={} job.sh", stepping_job));
    id.erase(id.find_last_not_of(" \n") + 1);
  }
  ~SteppingJob() { cli::cancel_jobs_named(World::get().login(), stepping_job); }
  std::string id;
};

}  // namespace

//  node ==info== Slurm node ==job== job;  fault_total of a fault == its count in NodeHealth == what the Node's
//  condition says
TEST_CASE("a Prometheus finds node, Slurm node, job and fault as series that agree with NodeHealth") {
  auto& world = World::get();
  const auto nodes = whole_pool();
  const auto& node = nodes.working.front();
  make_sound(node);
  const auto repairs_before = repairs_ever();
  const auto began = world.context().now();
  const SteppingJob job;
  const auto job_series = [&](const std::string& of) {
    return fmt::format(R"(homeostat_node_job{{node="{0}",slurm_node="{0}",slurm_job="{1}"}})", of, job.id);
  };
  const auto fault_series = std::string(R"(homeostat_fault_total{component="gpu-xid",code="63",device="0000:17:00"})");
  const auto faults_before = value(scrape_agent(node), fault_series);
  const std::string remap = "Row Remapper: New row marked for remapping, reset gpu to activate.";
  say(node, std::vector(3, xid_line(0, 63, remap)));
  world.wait("the fault is in NodeHealth", Duration(15'000), [&] { return occurrences(health_of(node)) == 3; });
  for (const auto& of : nodes.working)
    world.wait("the job of " + of + " is a series", Duration(45'000),
               [&] { return value(scrape_agent(of), job_series(of)) == 1; });

  const auto series = scrape_agent(node);
  CHECK(value(series, fault_series) - faults_before == 3);
  CHECK(value(series, fmt::format(R"(homeostat_node_info{{node="{0}",slurm_node="{0}",pool="{1}"}})", node,
                                  world.context().names().pool)) == 1);
  CHECK(world.ssh("sinfo --noheader --Node --format=%N").find(node) != std::string::npos);
  // Prometheus puts job and instance on every series itself, and renames ours.
  for (const auto& [name, ignored] : series)
    for (const auto* taken : {"{job=", ",job=", "{instance=", ",instance="})
      CHECK_MESSAGE(name.find(taken) == std::string::npos, name);

  const auto health = health_of(node);
  const auto verdict = io::string_at(health, {"status", "verdict"});
  CHECK(verdict == "Degraded");
  CHECK(value(series, fmt::format(R"(homeostat_node_verdict{{verdict="{}"}})", verdict)) == 1);
  double open = 0;
  for (const auto& [name, count] : series)
    if (name.starts_with("homeostat_incident_open{")) open += count;
  CHECK(open == static_cast<double>(io::array_at(health, {"status", "incidents"}).size()));
  const auto object = node_object(node);
  const auto* condition = kube::find_condition(object, "AcceleratorHealthy");
  REQUIRE(condition != nullptr);
  CHECK(io::string_at(*condition, {"status"}) == "True");  // it works, and is not whole
  CHECK(io::string_at(*condition, {"reason"}) == io::string_at(health, {"status", "reason"}));
  CHECK(io::string_at(*condition, {"message"}) == io::string_at(health, {"status", "message"}));
  std::int64_t opened = 0;
  for (const auto& event : events_of(node, began)) opened += event.reason == "IncidentOpened" ? event.count : 0;
  CHECK(opened == 1);
  CHECK(repairs_ever() == repairs_before);  // no new jobs should start there, and the one that runs goes on

  make_sound(node);
  CHECK(value(scrape_agent(node), fault_series) - faults_before == 3);  // a counter falls only with its agent
  world.wait("the condition has no fault to name", Duration(15'000), [&] {
    const auto now = node_object(node);
    const auto* cleared = kube::find_condition(now, "AcceleratorHealthy");
    return cleared != nullptr &&
           io::string_at(*cleared, {"reason"}) == io::string_at(health_of(node), {"status", "reason"});
  });
}
