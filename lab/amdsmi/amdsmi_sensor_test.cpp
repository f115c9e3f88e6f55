// The agent's sensors of AMD GPUs on a tree like /sys and on the stand-in for amdsmi: each figure that /sys lacks, each
// unreadable state, each hang, each function and each version that a library may lack.
#include "agent/amdsmi_sensor.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "agent/amd_sensor.hpp"
#include "agent/sys_test_helpers.hpp"

using namespace homeostat;
using namespace homeostat::agent;
using namespace std::chrono_literals;
using fault::ProbeState;

namespace {

constexpr auto pci0 = "0000:c1:00.0", pci1 = "0000:c3:00.0";

std::string file(const std::string& name) { return "bus/pci/devices/0000:c1:00.0/" + name; }

// A node with two GPUs, both sensors, and the library's file. `first` and `machine` are what the file says besides.
class Node {
 public:
  Node() {
    tree.sys.add_amd_gpu(0, pci0);
    tree.sys.add_amd_gpu(1, pci1);
    setenv("HOMEOSTAT_FAKE_AMDSMI", path().c_str(), 1);
    be("");
    begin();
  }
  ~Node() { unsetenv("HOMEOSTAT_FAKE_AMDSMI"); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void be(const std::string& first, const std::string& machine = "") {
    write("{" + machine + R"("gpus":[{"pci":"0000:c1:00.0","uuid":"aaff74a1-0000-1000-80aa-000000000001")" +
          (first.empty() ? "" : ",") + first +
          R"(},{"pci":"0000:c3:00.0","uuid":"aaff74a1-0000-1000-80aa-000000000002"}]})");
  }
  void write(const std::string& text) { tree.sys.set("amdsmi.json", text); }
  void begin(const io::SymbolLookup& lookup = nullptr, const std::string& path = FAKE_AMDSMI_LIBRARY) {
    shelf = std::make_shared<AmdShelf>();
    AmdSensorOptions files;
    files.roots = tree.roots();
    files.shelf = shelf;
    files.devices_seen = [this](std::vector<GpuDevice> seen) { devices = std::move(seen); };
    amd = make_amd_sensor(std::move(files));
    AmdSmiSensorOptions options;
    options.roots = tree.roots();
    options.library_path = path;
    options.shelf = shelf;
    if (lookup)
      options.load = [lookup](const std::string& where, const std::shared_ptr<io::NowReading>& now) {
        return io::load_amdsmi_with(where, now, lookup);
      };
    amdsmi = make_amdsmi_sensor(std::move(options));
  }
  // Both look, the library first.
  SensorReport look(std::chrono::seconds time = 5s) {
    SensorReport report;
    for (const auto end = now + time; now < end;) {
      now += 5s;
      library = amdsmi->look(at(now));
      report = amd->look(at(now, 2));
    }
    return report;
  }
  // The driver offers nothing of this in /sys.
  void hide(const std::string& name) { tree.sys.remove(file(name)); }

  TestTree tree;
  std::shared_ptr<AmdShelf> shelf;
  std::unique_ptr<Sensor> amd, amdsmi;
  SensorReport library;
  std::vector<GpuDevice> devices;
  std::chrono::seconds now{0};

 private:
  std::string path() const { return (tree.sys.root() / "amdsmi.json").string(); }
};

constexpr const char* optional_functions[] = {"amdsmi_get_gpu_device_uuid",
                                              "amdsmi_get_gpu_asic_info",
                                              "amdsmi_get_gpu_driver_info",
                                              "amdsmi_get_gpu_ecc_enabled",
                                              "amdsmi_get_gpu_ecc_count",
                                              "amdsmi_get_gpu_total_ecc_count",
                                              "amdsmi_get_gpu_bad_page_info",
                                              "amdsmi_get_gpu_bad_page_threshold",
                                              "amdsmi_get_violation_status",
                                              "amdsmi_get_pcie_info",
                                              "amdsmi_get_power_info",
                                              "amdsmi_get_temp_metric",
                                              "amdsmi_get_gpu_memory_total",
                                              "amdsmi_get_gpu_memory_usage",
                                              "amdsmi_get_gpu_compute_partition",
                                              "amdsmi_get_gpu_memory_partition"};

// Nothing in /sys but the GPU itself: each of the functions is asked.
void hide_all(Node& node) {
  for (const auto* name : {"ras", "gpu_metrics", "mem_info_vram_used", "pcie_replay_count", "hwmon", "xgmi_error"})
    node.hide(name);
  node.begin();
}

io::SymbolLookup hiding(const std::string& hidden) {
  return [hidden](void* library, const char* name) -> void* { return name == hidden ? nullptr : dlsym(library, name); };
}

}  // namespace

TEST_CASE("amdsmi: loaded only where amdgpu has accelerators; let go after each look") {
  Node node;
  void* library = dlopen(FAKE_AMDSMI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const auto sessions = reinterpret_cast<int (*)()>(dlsym(library, "homeostat_fake_amdsmi_sessions"));
  const auto calls = reinterpret_cast<unsigned long (*)()>(dlsym(library, "homeostat_fake_amdsmi_calls"));
  CHECK(node.look().state == ProbeState::good);
  CHECK(node.library.state == ProbeState::good);
  CHECK(node.library.message == "amdsmi 26.1.0, amdgpu 6.14.14.");
  CHECK(node.library.findings.empty());
  CHECK(sessions() == 0);
  // With all files there, a look over two GPUs is cheap.
  const auto before = calls();
  (void)node.look();
  CHECK(calls() - before <= 3 + 2 * 12);

  TestTree nvidia;
  AmdSmiSensorOptions options;
  options.roots = nvidia.roots();
  options.library_path = "/nonexistent";
  options.shelf = std::make_shared<AmdShelf>();
  bool loaded = false;
  options.load = [&](const std::string&, const std::shared_ptr<io::NowReading>&) {
    loaded = true;
    return Result<std::unique_ptr<io::AmdSmi>>(fail(ErrorKind::not_found, "none"));
  };
  const auto sensor = make_amdsmi_sensor(options);
  CHECK(sensor->look(at(0s)).state == ProbeState::absent);
  CHECK_FALSE(loaded);
  nvidia.sys.add_amd_gpu(0, pci0);
  CHECK(sensor->look(at(30s)).state == ProbeState::failed);  // somebody has named a library
  CHECK(loaded);
  dlclose(library);
}

// The driver's file is hidden, the library tells the same: the same finding, of the same GPU, once.
TEST_CASE(
    "amdsmi: each bad state that /sys does not tell is told once, of the right GPU, and is over when it is over") {
  struct Row {
    const char* what;
    std::vector<const char*> hidden;
    const char* gpu;
    std::chrono::seconds time;
    const char* code;
  };
  const Row rows[] = {
      {"uncorrected", {"ras"}, R"("ecc":{"umc":{"uncorrected":1}})", 10s, "RAS_UE/umc:fatal@0000:c1:00"},
      {"deferred", {"ras"}, R"("ecc":{"gfx":{"deferred":2}})", 10s, "RAS_DE/gfx:warn@0000:c1:00"},
      {"corrected", {"ras"}, R"("ecc":{"sdma":{"corrected":100}})", 10s, "RAS_CE/sdma:warn@0000:c1:00"},
      {"only the sum",
       {"ras"},
       R"("errors":{"amdsmi_get_gpu_ecc_enabled":"NOT_SUPPORTED"},"ecc":{"umc":{"uncorrected":1}})",
       10s,
       "RAS_UE/all:fatal@0000:c1:00"},
      {"pages", {"ras/gpu_vram_bad_pages"}, R"("pages_retired":3)", 10s, "BAD_PAGES:warn@0000:c1:00"},
      {"page that cannot be reserved",
       {"ras/gpu_vram_bad_pages"},
       R"("pages_failed":1)",
       10s,
       "BAD_PAGE_UNRESERVED:error@0000:c1:00"},
      {"too many pages",
       {"ras/gpu_vram_bad_pages"},
       R"("pages_retired":100,"pages_pending":28)",
       10s,
       "BAD_PAGE_THRESHOLD:error@0000:c1:00 BAD_PAGES:warn@0000:c1:00"},
      {"hot", {"gpu_metrics"}, R"("hotspot_c":101)", 60s, "TEMPERATURE:error@0000:c1:00"},
      {"hot, and no limit in /sys",
       {"gpu_metrics", "hwmon"},
       R"("hotspot_c":101)",
       60s,
       "TEMPERATURE:error@0000:c1:00"},
      {"replays", {"gpu_metrics", "pcie_replay_count"}, R"("replays":200)", 10s, "PCIE_REPLAY:warn@0000:c1:00"},
      {"another partition", {}, R"("compute_partition":"CPX")", 90s, "PARTITION_MIXED:info@"},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.what));
    Node node;
    for (const auto* name : row.hidden) node.hide(name);
    if (std::string(row.what) == "only the sum") node.be(R"("errors":{"amdsmi_get_gpu_ecc_enabled":"NOT_SUPPORTED"})");
    node.begin();
    CHECK(codes_of(node.look(30s)) == "");
    node.be(row.gpu);
    CHECK(codes_of(node.look(row.time)) == row.code);
    node.be("");
    CHECK(codes_of(node.look(7500s)) == "");
  }
}

