// Group "detect": what watching a node costs, and how soon a kernel line is seen in Kubernetes. One agent as a process
// of its own against the lab's API server, for a Node that exists in Kubernetes only and belongs to no pool, so that
// nothing is repaired. It follows a kernel log in a file, asks 8 fake GPUs through the fake NVML, and reads a fake
// sysfs with 8 InfiniBand ports and 8 network cards. Beside it, where bench/build-peer has made it,
// node-problem-detector in its usual form: the real /dev/kmsg to a Node condition.
#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "cli/bring_up.hpp"
#include "io/fake_sys.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "io/process.hpp"
#include "kube/connect.hpp"
#include "kube/kubeconfig.hpp"
#include "kube/meta.hpp"
#include "report.hpp"

using namespace homeostat;

namespace {

constexpr const char* node_name = "homeostat-bench-detect";
constexpr const char* peer_node_name = "homeostat-bench-peer";
constexpr int peer_runs = 5;
constexpr int gpus = 8, ports = 8, pairs = 100, storm_lines = 10'000, classified_lines = 1'000'000;
constexpr Duration settle{15'000}, idle{60'000}, seen_limit{5'000}, storm_watch{15'000};

Result<void> write(const std::string& path, std::string_view text) { return io::write_file(path, text); }

std::string address(int gpu) { return fmt::format("0000:{:02x}:00", 0x17 + 0x10 * gpu); }

std::string nvml_state() {
  boost::json::array list;
  for (int i = 0; i < gpus; ++i)
    list.push_back(boost::json::object{{"index", i},
                                       {"uuid", fmt::format("GPU-00000000-0000-0000-0000-00000000000{}", i)},
                                       {"pci", address(i) + ".0"},
                                       {"state", "ok"},
                                       {"temperature_c", 40},
                                       {"utilization", 0}});
  return io::to_text(boost::json::object{{"driver", "550.144.03"}, {"gpus", list}});
}

// Appends to a kernel log of records, as the kernel would.
class KernelLog {
 public:
  explicit KernelLog(std::string path) : path_(std::move(path)) {}
  Result<void> add(const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines) {
      ++sequence_;
      text += fmt::format("3,{},{},-;{}\n", sequence_, 7'200'000'000ULL + sequence_ * 1000, line);
    }
    return io::append_file(path_, text);
  }

 private:
  std::string path_;
  std::uint64_t sequence_ = 0;
};

// Every version of the node's NodeHealth, as the API server announces it.
class HealthWatch {
 public:
  explicit HealthWatch(kube::ClusterConfig config)
      : thread_([this, config = std::move(config)](std::stop_token stop) { run(config, stop); }) {}

  // Until the finding is there, or gone. nullopt: it was not, within the limit.
  std::optional<std::chrono::steady_clock::time_point> await(const std::string& finding, bool there, Duration limit) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [&] { return findings_.contains(finding) == there && versions_ > 0; }))
      return {};
    return at_;
  }
  int versions() const {
    std::lock_guard lock(mutex_);
    return versions_;
  }
  std::int64_t count_of(const std::string& component) const {
    std::lock_guard lock(mutex_);
    const auto found = counts_.find(component);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  void run(const kube::ClusterConfig& config, std::stop_token stop) {
    io::SystemClock clock;
    io::SystemRandom random;
    const auto client = kube::make_client(config, nullptr, clock, random);
    while (!stop.stop_requested()) {
      const auto name = std::string("metadata.name=") + node_name;
      const auto list = client->list(kube::resources::node_healths, "", {.field_selector = name});
      if (!list) continue;
      for (const auto& item : list->items) take(item);
      kube::WatchOptions options;
      options.field_selector = name;
      options.resource_version = list->resource_version;
      (void)client->watch(
          kube::resources::node_healths, "", options,
          [&](kube::WatchEvent&& event) { return take(event.object), !stop.stop_requested(); }, stop);
    }
  }
  void take(const kube::Object& object) {
    const auto now = std::chrono::steady_clock::now();
    std::lock_guard lock(mutex_);
    at_ = now;
    ++versions_;
    findings_.clear();
    counts_.clear();
    for (const auto& finding : io::array_at(object, {"status", "findings"})) {
      findings_.insert(io::string_at(finding, {"id"}));
      counts_[io::string_at(finding, {"component"})] += io::int_at(finding, {"count"}, 1);
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::steady_clock::time_point at_{};
  std::set<std::string> findings_;
  std::map<std::string, std::int64_t> counts_;
  int versions_ = 0;
  std::jthread thread_;
};

double rss_mib(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/smaps_rollup", pid));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Rss:")) return std::strtod(line.c_str() + 4, nullptr) / 1024;
  return -1;
}

