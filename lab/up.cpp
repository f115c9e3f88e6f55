#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "io/clock.hpp"
#include "io/files.hpp"
#include "io/process.hpp"
#include "lab/images.hpp"
#include "lab/lifecycle.hpp"
#include "lab/network.hpp"
#include "lab/supervisor.hpp"
#include "lab/zones.hpp"

#ifndef HOMEOSTAT_SOURCE_DIR
#define HOMEOSTAT_SOURCE_DIR ""
#endif

namespace homeostat::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr long long first_start_bytes = 4ll << 30;  // image template, databases and a few machines
constexpr auto start_limit = std::chrono::minutes(10);

int complain(int code, const std::string& message) {
  std::fprintf(stderr, "homeostat-lab: %s\n", message.c_str());
  return code;
}

class Teller {
 public:
  void say(const std::string& text) const {
    auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
    std::printf("[%6.1fs] %s\n", static_cast<double>(elapsed.count()) / 1000, text.c_str());
    std::fflush(stdout);
  }

 private:
  Clock::time_point start_ = Clock::now();
};

// The scripts stand beside build/ when this program runs from a work tree.
std::string script(const LabConfig& config, const std::string& name) {
  auto beside = config.program.substr(0, config.program.rfind('/')) + "/../../scripts/" + name;
  return io::exists(beside) ? beside : std::string(HOMEOSTAT_SOURCE_DIR) + "/scripts/" + name;
}