TEST_CASE("amdsmi: heat that holds the chip back, where the table of /sys is of a revision that nobody knows") {
  Node node;
  node.tree.sys.set_bytes(file("gpu_metrics"), std::string("\x20\x00\x01\x0f", 4) + std::string(60, 'x'));
  std::string last;
  for (int i = 1; i <= 16; ++i) {
    node.be(R"("cycles":)" + std::to_string(i * 1000) + R"(,"hot":)" + std::to_string(i * 300));
    last = codes_of(node.look());
    if (i == 10) CHECK(last == "");
  }
  CHECK(last == "THERMAL_THROTTLE:warn@0000:c1:00");
}

TEST_CASE("amdsmi: /sys comes first: what it tells is not asked of the library, nor found twice") {
  Node node;
  node.tree.sys.set(file("unique_id"), "1f2e3d4c5b6a7988");
  node.begin();
  CHECK(codes_of(node.look(30s)) == "");
  // The library tells nonsense of all that /sys tells.
  node.be(R"("ecc":{"umc":{"uncorrected":7}},"pages_failed":9,"hotspot_c":199,"memory_used":1,"replays":100000)");
  const auto report = node.look(120s);
  CHECK(codes_of(report) == "");
  CHECK(sample_of(report, "homeostat_gpu_temperature_celsius")->value == 45);
  CHECK(node.devices[0].uuid == "GPU-1f2e3d4c5b6a7988");
  CHECK(node.devices[1].uuid == "aaff74a1-0000-1000-80aa-000000000002");  // no name of its own in /sys
  // Both tell the same error: one finding. A file that breaks stays the GPU's trouble.
  node.tree.sys.set(file("ras/umc_err_count"), "ue: 7\nce: 0\nde: 0");
  CHECK(codes_of(node.look()) == "RAS_UE/umc:fatal@0000:c1:00");
  node.tree.sys.break_file(file("ras/umc_err_count"));
  CHECK(codes_of(node.look(70s)) == "NO_ANSWER:error@0000:c1:00 RAS_UE/umc:fatal@0000:c1:00");
}