// User and system time of a process so far. Source: proc(5), fields 14 and 15 of stat.
double cpu_s(pid_t pid) {
  const auto stat = io::read_file(fmt::format("/proc/{}/stat", pid)).value_or("");
  std::istringstream words(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string word;
  double ticks = 0;
  for (int field = 3; words >> word && field <= 15; ++field)
    if (field >= 14) ticks += std::strtod(word.c_str(), nullptr);
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

struct Bench {
  cli::Context context{cli::find_places(), {}};
  cli::Teller teller;
  std::string folder;
  std::optional<KernelLog> log;
  std::optional<io::Process> agent;
  std::unique_ptr<HealthWatch> watch;
  bench::Measure seen{"detect.line_to_nodehealth_ms", "ms", 100, {}, 20}, rss{"detect.agent_rss_mib", "MiB", 12},
      cpu{"detect.agent_idle_core_percent", "%", 0.2}, lines{"detect.million_lines_cpu_s", "s", 2},
      writes{"detect.storm_api_writes", "", 8}, growth{"detect.storm_rss_growth_mib", "MiB", 1},
      counted{"detect.storm_lines_not_counted", "", 0}, peer_seen{"detect.peer_npd_line_to_condition_ms", "ms"},
      peer_rss{"detect.peer_npd_rss_mib", "MiB"};
};

Result<void> make_node(Bench& b) {
  auto client = b.context.client();
  if (!client) return std::unexpected(client.error());
  (void)(*client)->remove(kube::resources::node_healths, "", node_name, {});
  (void)(*client)->remove(kube::resources::nodes, "", node_name, {});
  auto made = (*client)->create(kube::resources::nodes, "", kube::new_object(kube::resources::nodes, "", node_name));
  if (!made) return std::unexpected(made.error());
  return {};
}

Result<void> start_agent(Bench& b) {
  const auto& places = b.context.places();
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"kmsg", ""}, {"boot_id", "bench-boot\n"}, {"nvml.json", nvml_state()}})
    if (auto done = write(b.folder + "/" + name, text); !done) return done;
  b.log.emplace(b.folder + "/kmsg");
  io::FakeSys sys(b.folder + "/sys", b.folder + "/proc");
  sys.add_machine(0, ports, ports, 4);
  io::SpawnOptions options;
  options.env = {"HOMEOSTAT_FAKE_NVML=" + b.folder + "/nvml.json", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  options.stdout_path = options.stderr_path = b.folder + "/agent.log";
  auto agent = io::Process::spawn(
      {places.programs + "/homeostat-agent", "run", std::string("--node=") + node_name, "--kmsg=" + b.folder + "/kmsg",
       "--boot-id=" + b.folder + "/boot_id", "--state=" + b.folder + "/state",
       "--nvml=" + places.programs + "/../lib/homeostat/nvml/libnvidia-ml.so.1", "--kubeconfig=" + places.kubeconfig(),
       fmt::format("--expected-gpus={}", gpus), "--sys=" + b.folder + "/sys", "--proc=" + b.folder + "/proc",
       "--steps=" + b.folder + "/steps", "--metrics=127.0.0.1:19477"},
      options);
  if (!agent) return std::unexpected(agent.error());
  b.agent.emplace(std::move(*agent));
  return {};
}

Result<void> begin(Bench& b) {
  if (cli::up(b.context, {}, b.teller) != 0) return fail(ErrorKind::internal, "the lab did not come up");
  b.folder = b.context.places().state + "/bench-detect";
  if (auto gone = io::remove_tree(b.folder); !gone) return gone;
  if (auto made = io::make_folders(b.folder + "/state"); !made) return made;
  if (auto node = make_node(b); !node) return node;
  auto config = kube::load_kubeconfig({.paths = {b.context.places().kubeconfig()}, .context = ""});
  if (!config) return std::unexpected(config.error());
  b.watch = std::make_unique<HealthWatch>(std::move(*config));
  if (auto started = start_agent(b); !started) return started;
  b.context.clock().sleep(settle, {});
  if (b.watch->versions() == 0)
    return fail(ErrorKind::internal, "the agent wrote no NodeHealth; its log: " + b.folder + "/agent.log");
  return {};
}

// Resting: nothing is wrong, every sensor is asked at its pace.
Result<void> rest(Bench& b) {
  b.teller.say("the agent rests for a minute");
  const auto before = cpu_s(b.agent->pid());
  const auto from = b.context.clock().monotonic();
  b.context.clock().sleep(idle, {});
  const auto wall_s = std::chrono::duration<double>(b.context.clock().monotonic() - from).count();
  b.cpu.runs.push_back((cpu_s(b.agent->pid()) - before) / wall_s * 100);
  b.rss.runs.push_back(rss_mib(b.agent->pid()));
  return {};
}

