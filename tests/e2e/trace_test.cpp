// The lab under its own misfortunes, and its end: nothing of it may be left. These cases stand last.
#include <signal.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "io/json.hpp"
#include "world.hpp"

using namespace homeostat;
using namespace homeostat::e2e;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

pid_t supervisor_pid(const std::string& state) { return find_process("homeostat-lab serve --state " + state + " "); }

// Everything that a lab in `state` could leave behind. The cgroups of instance "hl" are named lab-ZONE, those of
// another lab-INSTANCE-ZONE.
std::vector<std::string> leftovers(const std::string& state, const std::string& instance) {
  const std::string cgroup = instance == "hl" ? "lab-" : "lab-" + instance + "-";
  std::vector<std::string> left;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || std::stol(name) == ::getpid()) continue;
    if (read(entry.path() / "cmdline").find(state + "/") != std::string::npos)
      left.push_back("process " + name + " " + read(entry.path() / "comm"));
  }
  for (const auto& entry : fs::directory_iterator("/run/netns", error))
    if (entry.path().filename().string().starts_with(instance + "-"))
      left.push_back("namespace " + entry.path().string());
  for (const auto& entry : fs::directory_iterator("/sys/class/net", error))
    if (const auto name = entry.path().filename().string(); name == instance + "0" || name.starts_with(instance + "-"))
      left.push_back("interface " + name);
  for (const auto& controller : fs::directory_iterator("/sys/fs/cgroup", error))
    if (controller.is_directory(error))
      for (const auto& entry : fs::directory_iterator(controller.path(), error))
        if (entry.path().filename().string().starts_with(cgroup)) left.push_back("cgroup " + entry.path().string());
  std::istringstream mounts(read("/proc/self/mounts"));
  for (std::string line; std::getline(mounts, line);)
    if (line.find(state) != std::string::npos) left.push_back("mount " + line);
  if (fs::exists(state, error)) left.push_back("folder " + state);
  return left;
}

}  // namespace

TEST_CASE("the lab's supervisor is killed with -9 and the next one adopts what runs") {
  auto& world = World::get();
  world.wait_until_whole();
  const auto before = world.machines();
  const auto pid = supervisor_pid(world.places().state);
  REQUIRE(pid > 0);
  REQUIRE(::kill(pid, SIGKILL) == 0);
  world.wait("the supervisor is dead", Duration(5'000),
             [&] { return ::kill(pid, 0) != 0 || supervisor_pid(world.places().state) != pid; });
  const auto up = world.lab({"up"});
  CHECK_MESSAGE(up.code == 0, up.out << up.err);
  CHECK(supervisor_pid(world.places().state) != pid);
  CHECK(world.machines() == before);
  CHECK(world.ssh("srun -N2 true && echo fine").find("fine") != std::string::npos);
}

TEST_CASE("down leaves no process, namespace, mount, cgroup or bridge") {
  auto& world = World::get();
  if (!world.brought_up_here()) {
    MESSAGE("the lab was up before this program and stays up");
    return;
  }
  const auto instance = world.instance();
  const auto down = world.homeostat({"down"}, Duration(60'000));
  CHECK_MESSAGE(down.code == 0, down.out << down.err);
  for (const auto& left : leftovers(world.places().state, instance)) CHECK_MESSAGE(false, "left behind: " << left);
}