TEST_CASE("amdsmi: every figure of a GPU of which /sys tells nothing, in each layout that is known") {
  for (const auto* version : {"[24,6,2,0]", "[25,3,0]", "[26,1,0]", "[27,2,0]"}) {
    CAPTURE(std::string(version));
    Node node;
    hide_all(node);
    const auto machine = std::string(R"("version":)") + version + ",";
    node.be(R"("power_w":431,"replays":7,"lanes":8,"ecc":{"umc":{"corrected":3}},"memory_used":4096)", machine);
    const auto report = node.look(10s);
    CHECK(report.state == ProbeState::good);
    CHECK(codes_of(report) == "");
    for (const auto& [name, value] : {std::pair<const char*, double>{"homeostat_gpu_temperature_celsius", 45},
                                      {"homeostat_gpu_memory_temperature_celsius", 40},
                                      {"homeostat_gpu_power_watts", 431},
                                      {"homeostat_gpu_pcie_lanes", 8},
                                      {"homeostat_gpu_pcie_generation", 5},
                                      {"homeostat_gpu_pcie_replays_total", 7},
                                      {"homeostat_gpu_memory_used_bytes", 4096},
                                      {"homeostat_gpu_ecc_errors_total", 3}}) {
      CAPTURE(std::string(name));
      if (std::string(version) == "[25,3,0]" && name == std::string("homeostat_gpu_power_watts")) continue;
      const auto* sample = sample_of(report, name);
      REQUIRE(sample != nullptr);
      CHECK(sample->value == value);
    }
  }
}