// The driver asks for a reset of a GPU and, told, takes it back: a fault appears and goes, in turn on each GPU.
Result<void> latency(Bench& b) {
  b.teller.say(fmt::format("{} kernel lines, one after the other", 2 * pairs));
  for (int i = 0; i < pairs; ++i) {
    const auto gpu = address(i % gpus);
    for (const bool sick : {true, false}) {
      const auto line = fmt::format("NVRM: Xid (PCI:{}): 154, GPU recovery action changed from {} to {}", gpu,
                                    sick ? "0x0 (None)" : "0x1 (GPU Reset Required)",
                                    sick ? "0x1 (GPU Reset Required)" : "0x0 (None)");
      const auto from = std::chrono::steady_clock::now();
      if (auto added = b.log->add({line}); !added) return added;
      const auto at = b.watch->await("gpu-xid:154/0x1@" + gpu, sick, seen_limit);
      if (!at) return fail(ErrorKind::timeout, "the API server did not show: " + line);
      b.seen.runs.push_back(std::chrono::duration<double, std::milli>(*at - from).count());
      // Apart from each other, as faults are; not in step with anything periodic.
      b.context.clock().sleep(Duration(60 + i * 7 % 90), {});
    }
  }
  return {};
}

Result<void> storm(Bench& b) {
  b.teller.say(fmt::format("a storm of {} XID lines within a second", storm_lines));
  const auto rss_before = rss_mib(b.agent->pid());
  const int versions_before = b.watch->versions();
  for (int burst = 0; burst < 100; ++burst) {
    std::vector<std::string> lines;
    lines.reserve(storm_lines / 100);
    for (int i = 0; i < storm_lines / 100; ++i)
      lines.push_back(
          fmt::format("NVRM: Xid (PCI:{}): 43, pid={}, name=python3, Ch 00000008", address(i % gpus), 1000 + i));
    if (auto added = b.log->add(lines); !added) return added;
    b.context.clock().sleep(Duration(9), {});
  }
  b.context.clock().sleep(storm_watch, {});
  // A sign of life every ten seconds is no answer to the storm.
  const int heartbeats = static_cast<int>(storm_watch.count() / 10'000);
  b.writes.runs.push_back(std::max(0, b.watch->versions() - versions_before - heartbeats));
  b.growth.runs.push_back(std::max(0.0, rss_mib(b.agent->pid()) - rss_before));
  b.counted.runs.push_back(static_cast<double>(storm_lines - b.watch->count_of("gpu-xid")));
  return {};
}

Result<void> digest(Bench& b) {
  b.teller.say("a million ordinary kernel lines");
  static constexpr std::string_view ordinary[] = {
      "[    1.204512] pci 0000:00:1f.0: [8086:a1c1] type 00 class 0x060100",
      "[   12.733410] systemd[1]: Started Journal Service.",
      "[   88.120011] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
      "<6>[  901.220004] docker0: port 1(veth1c2) entered blocking state",
      "[ 3021.556677] audit: type=1400 audit(1764485374.123:42): apparmor=\"STATUS\" operation=\"profile_load\"",
      "[ 4410.000001] nvidia-uvm: Loaded the UVM driver, major device number 508.",
      "[ 5120.771102] EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode.",
      "[ 6001.100200] perf: interrupt took too long (2512 > 2500), lowering kernel.perf_event_max_sample_rate"};
  std::string text;
  text.reserve(classified_lines * 80UL);
  for (int i = 0; i < classified_lines; ++i)
    text.append(ordinary[static_cast<size_t>(i) % std::size(ordinary)]).append("\n");
  const auto path = b.folder + "/ordinary.log";
  if (auto done = write(path, text); !done) return done;
  io::SpawnOptions options;
  options.stdin_path = path;
  options.stdout_path = "/dev/null";
  rusage before{}, after{};
  ::getrusage(RUSAGE_CHILDREN, &before);
  auto classify = io::Process::spawn({b.context.places().programs + "/homeostat-agent", "classify"}, options);
  if (!classify) return std::unexpected(classify.error());
  const auto status = classify->wait(Duration(60'000));
  if (!status || !status->ok()) return fail(ErrorKind::internal, "homeostat-agent classify did not end well");
  ::getrusage(RUSAGE_CHILDREN, &after);
  const auto seconds = [](const rusage& r) {
    return static_cast<double>(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           static_cast<double>(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
  };
  b.lines.runs.push_back(seconds(after) - seconds(before));
  return {};
}

// What node-problem-detector is told: one rule that makes a condition of an XID.
constexpr const char* peer_config = R"({"plugin": "kmsg", "logPath": "/dev/kmsg", "lookback": "0s", "bufferSize": 10,
  "source": "bench", "metricsReporting": false,
  "conditions": [{"type": "BenchXid", "reason": "None", "message": "no XID"}],
  "rules": [{"type": "permanent", "condition": "BenchXid", "reason": "Xid", "pattern": "homeostat bench: Xid .*"}]})";

bool peer_says(kube::Client& client, std::string_view status) {
  const auto node = client.get(kube::resources::nodes, "", peer_node_name);
  if (!node) return false;
  for (const auto& condition : io::array_at(*node, {"status", "conditions"}))
    if (io::string_at(condition, {"type"}) == "BenchXid") return io::string_at(condition, {"status"}) == status;
  return false;
}

// One run: a fresh peer, a line in /dev/kmsg, how long until the Node's condition turned.
Result<void> peer_once(Bench& b, kube::Client& client, const std::string& program, const std::string& server) {
  (void)client.remove(kube::resources::nodes, "", peer_node_name, {});
  auto node = client.create(kube::resources::nodes, "", kube::new_object(kube::resources::nodes, "", peer_node_name));
  if (!node) return std::unexpected(node.error());
  io::SpawnOptions options;
  options.stdout_path = options.stderr_path = b.folder + "/peer.log";
  auto peer = io::Process::spawn(
      {program, "--config.system-log-monitor=" + b.folder + "/peer.json",
       std::string("--hostname-override=") + peer_node_name, "--port=0", "--prometheus-port=0",
       "--apiserver-override=" + server + "?inClusterConfig=false&auth=" + b.context.places().kubeconfig()},
      options);
  if (!peer) return std::unexpected(peer.error());
  const auto until = [&](std::string_view status, Duration limit) {
    const auto deadline = b.context.clock().monotonic() + limit;
    while (!peer_says(client, status) && b.context.clock().monotonic() < deadline)
      b.context.clock().sleep(Duration(5), {});
    return peer_says(client, status);
  };
  const bool ready = until("False", Duration(30'000));
  const auto from = std::chrono::steady_clock::now();
  if (ready) std::ofstream("/dev/kmsg") << "homeostat bench: Xid 79\n";
  const bool seen = ready && until("True", Duration(30'000));
  const auto took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
  if (seen) b.peer_seen.runs.push_back(took), b.peer_rss.runs.push_back(rss_mib(peer->pid()));
  peer->kill(SIGTERM);
  if (!peer->wait(Duration(5'000))) peer->kill(SIGKILL);
  if (!seen)
    return fail(ErrorKind::timeout, "node-problem-detector set no condition; its log: " + b.folder + "/peer.log");
  return {};
}

// For comparison only: without the peer's program there is nothing to compare with.
Result<void> peer(Bench& b) {
  const char* cache = std::getenv("HOMEOSTAT_CACHE");
  const auto program = std::string(cache != nullptr ? cache : "/var/cache/homeostat") + "/peer/node-problem-detector";
  if (!io::exists(program)) {
    b.teller.say("node-problem-detector is not there to compare with: bench/build-peer makes it");
    return {};
  }
  auto client = b.context.client();
  auto config = kube::load_kubeconfig({.paths = {b.context.places().kubeconfig()}, .context = ""});
  if (!client || !config) return std::unexpected(client ? config.error() : client.error());
  if (auto done = write(b.folder + "/peer.json", peer_config); !done) return done;
  b.teller.say(fmt::format("node-problem-detector, {} times", peer_runs));
  for (int i = 0; i < peer_runs; ++i)
    if (auto done = peer_once(b, **client, program, config->server); !done) return done;
  (void)(*client)->remove(kube::resources::nodes, "", peer_node_name, {});
  return {};
}

Result<void> measure(Bench& b) {
  if (auto begun = begin(b); !begun) return begun;
  for (auto* part : {rest, latency, storm, digest, peer})
    if (auto done = part(b); !done) return done;
  return {};
}

void tidy(Bench& b) {
  if (b.agent) {
    b.agent->kill(SIGTERM);
    if (!b.agent->wait(Duration(5'000))) b.agent->kill(SIGKILL);
  }
  b.watch.reset();
  if (auto client = b.context.client()) {
    (void)(*client)->remove(kube::resources::node_healths, "", node_name, {});
    (void)(*client)->remove(kube::resources::nodes, "", node_name, {});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_detect FILE    (the JSON goes there; see: make bench)\n");
    return 2;
  }
  Bench b;
  const auto done = measure(b);
  tidy(b);
  if (!done) {
    fmt::print(stderr, "bench_detect: {}\n", done.error().message);
    return 1;
  }
  std::vector<bench::Measure> measures = {b.seen, b.rss, b.cpu, b.lines, b.writes, b.growth, b.counted};
  if (!b.peer_seen.runs.empty()) measures.insert(measures.end(), {b.peer_seen, b.peer_rss});
  fmt::print("\n{}", bench::table(measures));
  if (auto written = io::write_file(argv[1], bench::to_json(measures) + "\n"); !written) {
    fmt::print(stderr, "bench_detect: {}\n", written.error().message);
    return 1;
  }
  return bench::all_hold(measures) ? 0 : 1;
}
