#include "agent/node_state.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "api/health_report.hpp"
#include "core/fault/catalog.hpp"
#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::agent;

namespace {

const TimePoint now(std::chrono::seconds(1'700'000'000));

std::string xid(int sequence, int code, const std::string& device = "0000:0a:00") {
  return "3," + std::to_string(sequence) + "," + std::to_string(sequence) + "000000,-;NVRM: Xid (PCI:" + device +
         "): " + std::to_string(code) + ", x";
}

NodeState::Intake feed(NodeState& state, const std::vector<std::string>& records, Duration uptime = Duration(0)) {
  return state.take_records(records, now, uptime);
}

constexpr std::string_view nvml_components[] = {"gpu-nvml"};

NodeState::Intake look(NodeState& state, fault::ProbeState probe, std::vector<fault::Finding> findings = {},
                       std::string message = "") {
  SensorReport report;
  report.state = probe;
  report.findings = std::move(findings);
  report.message = std::move(message);
  return state.take_sensor("nvml", nvml_components, std::move(report), now);
}

fault::Finding lost(std::string device) {
  fault::Finding finding;
  finding.component = "gpu-nvml";
  finding.code = "LOST";
  finding.device = std::move(device);
  finding.severity = fault::Severity::fatal;
  finding.action = "RESTART_BM";
  finding.title = "The driver says that the GPU is lost";
  fault::set_repair_class(finding);
  return finding;
}

// A node whose kernel log and driver are both read.
struct Ready : NodeState {
  explicit Ready(DrillBook* drills = nullptr) : NodeState(drills) {
    begin_boot("b1");
    take_log_state(fault::ProbeState::good, "", now);
    look(*this, fault::ProbeState::good);
  }
};

}  // namespace

TEST_CASE("a fault of the kernel makes the node unhealthy and is urgent; an ordinary line is neither") {
  Ready state;
  CHECK_FALSE(feed(state, {"6,1,1,-;hello"}).changed);
  CHECK(state.view(now).status.verdict == "Healthy");
  const auto intake = feed(state, {xid(2, 79)});
  CHECK(intake.urgent);
  const auto status = state.view(now).status;
  CHECK(status.verdict == "Unhealthy");
  CHECK(status.boot_id == "b1");
  REQUIRE(status.findings.size() == 1);
  CHECK(status.findings[0].code == "79");
  CHECK(status.findings[0].first_seen == now);
}

TEST_CASE("the words of a process, continuation lines and garbage are passed over") {
  NodeState state;
  state.begin_boot("b1");
  feed(state, {"14,1,1,-;NVRM: Xid (PCI:0000:0a:00): 79, x", " SUBSYSTEM=pci", "\xff\xfe", "",
               "3,2,1,-;" + std::string(16'000, 'x'), xid(3, 13)});
  const auto findings = state.view(now).status.findings;
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "13");
}

TEST_CASE("an agent that is restarted goes on: nothing is lost, nothing is told twice") {
  Memory memory;
  {
    NodeState state;
    state.begin_boot("b1");
    feed(state, {xid(1, 31), xid(2, 31)});
    memory = *decode_memory(encode_memory(state.memory()));
  }
  NodeState state;
  state.begin_boot("b1");
  CHECK(state.recall(memory));
  // The whole log again, and what came while nobody watched.
  const auto intake = feed(state, {xid(1, 31), xid(2, 31), xid(3, 31), xid(4, 94)});
  CHECK(intake.taken == 2);
  const auto findings = state.view(now).status.findings;
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].count == 3);
  CHECK(findings[1].code == "94");
}

TEST_CASE("findings of an earlier boot are dropped") {
  NodeState state;
  state.begin_boot("b1");
  feed(state, {xid(500, 79)});
  const auto old = state.memory();
  state.begin_boot("b2");
  CHECK_FALSE(state.recall(old));
  CHECK(state.view(now).status.findings.empty());
  feed(state, {xid(1, 13)});  // sequence numbers begin anew
  CHECK(state.view(now).status.findings.size() == 1);
}

//   read 1, 2 | overwritten 3..9 | read 10 | overwritten 11 | read 12
TEST_CASE("records that were overwritten are reported with their number") {
  NodeState state;
  state.begin_boot("b1");
  feed(state, {"6,1,1,-;a", "6,2,2,-;b"});
  feed(state, {"6,10,3,-;c"});
  auto findings = state.view(now).status.findings;
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].id == "agent:KMSG_GAP");
  CHECK(findings[0].count == 1);
  CHECK(findings[0].severity == "warn");
  CHECK(findings[0].title == "7 kernel records were overwritten before they could be read");
  feed(state, {"6,12,4,-;d"});
  findings = state.view(now).status.findings;
  CHECK(findings[0].count == 2);
  CHECK(findings[0].title == "8 kernel records were overwritten before they could be read");
  MetricsInput metrics;
  state.fill_metrics(metrics, now);
  CHECK(metrics.kmsg.records == 4);
  CHECK(metrics.kmsg.gaps == 2);
  CHECK(metrics.kmsg.lost_records == 8);
}