TEST_CASE("amdsmi: structures that are longer than today's harm nobody; a version that is not known is not used") {
  Node node;
  hide_all(node);
  node.be("", R"("extra_bytes":9000,)");
  CHECK(node.look(10s).state == ProbeState::good);
  CHECK(node.library.state == ProbeState::good);
  for (const auto* version : {"[23,2,0,0]", "[28,0,0]", "[0]"})
    for (const bool named : {true, false}) {
      CAPTURE(std::string(version));
      Node other;
      hide_all(other);
      other.be("", std::string(R"("version":)") + version + ",");
      // A library that nobody has named and that does not fit is as good as none.
      other.begin([](void* library, const char* name) { return dlsym(library, name); }, FAKE_AMDSMI_LIBRARY);
      if (!named) {
        AmdSmiSensorOptions options;
        options.roots = other.tree.roots();
        options.shelf = other.shelf;
        options.load = [](const std::string&, const std::shared_ptr<io::NowReading>& now) {
          return io::load_amdsmi(FAKE_AMDSMI_LIBRARY, now);
        };
        other.amdsmi = make_amdsmi_sensor(std::move(options));
      }
      (void)other.look(10s);
      CHECK(other.library.state == (named ? ProbeState::failed : ProbeState::absent));
      CHECK(other.library.message.find("not known (24 to 27 are)") != std::string::npos);
      CHECK(other.shelf->library(Duration(0)).empty());
    }
}

TEST_CASE("amdsmi: what does not answer at all is said in a sentence; /sys is watched on") {
  struct Row {
    const char* what;
    std::string machine;
    const char* message;
  };
  const Row rows[] = {
      {"no permission", R"("errors":{"amdsmi_init":"NO_PERM"},)",
       "amdsmi could not be started (NO_PERM). The answer is"},
      {"init", R"("errors":{"amdsmi_init":"INIT_ERROR"},)",
       "amdsmi could not be started (INIT_ERROR). The library could"},
      {"no driver", "gone", "amdsmi could not be started (DRIVER_NOT_LOADED). The amdgpu driver is not loaded"},
      {"torn", "torn", "amdsmi could not be started (API_FAILED). The driver failed"},
      {"unknown", R"("errors":{"amdsmi_init":4711},)", "amdsmi could not be started (4711). The library answered with"},
      {"no version", R"("errors":{"amdsmi_get_lib_version":"IO"},)", "amdsmi could not tell its version (IO)."},
      {"no GPU", R"("errors":{"amdsmi_get_processor_handle_from_bdf":"NOT_FOUND"},)", "AMD GPU 0000:c3:00 cannot be"},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.what));
    Node node;
    CHECK(node.look(20s).state == ProbeState::good);
    if (row.machine == "gone")
      node.tree.sys.remove("amdsmi.json");
    else if (row.machine == "torn")
      node.write(R"({"gpus":[{"pc)");
    else
      node.be("", row.machine);
    const auto report = node.look(15s);
    CHECK(report.state == ProbeState::good);
    CHECK(codes_of(report) == "");
    CHECK(node.library.state == ProbeState::failed);
    CHECK(node.library.message.find(row.message) == 0);
    node.tree.sys.set(file("ras/umc_err_count"), "ue: 1\nce: 0\nde: 0");
    CHECK(codes_of(node.look()) == "RAS_UE/umc:fatal@0000:c1:00");
    node.be("");
    (void)node.look();
    CHECK(node.library.state == ProbeState::good);
  }
  Node missing;
  missing.begin(nullptr, "/nonexistent/libamd_smi.so");
  CHECK(missing.look().state == ProbeState::good);
  CHECK(missing.library.state == ProbeState::failed);
  CHECK(missing.library.message.find("AMD's management library cannot be loaded: /nonexistent") == 0);
}

