// The agent's NVIDIA sensor on the stand-in for NVML: each bad state, each unreadable state, each hang, each function
// that an older library lacks.
#include "agent/nvml_sensor.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::agent;
using fault::ProbeState;
using fault::RepairClass;
using fault::Severity;

namespace {

// A machine with two GPUs of one model; `first` and `machine` are what the file says besides their names.
class Machine {
 public:
  Machine() {
    write("");
    setenv("HOMEOSTAT_FAKE_NVML", path_.c_str(), 1);
  }

  void write(const std::string& text) const {
    std::ofstream(path_ + ".new", std::ios::trunc) << text;
    REQUIRE(rename((path_ + ".new").c_str(), path_.c_str()) == 0);
  }
  void be(const std::string& first, const std::string& machine = "", const std::string& both = "") const {
    write(R"({"driver":"570.1",)" + machine + R"("gpus":[{"uuid":"GPU-a","pci":"0000:17:00.0")" + both +
          (first.empty() ? "" : ",") + first + R"(},{"uuid":"GPU-b","pci":"0000:3d:00.0")" + both + "}]}");
  }
  void remove() const { unlink(path_.c_str()); }

 private:
  TestFolder folder_;
  const std::string path_ = folder_.file("nvml.json");
};

// Looks each five seconds of a clock of its own.
class Watch {
 public:
  explicit Watch(NvmlSensorOptions options = {}) {
    if (options.nvml_path.empty()) options.nvml_path = FAKE_NVML_LIBRARY;
    options.grace = Duration(0);
    sensor_ = make_nvml_sensor(std::move(options));
  }
  SensorReport look() {
    SensorInput input;
    input.monotonic = now_;
    input.expected_gpus = expected;
    now_ += sensor_->interval();
    return sensor_->look(input);
  }
  SensorReport look_for(Duration time) {
    auto report = look();
    for (const auto end = now_ + time; now_ < end;) report = look();
    return report;
  }
  int expected = 2;