TEST_CASE("a ring that wrapped while nobody watched is a gap, too; a fresh agent has missed nothing") {
  NodeState before;
  before.begin_boot("b1");
  feed(before, {"6,100,1,-;first"});
  CHECK(before.view(now).status.findings.empty());
  const auto memory = *decode_memory(encode_memory(before.memory()));
  NodeState after;
  after.begin_boot("b1");
  REQUIRE(after.recall(memory));
  feed(after, {"6,500,2,-;x"});
  CHECK(after.view(now).status.findings.at(0).title == "399 kernel records were overwritten before they could be read");
  CHECK(decode_memory(encode_memory(after.memory()))->lost_records == 399);
}

TEST_CASE("a line that the kernel's log folded counts as often as it came") {
  NodeState state;
  state.begin_boot("b1");
  feed(state, {"3,1,1,-;message repeated 9 times: [ NVRM: Xid (PCI:0000:0a:00): 31, x]", xid(2, 31)});
  CHECK(state.view(now).status.findings.at(0).count == 10);
}

TEST_CASE("records that were there before are dated by the log's clock, those of another clock now") {
  NodeState state;
  state.begin_boot("b1");
  feed(state, {xid(100, 13)}, std::chrono::seconds(160));
  CHECK(state.view(now).status.findings[0].first_seen == now - std::chrono::seconds(60));
  NodeState other;
  other.begin_boot("b1");
  feed(other, {xid(100, 13)}, std::chrono::seconds(50));
  CHECK(other.view(now).status.findings[0].first_seen == now);
}

TEST_CASE("a sensor: what it no longer says has recovered, while it cannot say nothing has, and it is Unknown") {
  Ready state;
  CHECK(state.view(now).status.verdict == "Healthy");
  CHECK(look(state, fault::ProbeState::good, {lost("0000:0a:00")}).urgent);
  CHECK_FALSE(look(state, fault::ProbeState::good, {lost("0000:0a:00")}).changed);  // known: no write for it
  CHECK(state.view(now).status.verdict == "Unhealthy");
  CHECK(state.view(now).status.findings.front().count == 1);  // it lasts, it did not happen again
  CHECK(look(state, fault::ProbeState::failed, {}, "It hangs.").urgent);
  CHECK_FALSE(look(state, fault::ProbeState::failed, {}, "It hangs on.").changed);
  auto status = state.view(now).status;
  CHECK(status.verdict == "Unhealthy");  // a fault that stands is not forgotten
  CHECK(status.findings.size() == 1);
  REQUIRE(status.sensors.size() == 2);
  CHECK(status.sensors[1].name == "nvml");
  CHECK(status.sensors[1].state == "Failed");
  CHECK(status.sensors[1].message == "It hangs on.");
  CHECK(look(state, fault::ProbeState::good).urgent);
  CHECK(state.view(now).status.verdict == "Healthy");
  look(state, fault::ProbeState::failed, {}, "It hangs.");
  CHECK(state.view(now).status.verdict == "Unknown");
  CHECK(state.view(now).status.message == "It hangs.");
}

//   nvml failed       Unknown    nobody can say how the accelerators are
//   kmsg failed       Unknown
//   ethernet failed   Degraded   the node works on, but it is not called healthy
//   ethernet pending  Healthy
TEST_CASE("which sensor's failure colours the verdict how") {
  const auto verdict = [](std::string_view sensor, fault::ProbeState how) {
    Ready state;
    SensorReport report;
    report.state = how;
    report.message = "No.";
    state.take_sensor(sensor, {}, std::move(report), now);
    return state.view(now).status.verdict;
  };
  CHECK(verdict("nvml", fault::ProbeState::failed) == "Unknown");
  CHECK(verdict("kmsg", fault::ProbeState::failed) == "Unknown");
  CHECK(verdict("ethernet", fault::ProbeState::failed) == "Degraded");
  CHECK(verdict("ethernet", fault::ProbeState::pending) == "Healthy");
  CHECK(verdict("ethernet", fault::ProbeState::absent) == "Healthy");
}

