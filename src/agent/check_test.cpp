#include "agent/check.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "agent/explain.hpp"
#include "io/json.hpp"
#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::agent;

namespace {

// A machine with a kernel log and empty trees.
struct Machine {
  TestFolder folder;
  const std::filesystem::path& root = folder.path;
  Machine() {
    for (const char* name : {"sys", "proc/1"}) std::filesystem::create_directories(root / name);
    for (const char* file : {"proc/mounts", "proc/1/mounts"})
      folder.write(file, "/dev/nvme0n1p1 / ext4 rw,relatime 0 0\n");
    folder.write("boot_id", "b1\n");
    log("");
  }
  void log(const std::string& text) const { std::ofstream(root / "kmsg", std::ios::app) << text; }
  void add_amd_gpus() const {
    const auto pci = root / "sys/bus/pci";
    std::filesystem::create_directories(pci / "drivers/amdgpu");
    for (const std::string address : {"0000:c1:00.0", "0000:c3:00.0"}) {
      const auto folder = pci / "devices" / address;
      std::filesystem::create_directories(folder);
      std::ofstream(folder / "class") << "0x120000\n";
      std::ofstream(folder / "vendor") << "0x1002\n";
      std::filesystem::create_symlink("../../drivers/amdgpu", folder / "driver");
      std::filesystem::create_symlink("../../devices/" + address, pci / "drivers/amdgpu" / address);
    }
  }
  CheckOptions options() const {
    CheckOptions options;
    options.log = {root / "kmsg", root / "boot_id", ""};
    options.sensors.sys = root / "sys";
    options.sensors.proc = root / "proc";
    options.sensors.steps = root / "steps";
    options.sensors.nvml_path = root / "no-such-library";
    options.sensors.driver_grace = Duration(0);
    options.time = Duration(5'000);
    return options;
  }
};

}  // namespace

TEST_CASE("a machine without accelerators and faults is healthy; a fault in its log makes it unhealthy") {
  const Machine machine;
  const auto quiet = check(machine.options());
  CAPTURE(check_text(quiet));
  CHECK(quiet.status.verdict == "Healthy");
  CHECK(exit_of(quiet.judgement.verdict) == CheckExit::healthy);
  CHECK(check_text(quiet).starts_with("Healthy: "));
  CHECK(check_text(quiet).ends_with("No findings.\n"));
  machine.log("3,1,1,-;NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus.\n");
  const auto sick = check(machine.options());
  CHECK(exit_of(sick.judgement.verdict) == CheckExit::unhealthy);
  CHECK(check_text(sick).find("gpu-xid:79@0000:0a:00") != std::string::npos);
  const auto json = io::parse_json_object(check_json(sick));
  REQUIRE(json.has_value());
  CHECK(io::string_at(*json, {"verdict"}) == "Unhealthy");
  CHECK(io::array_at(*json, {"findings"}).size() == 1);
}

TEST_CASE("on a node with AMD GPUs nobody misses NVIDIA's library, and the number that is expected is theirs") {
  const Machine machine;
  machine.add_amd_gpus();
  auto options = machine.options();
  options.sensors.always_expected = true;
  options.expected_gpus = 2;
  const auto whole = check(options);
  CAPTURE(check_text(whole));
  CHECK(whole.status.verdict == "Healthy");
  REQUIRE(whole.status.devices.size() == 2);
  CHECK(whole.status.devices[1].id == "0000:c3:00");
  CHECK(check_text(whole).find("GPUs (2 expected)\n  0  0000:c1:00  Good") != std::string::npos);
  options.expected_gpus = 3;
  const auto fewer = check(options);
  CHECK(exit_of(fewer.judgement.verdict) == CheckExit::unhealthy);
  CHECK(check_text(fewer).find("amd-counters:GPU_MISSING") != std::string::npos);
}

//  boot id   ......... 300 ms ......... "b1"      a boot begins with nothing known
//  sensors                                  ask  (were they first, what they had told would be forgotten)
TEST_CASE("a kernel log that is opened late costs nothing of what the sensors tell") {
  const Machine machine;
  machine.add_amd_gpus();
  auto options = machine.options();
  options.log.boot_id_path = machine.root / "late_boot_id";
  REQUIRE(::mkfifo(options.log.boot_id_path.c_str(), 0600) == 0);
  std::jthread kernel([&](const std::stop_token& stop) {
    for (auto wait = std::chrono::milliseconds(300); !stop.stop_requested(); wait = std::chrono::milliseconds(1)) {
      std::ofstream late(options.log.boot_id_path);  // waits for who reads it
      std::this_thread::sleep_for(wait);
      late << "b1\n";
    }
  });
  const auto view = check(options);
  const int open_end = ::open(options.log.boot_id_path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // frees the writer
  kernel.request_stop();
  kernel.join();
  ::close(open_end);
  CHECK(view.status.boot_id == "b1");
  CHECK(view.status.devices.size() == 2);
}

TEST_CASE("a driver that should be there, a log that cannot be read: nobody can say, within the time") {
  const Machine machine;
  auto options = machine.options();
  options.expected_gpus = 8;
  options.sensors.always_expected = true;
  auto view = check(options);
  CHECK(exit_of(view.judgement.verdict) == CheckExit::cannot_say);
  options = machine.options();
  options.log.kmsg_path = machine.root / "nowhere";
  const auto started = std::chrono::steady_clock::now();
  view = check(options);
  CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(10));
  CHECK(view.status.verdict == "Unknown");
  CHECK(view.status.message.find("kernel log") != std::string::npos);
}

TEST_CASE("codes are explained, unknown ones are met with the likeliest") {
  CHECK(explain_code("79", false)->find("79") != std::string::npos);
  const auto json = io::parse_json_object(*explain_code("xid 79", true));
  REQUIRE(json.has_value());
  CHECK(io::string_at(*json, {"class"}) == "replace-node");
  CHECK_FALSE(io::string_at(*json, {"source"}).empty());
  CHECK_FALSE(explain_code("nonsense-code", false).has_value());
  CHECK(unknown_code("nonsense-code").starts_with("The catalogue knows no code \"nonsense-code\"."));
}