TEST_CASE("amdsmi: each figure that is not offered, is refused or times out leaves the others") {
  for (const auto* function : optional_functions)
    for (const auto* answer : {"NOT_SUPPORTED", "NO_PERM", "TIMEOUT", "BUSY", "UNKNOWN_ERROR", "NO_DATA"}) {
      CAPTURE(std::string(function));
      CAPTURE(std::string(answer));
      Node node;
      hide_all(node);
      node.be(std::string(R"("errors":{")") + function + R"(":")" + answer + R"("})");
      const auto report = node.look(10s);
      CHECK(report.state == ProbeState::good);
      CHECK(codes_of(report) == "");
      CHECK(node.library.state == ProbeState::good);
      const bool told = std::string(answer) == "NO_PERM" || std::string(answer) == "TIMEOUT" ||
                        std::string(answer) == "UNKNOWN_ERROR";
      const bool asked = std::string(function) != "amdsmi_get_gpu_total_ecc_count" &&  // the blocks were had
                         std::string(function) != "amdsmi_get_gpu_memory_total";       // /sys has it
      const auto sentence = std::string(function) + " of 0000:c1:00 answers " + answer + ".";
      CHECK((node.library.message.find(sentence) != std::string::npos) == (told && asked));
    }
}

TEST_CASE("amdsmi: a driver that times out on everything is asked a few times only") {
  Node node;
  hide_all(node);
  void* library = dlopen(FAKE_AMDSMI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const auto calls = reinterpret_cast<unsigned long (*)()>(dlsym(library, "homeostat_fake_amdsmi_calls"));
  (void)node.look();
  const std::string errors =
      R"("errors":{"amdsmi_get_gpu_device_uuid":"TIMEOUT","amdsmi_get_gpu_asic_info":"TIMEOUT",)"
      R"("amdsmi_get_gpu_ecc_enabled":"TIMEOUT","amdsmi_get_gpu_total_ecc_count":"TIMEOUT",)"
      R"("amdsmi_get_gpu_bad_page_threshold":"TIMEOUT","amdsmi_get_gpu_bad_page_info":"TIMEOUT",)"
      R"("amdsmi_get_temp_metric":"TIMEOUT","amdsmi_get_power_info":"TIMEOUT"},)";
  node.be("", errors);
  const auto before = calls();
  (void)node.amdsmi->look(at(100s));
  CHECK(calls() - before <= 2 + 2 + io::AmdSmi::max_failures);
  dlclose(library);
}

TEST_CASE("amdsmi: one reason that all GPUs share is said once, and keeps no GPU from being asked") {
  TestTree tree;
  tree.sys.set("amdsmi.json",
               R"({"errors":{"amdsmi_get_gpu_bad_page_threshold":"NO_PERM"},"gpus":[{"pci":"0000:c1:00.0"}]})");
  setenv("HOMEOSTAT_FAKE_AMDSMI", (tree.sys.root() / "amdsmi.json").c_str(), 1);
  const auto library = io::load_amdsmi(FAKE_AMDSMI_LIBRARY, std::make_shared<io::NowReading>());
  REQUIRE(library);
  std::vector<fault::AmdReading> asked(8);
  for (auto& gpu : asked) gpu.pci = "0000:c1:00";
  const auto reading = (*library)->read(asked);
  REQUIRE(reading);
  CHECK(reading->unreadable.size() == 1);
  for (const auto& gpu : reading->gpus) CHECK(gpu.model == "AMD Instinct MI300X OAM");
  unsetenv("HOMEOSTAT_FAKE_AMDSMI");
}

TEST_CASE("amdsmi: each function that a library may lack") {
  for (const auto* hidden : optional_functions) {
    CAPTURE(std::string(hidden));
    Node node;
    hide_all(node);
    node.begin(hiding(hidden));
    const auto report = node.look(10s);
    CHECK(report.state == ProbeState::good);
    CHECK(codes_of(report) == "");
    CHECK(node.library.state == ProbeState::good);
    CHECK(node.library.message.find(std::string("It lacks ") + hidden + ".") != std::string::npos);
  }
  for (const auto* vital :
       {"amdsmi_init", "amdsmi_shut_down", "amdsmi_get_lib_version", "amdsmi_get_processor_handle_from_bdf"}) {
    CAPTURE(std::string(vital));
    Node node;
    node.begin(hiding(vital));
    CHECK(node.look().state == ProbeState::good);
    CHECK(node.library.state == ProbeState::failed);
    CHECK(node.library.message.find("is not amdsmi or is older than ROCm 6") != std::string::npos);
  }
}

// A library that hangs holds its own sensor, which names the call; the sensor of /sys goes on and sees.
TEST_CASE("amdsmi: each function that hangs holds the library's look, and only that") {
  std::vector<std::string> functions = {"amdsmi_init", "amdsmi_get_lib_version",
                                        "amdsmi_get_processor_handle_from_bdf"};
  for (const auto* function : optional_functions)
    if (std::string(function) != "amdsmi_get_gpu_total_ecc_count" &&
        std::string(function) != "amdsmi_get_gpu_memory_total")
      functions.emplace_back(function);
  for (const auto& function : functions) {
    CAPTURE(function);
    Node node;
    hide_all(node);
    node.tree.sys.set(file("ras/umc_err_count"), "ue: 0\nce: 0\nde: 0");
    node.begin();
    (void)node.amd->look(at(0s, 2));
    // Nothing of it in /sys: the library is asked for all.
    node.shelf->put_files({});
    node.be("", R"("hang_ms":{")" + function + R"(":60000},)");
    std::atomic<bool> answered = false;
    SensorReport report;
    std::jthread looking([&] {
      report = node.amdsmi->look(at(5s));
      answered = true;
    });
    for (int i = 0; i < 400 && !node.amdsmi->now_reading().starts_with(function); ++i) std::this_thread::sleep_for(5ms);
    const auto where = node.amdsmi->now_reading();
    const bool of_gpu = function.find("_gpu_") != std::string::npos;
    CHECK(where.starts_with(function));
    if (of_gpu) CHECK(where.ends_with(" of 0000:c1:00"));
    CHECK_FALSE(answered);
    node.tree.sys.set(file("ras/umc_err_count"), "ue: 1\nce: 0\nde: 0");
    CHECK(codes_of(node.amd->look(at(10s, 2))) == "RAS_UE/umc:fatal@0000:c1:00");
    node.be("");  // the driver comes back
    looking.join();
    CHECK(report.state == ProbeState::good);
    CHECK(node.amdsmi->now_reading().empty());
  }
}

TEST_CASE("amdsmi: what the library told of errors stands while it hangs; heat and load do not") {
  Node node;
  hide_all(node);
  node.be(R"("power_w":431)");
  (void)node.look(30s);
  node.be(R"("power_w":431,"ecc":{"umc":{"uncorrected":1}})");
  auto report = node.look(10s);
  CHECK(codes_of(report) == "RAS_UE/umc:fatal@0000:c1:00");
  // The other GPU has its table in /sys.
  const auto powers = [&] { return std::ranges::count(report.samples, "homeostat_gpu_power_watts", &Sample::name); };
  CHECK(powers() == 2);
  const auto from = node.now;
  for (auto now = from; now <= from + 300s; now += 5s) report = node.amd->look(at(now, 2));
  CHECK(codes_of(report) == "RAS_UE/umc:fatal@0000:c1:00");
  CHECK(powers() == 1);
}