//   NETDEV WATCHDOG: ens8f1np1 …        names the interface
//   mlx5_core 0000:c4:00.1: poll_health  names the PCI address
TEST_CASE("an adapter's faults under its interface's name and under its address are one incident") {
  const std::vector<std::string> lines = {
      "4,1,7200000000,-;NETDEV WATCHDOG: ens8f1np1 (mlx5_core): transmit queue 3 timed out 5012 ms",
      "3,2,7200500000,-;mlx5_core 0000:c4:00.1: poll_health:978:(pid 0): device's health compromised - reached miss "
      "count"};
  const auto incidents = [&lines](bool named_before, bool named_after) {
    Ready state;
    const auto name = [&state] {
      SensorReport report;
      report.state = fault::ProbeState::good;
      report.names = {{"ens8f0np0", "0000:c4:00.0"}, {"ens8f1np1", "0000:c4:00.1"}};
      (void)state.take_sensor("ethernet", {}, std::move(report), now);
    };
    if (named_before) name();
    feed(state, lines);
    if (named_after) name();
    return state.view(now).status.incidents;
  };
  CHECK(incidents(false, false).size() == 2);
  for (const bool before : {true, false}) {
    CAPTURE(before);
    const auto joined = incidents(before, !before);
    REQUIRE(joined.size() == 1);
    CHECK(joined[0].members.size() == 2);
  }
}