 private:
  std::unique_ptr<Sensor> sensor_;
  Duration now_{1'000'000};
};

std::string codes(const SensorReport& report) {
  std::string text;
  for (const auto& finding : report.findings) text += (text.empty() ? "" : " ") + finding.code + "@" + finding.device;
  return text;
}

constexpr Duration minutes_6{360'000};
constexpr Duration minutes_10{600'000};

struct BadState {
  const char* what;
  const char* gpu;  // what the file says of the first GPU
  const char* code;
  Severity severity;
  RepairClass repair_class;
  const char* before = "";  // what it says of both GPUs all the time
};

// GPU 17 goes from well to bad and back; GPU 3d stays well.
//   t      0 s        5 s ............... 6 min        .......... 16 min
//   17     well       bad                              well
//   told   nothing    the code, in time                nothing
constexpr BadState bad_states[] = {
    {"lost", R"("state":"lost")", "LOST", Severity::fatal, RepairClass::replace_node},
    {"needs a reset", R"("error":"RESET_REQUIRED")", "RESET_REQUIRED", Severity::fatal, RepairClass::reset},
    {"recovery: reset", R"("recovery_action":1)", "RECOVERY_ACTION/1", Severity::fatal, RepairClass::reset},
    {"recovery: reboot", R"("recovery_action":2)", "RECOVERY_ACTION/2", Severity::fatal, RepairClass::replace_node},
    {"recovery: drain P2P", R"("recovery_action":3)", "RECOVERY_ACTION/3", Severity::error,
     RepairClass::drain_after_job},
    {"recovery: drain, reset", R"("recovery_action":4)", "RECOVERY_ACTION/4", Severity::fatal, RepairClass::reset},
    {"recovery: unheard of", R"("recovery_action":42)", "RECOVERY_ACTION/42", Severity::warn, RepairClass::watch},
    {"SRAM worn out", R"("sram_threshold_exceeded":true)", "SRAM_THRESHOLD", Severity::error,
     RepairClass::replace_node},
    {"row pending", R"("remap_pending":true)", "ROW_REMAP_PENDING", Severity::warn, RepairClass::drain_after_job},
    {"row failed", R"("remap_failure":true)", "ROW_REMAP_FAILED", Severity::error, RepairClass::replace_node},
    {"no spare rows", R"("remap_histogram":[638,0,0,0,2])", "ROW_REMAP_EXHAUSTED", Severity::warn, RepairClass::watch},
    {"bank pending", R"("bank_remap_pending":1)", "BANK_REMAP_PENDING", Severity::warn, RepairClass::drain_after_job},
    {"page pending", R"("retirement_pending":true)", "PAGE_RETIREMENT_PENDING", Severity::warn,
     RepairClass::drain_after_job, R"("retirement_pending":false)"},
    {"many pages", R"("retired_single":40,"retired_double":20)", "PAGES_RETIRED", Severity::error,
     RepairClass::replace_node, R"("retired_single":0)"},
    {"corrected errors", R"("ecc_corrected":500)", "ECC_CORRECTED_RATE", Severity::warn, RepairClass::watch},
    {"hot by hardware", R"("throttle":["hw_slowdown","hw_thermal"])", "THROTTLE_HW_THERMAL", Severity::error,
     RepairClass::watch},
    {"hot by software", R"("throttle":["sw_thermal"])", "THROTTLE_SW_THERMAL", Severity::warn, RepairClass::watch},
    {"power brake", R"("throttle":["hw_slowdown","power_brake"])", "THROTTLE_POWER_BRAKE", Severity::error,
     RepairClass::watch},
    {"slowdown unexplained", R"("throttle":["hw_slowdown"])", "THROTTLE_HW", Severity::error, RepairClass::watch},
    {"temperature", R"("temperature_c":88)", "TEMPERATURE", Severity::error, RepairClass::watch},
    {"thermal margin", R"("thermal_margin_c":-3)", "TEMPERATURE", Severity::error, RepairClass::watch,
     R"("thermal_margin_c":30)"},
    {"memory temperature", R"("memory_temperature_c":97)", "MEMORY_TEMPERATURE", Severity::error, RepairClass::watch},
    {"slow without a reason", R"("utilization":98,"sm_clock_mhz":510)", "SLOW_CLOCK", Severity::error,
     RepairClass::watch},
    {"fewer lanes than ever", R"("pcie_width":8)", "PCIE_WIDTH", Severity::error, RepairClass::drain_after_job},
    {"low generation at work", R"("utilization":98,"pcie_gen":3)", "PCIE_GENERATION", Severity::error,
     RepairClass::watch, R"("utilization":98)"},
    {"replays", R"("pcie_replays":70)", "PCIE_REPLAYS", Severity::warn, RepairClass::watch},
    {"a link is down", R"("nvlinks_down":[4])", "NVLINK_DOWN", Severity::error, RepairClass::drain_after_job},
    {"all links are down", R"("nvlinks_down":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17])", "NVLINK_DOWN",
     Severity::error, RepairClass::drain_after_job},
    {"a link recovers", R"("nvlink_errors":[{"link":14,"recovery":6}])", "NVLINK_ERRORS", Severity::warn,
     RepairClass::watch},
    {"a link recovers often", R"("nvlink_errors":[{"link":14,"recovery":505}])", "NVLINK_ERRORS", Severity::error,
     RepairClass::watch},
    {"a link replays", R"("nvlink_errors":[{"link":2,"replay":101}])", "NVLINK_ERRORS", Severity::warn,
     RepairClass::watch},
    {"checksums", R"("nvlink_errors":[{"link":2,"crc":400000}])", "NVLINK_ERRORS", Severity::error, RepairClass::watch},
    {"NVLink 3 recovers", R"("nvlink_errors":[{"link":11,"recovery":60}])", "NVLINK_ERRORS", Severity::error,
     RepairClass::watch, R"("name":"NVIDIA A100-SXM4-80GB","nvlink_generation":3,"nvlinks":12)"},
    {"NVLink 3 is down", R"("nvlinks_down":[11])", "NVLINK_DOWN", Severity::error, RepairClass::drain_after_job,
     R"("name":"NVIDIA A100-SXM4-80GB","nvlink_generation":3,"nvlinks":12)"},
    {"a bridge comes off", R"("nvlinks_down":[0,1,2,3])", "NVLINK_DOWN", Severity::error, RepairClass::drain_after_job,
     R"("name":"NVIDIA A30","nvlink_generation":3,"nvlinks":4)"},
    {"NVLink 5 does not recover", R"("nvlink_generation":5,"nvlink_errors":[{"link":7,"unrecovered":1}])",
     "NVLINK_ERRORS", Severity::error, RepairClass::watch, R"("name":"NVIDIA B200","nvlink_generation":5)"},
    {"NVLink 5 has errors left", R"("nvlink_generation":5,"nvlink_errors":[{"link":7,"symbol":100}])", "NVLINK_ERRORS",
     Severity::warn, RepairClass::watch, R"("nvlink_generation":5)"},
    {"fabric never starts", R"("fabric_state":"not_started")", "FABRIC_NOT_READY", Severity::error,
     RepairClass::drain_after_job},
    {"fabric stays half way", R"("fabric_state":"in_progress")", "FABRIC_NOT_READY", Severity::error,
     RepairClass::drain_after_job},
    {"fabric failed", R"("fabric_status":"UNKNOWN")", "FABRIC_FAILED", Severity::error, RepairClass::drain_after_job},
    {"fabric is slow", R"("fabric_health":1)", "FABRIC_DEGRADED", Severity::error, RepairClass::drain_after_job},
    {"fabric is set up wrong", R"("fabric_health":1280)", "FABRIC_DEGRADED", Severity::error,
     RepairClass::drain_after_job},
    {"MIG waits", R"("mig_pending":true)", "MIG_PENDING", Severity::info, RepairClass::ignore},
};

}  // namespace

TEST_CASE("nvml sensor: each bad state is told once, of the right GPU, and is over when it is over") {
  for (const auto& bad : bad_states) {
    CAPTURE(std::string(bad.what));
    Machine machine;
    machine.be("", "", bad.before[0] ? std::string(",") + bad.before : "");
    Watch watch;
    REQUIRE(codes(watch.look_for(Duration(20'000))) == "");
    const std::string both = bad.before[0] ? std::string(",") + bad.before : "";
    machine.be(bad.gpu, "", both);
    const auto report = watch.look_for(minutes_6);
    CHECK(report.state == ProbeState::good);
    CHECK(codes(report) == std::string(bad.code) + "@0000:17:00");
    if (report.findings.size() == 1) {
      CHECK(report.findings[0].component == "gpu-nvml");
      CHECK(report.findings[0].severity == bad.severity);
      CHECK(report.findings[0].repair_class == bad.repair_class);
      CHECK_FALSE(report.findings[0].title.empty());
    }
    machine.be("", "", both);
    // What a counter has shown within an hour or a day stays that long.
    const bool of_an_hour = std::string(bad.code).find("NVLINK_ERRORS") == 0 || bad.code == std::string("PCIE_REPLAYS");
    const bool of_a_day = bad.code == std::string("ECC_CORRECTED_RATE");
    CHECK(codes(watch.look_for(of_a_day     ? 25 * Duration(3'600'000)
                               : of_an_hour ? Duration(4'000'000)
                                            : minutes_10)) == "");
  }
}

// Well, or well enough that nobody needs to be told.
TEST_CASE("nvml sensor: what is no fault is told of nobody") {
  const char* sound[] = {
      "",
      R"("utilization":100)",
      R"("utilization":100,"throttle":["power_cap"],"sm_clock_mhz":600)",  // at its power limit, as GPUs at work are
      R"("utilization":100,"throttle":["application_clocks"],"sm_clock_mhz":900)",
      R"("pcie_gen":1)",                   // idle
      R"("sm_clock_mhz":210)",             // idle
      R"("utilization":10,"pcie_gen":2)",  // hardly at work
      R"("ecc_corrected":99)",
      R"("ecc_corrected_aggregate":90000,"ecc_uncorrected_aggregate":3)",                    // history
      R"("remapped_corrected":4,"remapped_uncorrected":2,"remap_histogram":[634,2,2,2,0])",  // repaired
      R"("retired_single":3,"retired_double":1)",
      R"("pcie_replays":59)",
      R"("nvlink_errors":[{"link":3,"replay":99,"recovery":4,"crc":1000}])",
      R"("mig":true,"nvlinks_down":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17])",  // MIG does without links
      R"("fabric_state":"not_supported")",
      R"("fabric_health":20906)",  // 0x51aa: "no" (2) to every trouble, all else well (1)
      R"("name":"NVIDIA Unheard Of 9000","nvlinks":0)",
      R"("name":"NVIDIA A100 80GB PCIe","nvlinks":12,"nvlinks_down":[0,1,2,3,4,5,6,7,8,9,10,11])",  // no bridge
      R"("temperature_c":86)",
  };
  for (const auto* state : sound) {
    CAPTURE(std::string(state));
    Machine machine;
    machine.be(state);
    Watch watch;
    CHECK(codes(watch.look_for(minutes_10)) == "");
  }
}

TEST_CASE("nvml sensor: a moment of heat, brake or link is no fault") {
  for (const auto* state : {R"("throttle":["hw_thermal","hw_slowdown"])", R"("throttle":["power_brake"])",
                            R"("temperature_c":95)", R"("nvlinks_down":[3])", R"("pcie_width":4)",
                            R"("errors":{"nvmlDeviceGetPowerUsage":"TIMEOUT"})", R"("error":"UNKNOWN")"}) {
    CAPTURE(std::string(state));
    Machine machine;
    machine.be("");
    Watch watch;
    (void)watch.look_for(Duration(20'000));
    machine.be(state);
    CHECK(codes(watch.look()) == "");
    machine.be("");
    for (int i = 0; i < 60; ++i) REQUIRE(codes(watch.look()) == "");
  }
}

// A fabric manager trains the links some minutes after boot; one that never does is told of.
TEST_CASE("nvml sensor: links that have never been up are waited for") {
  Machine machine;
  const std::string none =
      R"(,"nvlinks_down":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],"fabric_state":"in_progress")";
  machine.be("", "", none);
  Watch watch;
  CHECK(codes(watch.look_for(Duration(240'000))) == "");
  machine.be("");
  CHECK(codes(watch.look_for(minutes_10)) == "");
  machine.be("", "", none);
  Watch never;
  CHECK(codes(never.look_for(minutes_6)) ==
        "NVLINK_DOWN@0000:17:00 FABRIC_NOT_READY@0000:17:00 NVLINK_DOWN@0000:3d:00 FABRIC_NOT_READY@0000:3d:00");
}

TEST_CASE("nvml sensor: clocks that somebody has set low on all GPUs are no fault") {
  Machine machine;
  machine.be("", "", R"(,"utilization":99,"sm_clock_mhz":900)");
  Watch watch;
  CHECK(codes(watch.look_for(minutes_10)) == "");
  machine.be(R"("sm_clock_mhz":900)", "", R"(,"utilization":99)");
  CHECK(codes(watch.look_for(minutes_6)) == "SLOW_CLOCK@0000:17:00");
}

// Errors that were counted before we looked, errors that come while we look, and what becomes of them.
//   count  3   3   5   5 ............ 5
//   told   old old new new (an hour)  old
TEST_CASE("nvml sensor: new uncorrected errors are told from old ones") {
  Machine machine;
  machine.be(R"("ecc_uncorrected":3)");
  Watch watch;
  auto report = watch.look();
  REQUIRE(codes(report) == "ECC_UNCORRECTED@0000:17:00");
  CHECK(report.findings[0].severity == Severity::warn);
  CHECK(report.findings[0].title == "3 uncorrected memory errors since the driver was loaded, none of them new");
  machine.be(R"("ecc_uncorrected":5)");
  report = watch.look();
  REQUIRE(codes(report) == "ECC_UNCORRECTED@0000:17:00");
  CHECK(report.findings[0].severity == Severity::error);
  CHECK(report.findings[0].repair_class == RepairClass::watch);
  CHECK(report.findings[0].title == "2 new uncorrected memory errors within the last hour");
  CHECK(watch.look_for(Duration(3'500'000)).findings[0].severity == Severity::error);
  CHECK(watch.look_for(Duration(200'000)).findings[0].severity == Severity::warn);
}

TEST_CASE("nvml sensor: a GPU that is missing, that was there, and none at all") {
  Machine machine;
  machine.write(R"({"driver":"1","gpus":[{"uuid":"GPU-a","pci":"0000:17:00.0"}]})");
  Watch watch;
  auto report = watch.look();
  REQUIRE(codes(report) == "GPU_MISSING@");
  CHECK(report.findings[0].severity == Severity::fatal);
  CHECK(report.findings[0].repair_class == RepairClass::replace_node);
  CHECK(report.findings[0].title == "1 GPU is there, 2 should be");
  machine.be("");
  CHECK(codes(watch.look()) == "");

  Watch nobody_said;
  nobody_said.expected = 0;
  CHECK(codes(nobody_said.look()) == "");
  machine.write(R"({"driver":"1","gpus":[]})");
  CHECK(codes(nobody_said.look()) == "GPU_MISSING@");  // two were there before
  Watch never;
  never.expected = 0;
  report = never.look();
  CHECK(codes(report) == "NO_GPUS@");
  CHECK(report.findings[0].severity == Severity::error);
}

// With fewer links or lanes than the model has on every GPU the machine may be built so; a lone GPU needs no links.
TEST_CASE("nvml sensor: what all GPUs of a machine share, and what one alone has") {
  Machine machine;
  machine.be("", "", R"(,"nvlinks_down":[16,17])");
  Watch watch;
  auto report = watch.look_for(minutes_6);
  CHECK(codes(report) == "NVLINK_DOWN@0000:17:00 NVLINK_DOWN@0000:3d:00");
  CHECK(report.findings[0].severity == Severity::warn);
  CHECK(report.findings[0].repair_class == RepairClass::watch);
  CHECK(report.findings[0].title ==
        "16 of 18 NVLinks are up; down: 16, 17; all GPUs here show the same, so the machine may be built so");
  machine.be("", "", R"(,"pcie_width":8)");
  Watch narrow;
  report = narrow.look_for(minutes_6);
  CHECK(codes(report) == "PCIE_WIDTH@0000:17:00 PCIE_WIDTH@0000:3d:00");
  CHECK(report.findings[0].severity == Severity::warn);
  machine.be(R"("pcie_width":8)");
  Watch odd_one;
  report = odd_one.look_for(minutes_6);
  REQUIRE(codes(report) == "PCIE_WIDTH@0000:17:00");
  CHECK(report.findings[0].repair_class == RepairClass::drain_after_job);
  CHECK(report.findings[0].title == "PCIe has 8 of 16 lanes, unlike the other GPUs here: reseat it");
  machine.write(
      R"({"gpus":[{"uuid":"GPU-a","pci":"0000:17:00.0","nvlinks_down":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}]})");
  Watch lone;
  lone.expected = 1;
  CHECK(codes(lone.look_for(minutes_6)) == "");
}

namespace {

struct Unreadable {
  const char* what;
  const char* machine;  // what the file says of the machine
  const char* gpu;
  ProbeState state;
  const char* message;  // how the report's or the first finding's sentence begins
  const char* code;     // after half a minute; "": no finding
};

constexpr Unreadable unreadable_states[] = {
    {"mismatch", R"("errors":{"nvmlInit_v2":"LIB_RM_VERSION_MISMATCH"},)", "", ProbeState::failed,
     "NVML could not be initialised (LIB_RM_VERSION_MISMATCH). The loaded driver and the installed library differ", ""},
    {"no permission", R"("errors":{"nvmlInit_v2":"NO_PERMISSION"},)", "", ProbeState::failed,
     "NVML could not be initialised (NO_PERMISSION). The driver refuses", ""},
    {"no driver", R"("errors":{"nvmlInit_v2":"DRIVER_NOT_LOADED"},)", "", ProbeState::failed,
     "NVML could not be initialised (DRIVER_NOT_LOADED). The NVIDIA driver is not loaded", ""},
    {"count fails", R"("errors":{"nvmlDeviceGetCount_v2":"UNKNOWN"},)", "", ProbeState::failed,
     "NVML could not count the GPUs (UNKNOWN). The driver failed", ""},
    {"count times out", R"("errors":{"nvmlDeviceGetCount_v2":"TIMEOUT"},)", "", ProbeState::failed,
     "NVML could not count the GPUs (TIMEOUT). ", ""},
    {"session lost", R"("errors":{"nvmlDeviceGetCount_v2":"UNINITIALIZED"},)", "", ProbeState::failed,
     "NVML could not count the GPUs (UNINITIALIZED). ", ""},
    {"version refused", R"("errors":{"nvmlSystemGetDriverVersion":"UNKNOWN"},)", "", ProbeState::good, "", ""},
    {"GPU in use", "", R"("error":"IN_USE")", ProbeState::good, "The GPU cannot be read (IN_USE). ", "NO_ANSWER"},
    {"GPU forbidden", "", R"("error":"NO_PERMISSION")", ProbeState::good, "The GPU cannot be read (NO_PERMISSION). ",
     "NO_ANSWER"},
    {"GPU unknown", "", R"("error":"UNKNOWN")", ProbeState::good, "The GPU cannot be read (UNKNOWN). ", "NO_ANSWER"},
    {"handle", "", R"("errors":{"nvmlDeviceGetHandleByIndex_v2":"INSUFFICIENT_POWER"})", ProbeState::good,
     "The GPU cannot be read (INSUFFICIENT_POWER). The GPU's external power cables", "NO_ANSWER"},
    {"handle, interrupt", "", R"("errors":{"nvmlDeviceGetHandleByIndex_v2":"IRQ_ISSUE"})", ProbeState::good,
     "The GPU cannot be read (IRQ_ISSUE). ", "NO_ANSWER"},
    {"address", "", R"("errors":{"nvmlDeviceGetPciInfo_v3":"UNKNOWN"})", ProbeState::good,
     "The PCI address cannot be read (UNKNOWN). ", "NO_ANSWER"},
    {"one field", "", R"("field_errors":{"144":"UNKNOWN"})", ProbeState::good,
     "The state of row remapping cannot be read (UNKNOWN). ", "UNREADABLE"},
    {"all fields", "", R"("errors":{"nvmlDeviceGetFieldValues":"TIMEOUT"})", ProbeState::good,
     "The list of figures cannot be read (TIMEOUT). ", "UNREADABLE"},
    {"power", "", R"("errors":{"nvmlDeviceGetPowerUsage":"NO_PERMISSION"})", ProbeState::good,
     "The power draw cannot be read (NO_PERMISSION). ", "UNREADABLE"},
    {"InfoROM", "", R"("errors":{"nvmlDeviceGetSramEccErrorStatus":"CORRUPTED_INFOROM"})", ProbeState::good,
     "The SRAM error status cannot be read (CORRUPTED_INFOROM). ", "UNREADABLE"},
    {"a code of the future", "", R"("errors":{"nvmlDeviceGetPowerUsage":4711})", ProbeState::good,
     "The power draw cannot be read (4711). The driver answered with the unknown code 4711.", "UNREADABLE"},
    {"torn file", "torn", "", ProbeState::failed, "NVML could not be initialised (UNKNOWN). ", ""},
};

}  // namespace

TEST_CASE("nvml sensor: what cannot be read is said in a sentence and is no fault of the hardware") {
  for (const auto& bad : unreadable_states) {
    CAPTURE(std::string(bad.what));
    Machine machine;
    const bool at_init = std::string(bad.machine).find("Init") != std::string::npos;
    machine.be("");
    Watch watch;
    if (!at_init) REQUIRE(codes(watch.look_for(Duration(20'000))) == "");
    if (bad.machine == std::string("torn"))
      machine.write(R"({"driver":"570.1","gpus":[{"uu)");
    else
      machine.be(bad.gpu, bad.machine);
    const auto report = watch.look_for(Duration(30'000));
    CHECK(report.state == bad.state);
    if (bad.state == ProbeState::failed) CHECK(report.message.find(bad.message) == 0);
    CHECK(codes(report) == (bad.code[0] ? std::string(bad.code) + "@0000:17:00" : ""));
    if (!report.findings.empty()) {
      CHECK(report.findings[0].title.find(bad.message) == 0);
      CHECK(report.findings[0].repair_class == RepairClass::watch);
    }
    machine.be("");
    const auto after = watch.look_for(minutes_10);
    CHECK(after.state == ProbeState::good);
    CHECK(codes(after) == "");
  }
}

TEST_CASE("nvml sensor: each figure that is not offered, is refused or times out leaves the others") {
  const char* functions[] = {"nvmlDeviceGetName",
                             "nvmlDeviceGetFieldValues",
                             "nvmlDeviceGetTemperature",
                             "nvmlDeviceGetTemperatureThreshold",
                             "nvmlDeviceGetPowerUsage",
                             "nvmlDeviceGetUtilizationRates",
                             "nvmlDeviceGetMemoryInfo",
                             "nvmlDeviceGetClockInfo",
                             "nvmlDeviceGetMaxClockInfo",
                             "nvmlDeviceGetCurrentClocksEventReasons",
                             "nvmlDeviceGetCurrPcieLinkGeneration",
                             "nvmlDeviceGetMaxPcieLinkGeneration",
                             "nvmlDeviceGetCurrPcieLinkWidth",
                             "nvmlDeviceGetMaxPcieLinkWidth",
                             "nvmlDeviceGetMigMode",
                             "nvmlDeviceGetGpuFabricInfoV",
                             "nvmlDeviceGetSramEccErrorStatus",
                             "nvmlDeviceGetRowRemapperHistogram"};
  for (const auto* function : functions)
    for (const auto* answer : {"NOT_SUPPORTED", "NO_PERMISSION", "TIMEOUT", "IN_USE", "UNKNOWN", "NOT_READY"}) {
      CAPTURE(std::string(function));
      CAPTURE(std::string(answer));
      Machine machine;
      machine.be(std::string(R"("errors":{")") + function + R"(":")" + answer + R"("})");
      Watch watch;
      const auto report = watch.look_for(Duration(30'000));
      CHECK(report.state == ProbeState::good);
      for (const auto& finding : report.findings) CHECK(finding.code == "UNREADABLE");
      // A GPU with one dumb function still tells at least 30 of its figures.
      const auto of_first = std::count_if(report.samples.begin(), report.samples.end(),
                                          [](const Sample& s) { return s.labels[0].second == "0000:17:00"; });
      CHECK(of_first >= 15);
    }
}

// A GPU that answers nothing more is not asked on and on: each question may take the driver seconds.
TEST_CASE("nvml sensor: a driver that times out on everything is asked a few times only") {
  void* library = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const auto calls = reinterpret_cast<unsigned long (*)()>(dlsym(library, "homeostat_fake_nvml_calls"));
  Machine machine;
  machine.be("");
  Watch watch;
  (void)watch.look();
  machine.be(R"("errors":{"nvmlDeviceGetFieldValues":"TIMEOUT","nvmlDeviceGetTemperature":"TIMEOUT",)"
             R"("nvmlDeviceGetPowerUsage":"TIMEOUT","nvmlDeviceGetUtilizationRates":"TIMEOUT",)"
             R"("nvmlDeviceGetMemoryInfo":"TIMEOUT","nvmlDeviceGetClockInfo":"TIMEOUT"})");
  const auto before = calls();
  (void)watch.look();
  CHECK(calls() - before <= 2 + 6 + 16);  // the machine, the first GPU, the second
  dlclose(library);
}

TEST_CASE("nvml sensor: a lost GPU keeps its name, also over a restart of the agent") {
  Machine machine;
  machine.be(R"("state":"lost")");
  NvmlSensorOptions options;
  std::vector<GpuDevice> devices;
  options.known_gpus = [] { return std::vector<KnownGpu>{{0, "GPU-a", "0000:17:00"}, {1, "GPU-b", "0000:3d:00"}}; };
  options.devices_seen = [&](std::vector<GpuDevice> seen) { devices = std::move(seen); };
  Watch watch(std::move(options));
  CHECK(codes(watch.look()) == "LOST@0000:17:00");
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].uuid == "GPU-a");
  CHECK(devices[0].pci == "0000:17:00");
  CHECK(devices[0].lost);
  CHECK_FALSE(devices[1].lost);
  Watch stranger;  // nobody knows its name
  CHECK(codes(stranger.look()) == "LOST@gpu-0");
}

TEST_CASE("nvml sensor: a GPU that does not answer keeps the faults that it had") {
  Machine machine;
  machine.be(R"("remap_pending":true)");
  Watch watch;
  CHECK(codes(watch.look()) == "ROW_REMAP_PENDING@0000:17:00");
  machine.be(R"("remap_pending":true,"error":"UNKNOWN")");
  CHECK(codes(watch.look_for(Duration(30'000))) == "NO_ANSWER@0000:17:00 ROW_REMAP_PENDING@0000:17:00");
  machine.be(R"("field_errors":{"144":"UNKNOWN"})");
  CHECK(codes(watch.look_for(Duration(60'000))) == "UNREADABLE@0000:17:00 ROW_REMAP_PENDING@0000:17:00");
  machine.be("");
  CHECK(codes(watch.look_for(minutes_6)) == "");
}

TEST_CASE("nvml sensor: a fault that takes time to be sure of does not recover by a restart of the agent") {
  Machine machine;
  machine.be(R"("nvlinks_down":[4],"pcie_width":8)");
  NvmlSensorOptions options;
  options.open_findings = [] {
    return std::vector<std::string>{"gpu-nvml:NVLINK_DOWN@0000:17:00", "gpu-nvml:PCIE_WIDTH@0000:17:00",
                                    "gpu-nvml:NVLINK_ERRORS@0000:3d:00"};
  };
  Watch watch(std::move(options));
  CHECK(codes(watch.look()) == "PCIE_WIDTH@0000:17:00 NVLINK_DOWN@0000:17:00 NVLINK_ERRORS@0000:3d:00");
  machine.be("");
  CHECK(codes(watch.look_for(minutes_6)) == "NVLINK_ERRORS@0000:3d:00");
  CHECK(codes(watch.look_for(Duration(3'600'000))) == "");
}

// From boot on: no library, no driver, some GPUs, all of them.
TEST_CASE("nvml sensor: start-up grace, and who expects GPUs") {
  Machine machine;
  machine.remove();
  NvmlSensorOptions options;
  options.nvml_path = FAKE_NVML_LIBRARY;
  const auto sensor = make_nvml_sensor(options);
  SensorInput input;
  input.monotonic = Duration(500'000);
  auto report = sensor->look(input);
  CHECK(report.state == ProbeState::absent);  // no driver, and nobody expects a GPU
  input.expected_gpus = 2;
  report = sensor->look(input);
  CHECK(report.state == ProbeState::pending);
  CHECK(report.message.find("NVML could not be initialised (DRIVER_NOT_LOADED).") == 0);
  machine.write(R"({"driver":"1","gpus":[{"uuid":"GPU-a","pci":"0000:17:00.0"}]})");
  input.monotonic += Duration(30'000);
  report = sensor->look(input);
  CHECK(report.state == ProbeState::pending);
  CHECK(report.message == "1 of 2 GPUs are there so far. The driver may still be starting.");
  CHECK(report.findings.empty());
  input.monotonic += Duration(31'000);
  report = sensor->look(input);
  CHECK(report.state == ProbeState::good);
  CHECK(codes(report) == "GPU_MISSING@");
  machine.remove();
  CHECK(sensor->look(input).state == ProbeState::failed);  // it was there: no grace any more

  options.nvml_path = "/nonexistent/libnvidia-ml.so.1";
  const auto without = make_nvml_sensor(options);
  input.expected_gpus = 0;
  CHECK(without->look(input).state == ProbeState::absent);
  options.always_expected = true;
  options.grace = Duration(0);
  const auto wanted = make_nvml_sensor(options);
  report = wanted->look(input);
  CHECK(report.state == ProbeState::failed);
  CHECK(report.message.find("NVIDIA's management library cannot be loaded: ") == 0);
}

namespace {

const char* optional_functions[] = {"nvmlSystemGetDriverVersion",
                                    "nvmlDeviceGetName",
                                    "nvmlDeviceGetFieldValues",
                                    "nvmlDeviceGetTotalEccErrors",
                                    "nvmlDeviceGetSramEccErrorStatus",
                                    "nvmlDeviceGetRemappedRows",
                                    "nvmlDeviceGetRowRemapperHistogram",
                                    "nvmlDeviceGetRetiredPages",
                                    "nvmlDeviceGetRetiredPagesPendingStatus",
                                    "nvmlDeviceGetTemperature",
                                    "nvmlDeviceGetTemperatureThreshold",
                                    "nvmlDeviceGetMarginTemperature",
                                    "nvmlDeviceGetPowerUsage",
                                    "nvmlDeviceGetUtilizationRates",
                                    "nvmlDeviceGetMemoryInfo",
                                    "nvmlDeviceGetClockInfo",
                                    "nvmlDeviceGetMaxClockInfo",
                                    "nvmlDeviceGetCurrPcieLinkGeneration",
                                    "nvmlDeviceGetMaxPcieLinkGeneration",
                                    "nvmlDeviceGetCurrPcieLinkWidth",
                                    "nvmlDeviceGetMaxPcieLinkWidth",
                                    "nvmlDeviceGetPcieReplayCounter",
                                    "nvmlDeviceGetMigMode",
                                    "nvmlDeviceGetGpuFabricInfoV",
                                    "nvmlDeviceGetNvLinkState",
                                    "nvmlDeviceGetNvLinkErrorCounter"};

NvmlSensorOptions hiding(const std::string& hidden) {
  NvmlSensorOptions options;
  options.load = [hidden](const std::string& path) {
    return io::load_nvml_with(path, [hidden](void* library, const char* name) -> void* {
      return hidden == name ? nullptr : dlsym(library, name);
    });
  };
  return options;
}

}  // namespace

TEST_CASE("nvml sensor: each function that a library may lack") {
  Machine machine;
  machine.be("");
  for (const auto* hidden : optional_functions) {
    CAPTURE(std::string(hidden));
    Watch watch(hiding(hidden));
    const auto report = watch.look_for(Duration(60'000));
    CHECK(report.state == ProbeState::good);
    CHECK(codes(report) == "");
    const auto loaded = hiding(hidden).load(FAKE_NVML_LIBRARY);
    REQUIRE(loaded.has_value());
    CHECK((*loaded)->lacking() == std::vector<std::string>{hidden});
  }
  for (const auto* vital : {"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
                            "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3"}) {
    Watch watch(hiding(vital));
    CHECK(watch.look().state == ProbeState::failed);
  }
  // Both names of one function.
  const auto whole = io::load_nvml(FAKE_NVML_LIBRARY);
  REQUIRE(whole.has_value());
  CHECK((*whole)->lacking().empty());
}

// Who holds a GPU open keeps it from being reset.
TEST_CASE("nvml sensor: the driver is let go while a GPU waits for a reset") {
  struct Row {
    const char* gpu;
    bool let_go;
  };
  for (const auto& row : {Row{"", false}, Row{R"("error":"RESET_REQUIRED")", true}, Row{R"("recovery_action":1)", true},
                          Row{R"("recovery_action":2)", false}, Row{R"("recovery_action":4)", true},
                          Row{R"("recovery_action":6)", true}, Row{R"("state":"lost")", false}}) {
    CAPTURE(std::string(row.gpu));
    static int shutdowns;
    static int (*real)();
    shutdowns = 0;
    NvmlSensorOptions options;
    options.load = [](const std::string& path) {
      return io::load_nvml_with(path, [](void* library, const char* name) -> void* {
        if (name != std::string("nvmlShutdown")) return dlsym(library, name);
        real = reinterpret_cast<int (*)()>(dlsym(library, name));
        return reinterpret_cast<void*>(+[] {
          ++shutdowns;
          return real();
        });
      });
    };
    Machine machine;
    machine.be(row.gpu);
    Watch watch(std::move(options));
    (void)watch.look_for(Duration(20'000));
    CHECK(watch.look().state == ProbeState::good);
    CHECK(shutdowns == (row.let_go ? 6 : 0));
    machine.be("");
    CHECK(codes(watch.look()) == "");
  }
}

TEST_CASE("nvml sensor: an old library tells what it can") {
  const auto old = io::load_nvml(FAKE_NVML_OLD_LIBRARY);
  REQUIRE(old.has_value());
  CHECK((*old)->lacking().size() == 7);
  struct Row {
    const char* gpu;
    const char* code;
  };
  for (const auto& row :
       {Row{R"("state":"lost")", "LOST"}, Row{R"("nvlinks_down":[4])", "NVLINK_DOWN"},
        Row{R"("nvlink_errors":[{"link":14,"recovery":505}])", "NVLINK_ERRORS"},
        Row{R"("retirement_pending":1)", "PAGE_RETIREMENT_PENDING"}, Row{R"("retired_double":70)", "PAGES_RETIRED"},
        Row{R"("pcie_replays":70)", "PCIE_REPLAYS"}, Row{R"("ecc_corrected":500)", "ECC_CORRECTED_RATE"},
        Row{R"("throttle":["hw_thermal"])", "THROTTLE_HW_THERMAL"}, Row{R"("pcie_width":8)", "PCIE_WIDTH"}}) {
    CAPTURE(std::string(row.code));
    Machine machine;
    machine.be("");
    NvmlSensorOptions options;
    options.nvml_path = FAKE_NVML_OLD_LIBRARY;
    Watch watch(std::move(options));
    REQUIRE(codes(watch.look_for(Duration(20'000))) == "");
    machine.be(row.gpu);
    CHECK(codes(watch.look_for(minutes_6)) == std::string(row.code) + "@0000:17:00");
  }
}

// A driver that hangs holds the thread that looks, and nothing else: other calls of the library go through meanwhile.
TEST_CASE("nvml sensor: each function that hangs holds the look, and only the look") {
  void* library = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const auto count_gpus = reinterpret_cast<int (*)(unsigned*)>(dlsym(library, "nvmlDeviceGetCount_v2"));
  const char* functions[] = {"nvmlDeviceGetHandleByIndex_v2",
                             "nvmlDeviceGetPciInfo_v3",
                             "nvmlDeviceGetUUID",
                             "nvmlDeviceGetName",
                             "nvmlDeviceGetFieldValues",
                             "nvmlDeviceGetTemperature",
                             "nvmlDeviceGetTemperatureThreshold",
                             "nvmlDeviceGetPowerUsage",
                             "nvmlDeviceGetUtilizationRates",
                             "nvmlDeviceGetMemoryInfo",
                             "nvmlDeviceGetClockInfo",
                             "nvmlDeviceGetMaxClockInfo",
                             "nvmlDeviceGetCurrentClocksEventReasons",
                             "nvmlDeviceGetCurrPcieLinkGeneration",
                             "nvmlDeviceGetMaxPcieLinkGeneration",
                             "nvmlDeviceGetCurrPcieLinkWidth",
                             "nvmlDeviceGetMaxPcieLinkWidth",
                             "nvmlDeviceGetMigMode",
                             "nvmlDeviceGetGpuFabricInfoV",
                             "nvmlDeviceGetSramEccErrorStatus",
                             "nvmlDeviceGetRowRemapperHistogram"};
  for (const auto* function : functions) {
    CAPTURE(std::string(function));
    Machine machine;
    machine.be(std::string(R"("hang_ms":{")") + function + R"(":60000})");
    std::atomic<bool> answered = false;
    std::atomic<int> seen = 0;
    SensorReport report;
    NvmlSensorOptions options;
    options.devices_seen = [&](const std::vector<GpuDevice>&) { ++seen; };
    Watch watch(std::move(options));
    std::jthread looking([&] {
      report = watch.look();
      answered = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    CHECK_FALSE(answered);
    CHECK(seen == 0);
    unsigned count = 0;
    CHECK(count_gpus(&count) == 0);
    CHECK(count == 2);
    machine.be("");  // the driver comes back
    looking.join();
    CHECK(report.state == ProbeState::good);
    CHECK(codes(report) == "");
    CHECK(seen == 1);
  }
  dlclose(library);
}

TEST_CASE("nvml sensor: the machine's own questions hang, too") {
  for (const auto* function : {"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlSystemGetDriverVersion"}) {
    CAPTURE(std::string(function));
    Machine machine;
    machine.be("", std::string(R"("hang_ms":{")") + function + R"(":60000},)");
    std::atomic<bool> answered = false;
    Watch watch;
    std::jthread looking([&] {
      (void)watch.look();
      answered = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    CHECK_FALSE(answered);
    machine.be("");
    looking.join();
    CHECK(answered);
  }
}

// The driver counts anew after a GPU has gone: the second one becomes the first.
TEST_CASE("nvml sensor: a GPU that gets another number is still itself") {
  Machine machine;
  machine.be("");
  NvmlSensorOptions options;
  std::vector<GpuDevice> devices;
  options.devices_seen = [&](std::vector<GpuDevice> seen) { devices = std::move(seen); };
  Watch watch(std::move(options));
  (void)watch.look();
  machine.write(R"({"gpus":[{"uuid":"GPU-b","pci":"0000:3d:00.0","nvlinks_down":[2]}]})");
  CHECK(codes(watch.look_for(Duration(60'000))) == "NVLINK_DOWN@0000:3d:00 GPU_MISSING@");
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].uuid == "GPU-b");
  CHECK(devices[0].pci == "0000:3d:00");
}

// Figures as they are published: names with units, the GPU's address, and no series for what is not offered.
TEST_CASE("nvml sensor: samples") {
  Machine machine;
  machine.be(R"("temperature_c":61,"power_w":431,"utilization":97,"sm_clock_mhz":1755,"ecc_uncorrected":3,)"
             R"("memory_used_mib":1024,"throttle":["power_cap"],"nvlinks_down":[17],)"
             R"("nvlink_errors":[{"link":4,"crc":7}],"errors":{"nvmlDeviceGetTemperatureThreshold":"NOT_SUPPORTED"})");
  Watch watch;
  const auto report = watch.look();
  const auto value = [&](const std::string& name, const std::string& label = "", const std::string& text = "") {
    for (const auto& sample : report.samples) {
      if (sample.name != name || sample.labels[0] != std::pair<std::string, std::string>{"gpu", "0000:17:00"}) continue;
      if (label.empty() ||
          std::find(sample.labels.begin(), sample.labels.end(), std::pair{label, text}) != sample.labels.end())
        return sample.value;
    }
    return -1.0;
  };
  CHECK(value("homeostat_gpu_temperature_celsius") == 61);
  CHECK(value("homeostat_gpu_power_watts") == doctest::Approx(431));
  CHECK(value("homeostat_gpu_utilization_ratio") == doctest::Approx(0.97));
  CHECK(value("homeostat_gpu_sm_clock_hertz") == 1755e6);
  CHECK(value("homeostat_gpu_memory_used_bytes") == 1024.0 * (1 << 20));
  CHECK(value("homeostat_gpu_throttle", "reason", "power_cap") == 1);
  CHECK(value("homeostat_gpu_throttle", "reason", "hw_thermal") == 0);
  CHECK(value("homeostat_gpu_ecc_errors_total", "kind", "uncorrected") == 3);
  CHECK(value("homeostat_gpu_nvlink_up", "link", "17") == 0);
  CHECK(value("homeostat_gpu_nvlink_up", "link", "16") == 1);
  CHECK(value("homeostat_gpu_nvlink_errors_total", "kind", "crc") == 7);
  CHECK(value("homeostat_gpu_nvlink_errors_total", "kind", "replay") == -1);
  CHECK(value("homeostat_gpu_retired_pages") == -1);
}

namespace {

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

TEST_CASE("nvml sensor: what a look over eight GPUs costs") {
  void* library = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const auto calls = reinterpret_cast<unsigned long (*)()>(dlsym(library, "homeostat_fake_nvml_calls"));
  Machine machine;
  std::string text = R"({"driver":"570.1","gpus":[)";
  for (int i = 0; i < 8; ++i)
    text += std::string(i ? "," : "") + R"({"uuid":"GPU-)" + std::to_string(i) + R"(","pci":"0000:)" +
            std::to_string(10 + i) + R"(:00.0"})";
  machine.write(text + "]}");
  Watch watch;
  watch.expected = 8;
  (void)watch.look();  // limits and names, once
  const auto before = calls();
  const auto samples = watch.look().samples.size();
  CHECK(calls() - before == 2 + 8 * 11);
  (void)watch.look();
  const auto third = calls();
  (void)watch.look();
  CHECK(calls() - third == 2 + 8 * (11 + 5 + 1));
  CHECK(samples <= 8 * 48);
  const auto began = cpu_s();
  for (int i = 0; i < 90; ++i) (void)watch.look();
  MESSAGE("CPU of a look over eight GPUs: ", (cpu_s() - began) / 90 * 1e6, " us");
  dlclose(library);
}
