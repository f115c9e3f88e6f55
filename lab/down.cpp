#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <thread>

#include "io/files.hpp"
#include "lab/images.hpp"
#include "lab/lifecycle.hpp"
#include "lab/network.hpp"
#include "lab/supervisor.hpp"
#include "lab/zones.hpp"

namespace homeostat::lab {
namespace {

// What labs share on the host goes with the last one: the limit that was raised, and the folders that only serve as
// mount points in machines (when empty; removing one takes the mount away in every namespace, so not while another lab
// is up).
void remove_what_labs_share() {
  for (const auto& name : io::list_folder("/run/netns"))
    if (name.ends_with("-" + std::string(control_plane_zone))) return;
  restore_inotify();
  for (const char* folder : {"/usr/lib/homeostat/nvml", "/usr/lib/homeostat", "/var/lib/kubelet", "/var/lib/cni"})
    ::rmdir(folder);
}

void stop_supervisor(const LabConfig& config) {
  auto record = read_record(serve_record(config));
  if (!record || !alive(*record)) return;
  ::kill(record->pid, SIGTERM);
  for (int tries = 0; tries < 100 && alive(*record); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (alive(*record)) ::kill(record->pid, SIGKILL);
  for (int tries = 0; tries < 100 && alive(*record); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// All zones that this lab may ever have had: by record, by folder, by namespace. Each list may be incomplete after a
// crash.
std::set<std::string> known_zones(const LabConfig& config) {
  std::set<std::string> zones{std::string(control_plane_zone)};
  for (const auto& name : io::list_folder(config.path("zones")))
    if (name.ends_with(".json")) zones.insert(name.substr(0, name.size() - 5));
  for (const auto& name : io::list_folder(config.path("machines"))) zones.insert(name);
  for (const auto& name : io::list_folder("/run/netns"))
    if (name.starts_with(config.instance + "-")) zones.insert(name.substr(config.instance.size() + 1));
  return zones;
}

std::vector<std::string> legs(const LabConfig& config) {
  std::vector<std::string> found;
  for (const auto& name : io::list_folder("/sys/class/net")) {
    auto prefix = config.instance + "v";
    if (name.starts_with(prefix) && name.size() > prefix.size() &&
        name.find_first_not_of("0123456789", prefix.size()) == std::string::npos)
      found.push_back(name);
  }
  return found;
}

void end_zone(const LabConfig& config, const std::string& zone, DownReport& report) {
  if (auto killed = kill_zone(config.record(zone)); !killed) report.left.push_back(killed.error().message);
  // A zone whose record was lost: everything in its network namespace is ours.
  for (int tries = 0; tries < 50; ++tries) {
    auto pids = processes_in_netns(config.netns(zone));
    if (pids.empty()) break;
    for (pid_t pid : pids) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (pid_t pid : processes_in_netns(config.netns(zone)))
    report.left.push_back("process " + std::to_string(pid) + " of the zone " + zone);
}

void verify(const LabConfig& config, const std::set<std::string>& zones, DownReport& report) {
  for (const auto& zone : zones) {
    if (io::exists(config.netns(zone))) report.left.push_back("network namespace " + config.netns(zone));
    for (const auto& place : cgroup_places(config.cgroup(zone))) report.left.push_back("cgroup " + place);
  }
  if (bridge_exists(config)) report.left.push_back("bridge " + config.bridge());
  for (const auto& leg : legs(config)) report.left.push_back("interface " + leg);
  auto mounts = io::read_file("/proc/self/mounts");
  for (const auto& place : {config.state + "/", config.cache + "/templates/"})
    if (mounts && mounts->find(" " + place) != std::string::npos) report.left.push_back("a mount below " + place);
  if (io::exists(config.state)) report.left.push_back("folder " + config.state);
}

}  // namespace

Result<DownReport> take_down(const LabConfig& config) {
  if (::geteuid() != 0) return fail(ErrorKind::forbidden, "the lab belongs to root: run this as root");
  DownReport report;
  stop_supervisor(config);
  clear_template_builds(config);
  auto zones = known_zones(config);
  for (const auto& zone : zones) end_zone(config, zone, report);
  for (const auto& zone : zones) {
    remove_netns(config.netns(zone));
    remove_cgroup(config.cgroup(zone));
  }
  remove_bridge(config);  // the legs go with their namespaces, which may take the kernel a moment
  for (int tries = 0; tries < 100 && !legs(config).empty(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (auto removed = io::remove_tree(config.state); !removed) report.left.push_back(removed.error().message);
  remove_what_labs_share();
  ::rmdir("/run/netns");
  verify(config, zones, report);
  return report;
}

int down(const std::string& state, const std::string& instance) {
  auto known = load_config(state);
  LabConfig config;
  if (known) {
    config = *known;
  } else {
    // Without lab.json: what can be found by name is taken down all the same, but no folder that is not surely a lab's.
    config.state = state;
    config.instance = instance;
    config.cache = default_cache();
    config.plan = *make_plan({});
    bool anything =
        bridge_exists(config) || known_zones(config).size() > 1 || io::exists(config.netns(control_plane_zone));
    if (!anything) {
      std::printf("There is no lab in %s: nothing to take down.\n", state.c_str());
      return exit_good;
    }
    if (auto obstacles = network_obstacles(config); obstacles)
      for (const auto& sentence : *obstacles)
        if (sentence.find("state folder") != std::string::npos) {
          std::fprintf(stderr, "homeostat-lab: %s\n", sentence.c_str());
          return exit_refused;
        }
    if (io::exists(state) && !io::list_folder(state).empty() && !io::exists(state + "/zones")) {
      std::fprintf(stderr,
                   "homeostat-lab: %s holds no lab.json; it is not surely a lab's folder, so it is left alone\n",
                   state.c_str());
      return exit_refused;
    }
  }
  auto report = take_down(config);
  if (!report) {
    std::fprintf(stderr, "homeostat-lab: %s\n", report.error().message.c_str());
    return report.error().kind == ErrorKind::forbidden ? exit_missing : exit_failed;
  }
  for (const auto& left : report->left) std::fprintf(stderr, "homeostat-lab: left behind: %s\n", left.c_str());
  if (report->left.empty()) std::printf("The lab is down; nothing of it is left.\n");
  return report->left.empty() ? exit_good : exit_failed;
}

}  // namespace homeostat::lab