// The folder that a build script made, or the sentence about how to make it.
Result<std::string> built_folder(const LabConfig& config, const std::string& name, const std::string& proof) {
  auto path = script(config, name);
  if (!io::exists(path))
    return fail(ErrorKind::not_found,
                "scripts/" + name + " is not beside this program; say where its result is with a flag (see --help)");
  auto result = io::run({path, "--print-path"}, {.timeout = Duration(120'000)});
  if (!result) return std::unexpected(result.error());
  auto folder = result->out;
  while (!folder.empty() && folder.back() == '\n') folder.pop_back();
  if (!result->status.ok()) {
    auto why = result->err;
    while (!why.empty() && why.back() == '\n') why.pop_back();
    return fail(ErrorKind::not_found, why.empty() ? "scripts/" + name + " --print-path failed" : why);
  }
  if (!io::exists(folder + "/" + proof))
    return fail(ErrorKind::not_found, folder + " is not built yet; build it with: scripts/" + name);
  return folder;
}

// A folder that was not named by a flag: the newest build, else what the lab had before.
Result<void> choose_folder(std::string& folder, const LabConfig& config, const std::string& before,
                           const char* script_name, const char* proof) {
  if (!folder.empty()) {
    if (!io::exists(folder + "/" + proof))
      return fail(ErrorKind::not_found, folder + " holds no " + proof + "; build it with: scripts/" + script_name);
    char* real = ::realpath(folder.c_str(), nullptr);  // the supervisor works in another folder
    if (real != nullptr) folder = real;
    std::free(real);
    return {};
  }
  auto built = built_folder(config, script_name, proof);
  // Archives of images may be gone by now: what was made of them is kept elsewhere, and the supervisor knows where.
  if (!built && before.empty()) return std::unexpected(built.error());
  folder = built ? *built : before;
  return {};
}

// known: what the lab was started with before; empty folders for a first start.
Result<void> fill_in(LabConfig& config, const LabConfig& known) {
  char own[4096];
  ssize_t size = ::readlink("/proc/self/exe", own, sizeof own);
  if (size <= 0) return fail(ErrorKind::internal, "cannot find this program's own path");
  config.program.assign(own, static_cast<size_t>(size));
  if (config.cache.empty()) config.cache = default_cache();
  if (auto chosen = choose_folder(config.kubernetes, config, known.kubernetes, "build-kubernetes", "kube"); !chosen)
    return chosen;
  if (auto chosen = choose_folder(config.images, config, known.images, "build-images", "images.json"); !chosen)
    return chosen;
  auto nvml = config.program.substr(0, config.program.rfind('/')) + "/../lib/homeostat/nvml/libnvidia-ml.so.1";
  char* real = ::realpath(nvml.c_str(), nullptr);
  config.nvml = real != nullptr ? real : "";
  std::free(real);
  auto plan = make_plan(config.ranges);
  if (!plan) return std::unexpected(plan.error());
  config.plan = *plan;
  return {};
}

// What stands in the way of a first start; 0: nothing.
int preflight(const LabConfig& config) {
  if (::geteuid() != 0) return complain(exit_missing, "the lab makes namespaces, mounts and cgroups: run it as root");
  if (auto missing = missing_programs(); !missing.empty()) {
    for (const auto& sentence : missing) complain(exit_missing, sentence);
    return exit_missing;
  }
  for (const char* hidden :
       {"/run/", "/srv/", "/dev/", "/proc/", "/sys/", "/var/log/", "/var/lib/kubelet/", "/var/lib/cni/"})
    if ((config.state + "/").starts_with(hidden))
      return complain(exit_usage, "the state folder may not be below " + std::string(hidden) +
                                      ": machines have their own one there");
  if (config.state.size() > 100)
    return complain(exit_usage, "the path of the state folder is longer than 100 characters");
  for (const auto& folder : {config.state, config.cache}) {
    auto free = io::free_bytes(folder);
    if (free >= 0 && free < first_start_bytes)
      return complain(exit_missing,
                      "only " + std::to_string(free >> 20) + " MiB are free under " + folder + "; the lab needs " +
                          std::to_string(first_start_bytes >> 20) +
                          " MiB. Free some space, or choose other folders with HOMEOSTAT_STATE and HOMEOSTAT_CACHE");
  }
  auto obstacles = network_obstacles(config);
  if (!obstacles) return complain(exit_failed, obstacles.error().message);
  for (const auto& sentence : *obstacles) complain(exit_refused, sentence);
  return obstacles->empty() ? 0 : exit_refused;
}

Result<ProgressReport> read_progress(const LabConfig& config) {
  auto text = io::read_file(config.path("progress.json"));
  if (!text) return std::unexpected(text.error());
  return parse_progress(*text);
}

Result<io::Process> start_supervisor(const LabConfig& config) {
  ::unlink(config.path("progress.json").c_str());
  io::SpawnOptions spawn;
  spawn.cwd = "/";
  spawn.stdout_path = spawn.stderr_path = config.path("serve.log");
  spawn.new_session = true;
  struct stat info;
  constexpr off_t log_limit = 16 << 20;
  if (::stat(spawn.stdout_path.c_str(), &info) == 0 && info.st_size > log_limit)
    ::rename(spawn.stdout_path.c_str(), (spawn.stdout_path + ".1").c_str());
  return io::Process::spawn({config.program, "serve", "--state", config.state}, spawn);
}

int interrupted(const LabConfig& config, bool first_start) {
  if (!first_start) return complain(exit_failed, "interrupted; the lab was there before and is left as it is");
  std::fprintf(stderr, "homeostat-lab: interrupted; taking down what was started\n");
  auto report = take_down(config);
  if (!report) return complain(exit_failed, report.error().message);
  for (const auto& left : report->left) complain(exit_failed, "left behind: " + left);
  return exit_failed;
}

int follow(const LabConfig& config, io::Process& supervisor, bool first_start, const Teller& teller,
           std::stop_token stop) {
  io::SystemClock clock;
  ProgressReport seen;
  auto deadline = Clock::now() + start_limit;
  while (!stop.stop_requested()) {
    auto report = read_progress(config);
    if (report) {
      for (const auto& line : news(seen, *report)) teller.say(line);
      seen = *report;
      if (!report->error.empty())
        return complain(exit_failed, "the lab did not come up: " + report->error + ". Look at " +
                                         config.path("serve.log") + "; take it down with: homeostat-lab down");
      if (report->ready) {
        teller.say("the lab is up. Try: KUBECONFIG=" + config.path("kubeconfig") + " " + config.tool("kubectl") +
                   " get nodes");
        return exit_good;
      }
    }
    if (auto ended = supervisor.wait(Duration(0)))
      return complain(exit_failed, "the supervisor ended with " + io::to_string(*ended) + "; its log is " +
                                       config.path("serve.log"));
    if (Clock::now() > deadline)
      return complain(exit_failed, "the lab was not ready after 10 minutes; look at " + config.path("serve.log"));
    clock.sleep(Duration(100), stop);
  }
  return interrupted(config, first_start);
}

// Newly built images are brought into a lab that runs: what was built last is what runs next.
int up_already(const LabConfig& known, LabConfig wanted) {
  auto report = read_progress(known);
  bool ready = report && report->ready;
  std::printf("The lab in %s is %s already. See: homeostat-lab status\n", known.state.c_str(),
              ready ? "up" : "coming up");
  wanted.program = known.program;
  bool named = !wanted.images.empty();
  auto chosen = choose_folder(wanted.images, wanted, known.images, "build-images", "images.json");
  if (!chosen) return named ? complain(exit_missing, chosen.error().message) : exit_good;
  if (!ready || wanted.images == known.images) return exit_good;
  auto loaded = load_images(known, wanted.images);
  return loaded ? exit_good : complain(exit_failed, "the new images could not be loaded: " + loaded.error().message);
}

// The first lab after a while is the moment to let go of templates that nobody uses any more.
void prune_when_alone(const LabConfig& config) {
  for (const auto& name : io::list_folder("/run/netns"))
    if (name.ends_with("-" + std::string(control_plane_zone))) return;
  if (auto images = read_images(config.images)) prune_templates(config, *images);
}

}  // namespace

std::vector<std::string> missing_programs() {
  struct Need {
    const char* program;
    const char* package;
  };
  constexpr Need needs[] = {{"/usr/bin/etcd", "etcd-server"},
                            {"/usr/bin/containerd", "containerd"},
                            {"runc", "runc"},
                            {"ip", "iproute2"},
                            {"nft", "nftables"},
                            {"iptables", "iptables"},
                            {"conntrack", "conntrack"},
                            {"/usr/lib/cni/ptp", "containernetworking-plugins"}};
  std::string packages;
  std::vector<std::string> sentences;
  for (const auto& need : needs) {
    bool absolute = need.program[0] == '/';
    if (absolute ? io::exists(need.program) : !io::find_program(need.program).empty()) continue;
    sentences.push_back(std::string("the program ") + need.program + " is missing");
    packages += std::string(" ") + need.package;
  }
  if (!sentences.empty())
    sentences.push_back("install what is missing with: apt-get install -y --no-install-recommends" + packages);
  return sentences;
}

bool serve_runs(const LabConfig& config) {
  auto record = read_record(serve_record(config));
  return record && alive(*record);
}

int up(UpOptions options, std::stop_token stop) {
  auto& config = options.config;
  Teller teller;
  auto known = load_config(config.state);
  bool first_start = !known;
  if (known && serve_runs(*known)) return up_already(*known, config);
  if (::geteuid() != 0) return complain(exit_missing, "the lab makes namespaces, mounts and cgroups: run it as root");
  if (known) {
    // Its names and ranges are what the running zones have; the folders may be newer.
    auto images = config.images, kubernetes = config.kubernetes;
    config = *known;
    config.images = images, config.kubernetes = kubernetes;
  }
  if (auto filled = fill_in(config, known ? *known : LabConfig{}); !filled)
    return complain(filled.error().kind == ErrorKind::invalid ? exit_usage : exit_missing, filled.error().message);
  if (int code = preflight(config); code != 0) return code;
  if (auto made = io::make_folders(config.state, 0755); !made) return complain(exit_failed, made.error().message);
  if (auto saved = save_config(config); !saved) return complain(exit_failed, saved.error().message);
  if (first_start) prune_when_alone(config);
  teller.say(first_start ? "starting the lab in " + config.state
                         : "the supervisor was not running; starting it again (what runs is adopted)");
  auto supervisor = start_supervisor(config);
  if (!supervisor) return complain(exit_failed, supervisor.error().message);
  if (options.detach) {
    std::printf("The lab comes up in the background. Follow it with: homeostat-lab status\n");
    return exit_good;
  }
  return follow(config, *supervisor, first_start, teller, stop);
}

}  // namespace homeostat::lab