TEST_CASE("a reader of the kernel log that stands still is found out") {
  Ready state;
  state.log_turns(Duration(1'000));
  state.check_log(Duration(5'000), now);
  CHECK(state.view(now).status.verdict == "Healthy");
  state.check_log(Duration(12'000), now);
  CHECK(state.view(now).status.verdict == "Unknown");
  CHECK(state.view(now).status.message == "The kernel log's reader has stood still for 11.0s.");
}

TEST_CASE("devices are named while they can be, and the kernel's word marks them before the driver says so") {
  Ready state;
  state.take_devices(GpuVendor::nvidia, {{0, "GPU-a", "0000:0a:00", false, ""}, {1, "GPU-b", "0000:0b:00", false, ""}});
  CHECK(state.expected_gpus() == 2);
  CHECK(state.known_gpu_count() == 2);
  feed(state, {xid(1, 79), xid(2, 119, "0000:0b:00")});
  const auto devices = state.view(now).status.devices;
  CHECK(devices.at(0).state == "Lost");
  CHECK(devices.at(0).uuid == "GPU-a");
  CHECK(devices.at(1).state == "Sick");
  look(state, fault::ProbeState::failed);
  CHECK(state.view(now).status.devices.at(0).state == "Lost");
}

TEST_CASE("AMD GPUs are listed, expected, missed and remembered without NVML") {
  NodeState state;
  const std::string_view name = "amd";
  state.expect_sensors({&name, 1});
  state.begin_boot("boot");
  state.take_devices(GpuVendor::amd, {{0, "GPU-a", "0000:c1:00", false, ""}, {1, "", "0000:c3:00", false, ""}});
  const std::array<std::string_view, 1> components = {"amd-counters"};
  SensorReport report;
  report.state = fault::ProbeState::good;
  (void)state.take_sensor("amd", components, report, now);
  CHECK(state.expected_gpus_of("amd") == 2);
  CHECK(state.expected_gpus_of("nvml") == 0);
  auto status = state.view(now).status;
  CHECK(status.expected_gpus == 2);
  REQUIRE(status.devices.size() == 2);
  CHECK(status.devices[0] == api::DeviceHealth{"0000:c1:00", 0, "GPU-a", "Good", ""});

  NodeState after;  // a restart of the agent
  after.begin_boot("boot");
  const auto memory = decode_memory(encode_memory(state.memory()));
  REQUIRE(memory);
  CHECK(after.recall(*memory));
  REQUIRE(after.known_gpus(GpuVendor::amd).size() == 2);
  CHECK(after.known_gpus(GpuVendor::amd)[1].pci == "0000:c3:00");
  CHECK(after.known_gpus(GpuVendor::nvidia).empty());
  CHECK(after.expected_gpus_of("amd") == 2);

  fault::Finding lost;
  lost.component = "amd-counters";
  lost.code = "GPU_LOST";
  lost.device = "0000:c3:00";
  lost.severity = fault::Severity::fatal;
  lost.repair_class = fault::RepairClass::replace_node;
  report.findings = {lost};
  state.take_devices(GpuVendor::amd, {{0, "GPU-a", "0000:c1:00", false, "AMD GPU 0000:c1:00 cannot be asked."},
                                      {1, "", "0000:c3:00", false, "The amdgpu driver has let the GPU go."}});
  (void)state.take_sensor("amd", components, report, now);
  status = state.view(now).status;
  CHECK(status.devices[0].state == "Unknown");
  CHECK(status.devices[1].state == "Lost");
  // Given to a virtual machine: nobody's to miss.
  state.take_devices(GpuVendor::amd, {{0, "GPU-a", "0000:c1:00", false, ""}});
  CHECK(state.expected_gpus_of("amd") == 1);
}

TEST_CASE("what is on the bus says whose the expected GPUs are, until a driver does") {
  NodeState state;
  state.set_expected_gpus(8);
  state.set_vendor_on_bus(GpuVendor::amd);
  CHECK(state.expected_gpus_of("amd") == 8);
  CHECK(state.expected_gpus_of("nvml") == 0);
  state.take_devices(GpuVendor::nvidia, {{0, "GPU-a", "0000:0a:00", false, ""}});
  CHECK(state.expected_gpus_of("nvml") == 8);
  state.set_expected_gpus(8, GpuVendor::amd);  // the Node says so
  CHECK(state.expected_gpus_of("amd") == 8);
}

TEST_CASE("AMD accelerators without a driver say whose the expected GPUs are") {
  NodeState state;
  state.set_expected_gpus(8);
  CHECK(state.expected_gpus_of("amd") == 0);
  SensorReport report;
  for (const auto said : {fault::ProbeState::failed, fault::ProbeState::pending}) {
    report.state = said;
    report.message = "AMD accelerators are on the PCI bus.";
    (void)state.take_sensor("amd", {}, report, now);
    CHECK(state.expected_gpus_of("amd") == 8);
    CHECK(state.expected_gpus_of("nvml") == 0);
  }
}

TEST_CASE("each vendor's sensor is told of its own GPUs only") {
  NodeState state;
  state.set_expected_gpus(8, GpuVendor::amd);
  CHECK(state.expected_gpus_of("amd") == 8);
  CHECK(state.expected_gpus_of("nvml") == 0);
  state.set_expected_gpus(8, GpuVendor::nvidia);
  CHECK(state.expected_gpus_of("amd") == 0);
  CHECK(state.expected_gpus_of("nvml") == 8);
  state.set_expected_gpus(8);  // nobody says whose: NVIDIA's, unless AMD's sensor has seen some
  CHECK(state.expected_gpus_of("nvml") == 8);
  SensorReport seen;
  seen.state = fault::ProbeState::good;
  state.take_sensor("amd", {}, std::move(seen), now);
  CHECK(state.expected_gpus_of("amd") == 8);
  CHECK(state.expected_gpus_of("nvml") == 0);
}

TEST_CASE("what a program wrote into the log is counted as a forgery and is no fault") {
  Ready state;
  feed(state, {"12,1,1,-;NVRM: Xid (PCI:0000:0a:00): 79, x", "14,2,2,-;hello"});
  const auto status = state.view(now).status;
  CHECK(status.verdict == "Healthy");
  CHECK(status.findings.empty());
  CHECK(status.forgeries == 1);
  CHECK(decode_memory(encode_memory(state.memory()))->forgeries == 1);
}

//   10,000 lines of 8 GPUs and as many codes as there are numbers, in batches as the reader hands them over
TEST_CASE("a storm costs no more memory than its findings, and all of it fits into a NodeHealth") {
  Ready state;
  int sequence = 0;
  for (int batch = 0; batch < 100; ++batch) {
    std::vector<std::string> records;
    for (int i = 0; i < 100; ++i) {
      ++sequence;
      records.push_back(xid(sequence, sequence % 1000, "0000:0" + std::to_string(sequence % 8) + ":00") +
                        std::string(4000, 'x'));
    }
    feed(state, records);
  }
  const auto view = state.view(now);
  CHECK(view.status.findings.size() <= 64);
  CHECK(view.status.dropped_findings > 0);
  CHECK(view.status.incidents.size() <= 16);
  CHECK(io::to_text(api::encode_node_health_status(view.status)).size() <= api::max_status_bytes);
  CHECK(encode_memory(state.memory()).size() < 128 * 1024);
}

TEST_CASE("urgent changes wake the waiting reporter, others do not") {
  NodeState state;
  state.begin_boot("b1");
  const auto seen = state.urgent_version();
  feed(state, {xid(1, 43)});  // info
  CHECK_FALSE(state.wait(seen, Duration(0), {}).urgent);
  feed(state, {xid(2, 79)});
  CHECK(state.wait(seen, Duration(60'000), {}).urgent);
}
