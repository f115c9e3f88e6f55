#include "agent/node_state.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace homeostat;
using namespace homeostat::agent;

namespace {

const TimePoint now(std::chrono::seconds(1'700'000'000));

std::string xid(int sequence, int code, std::string device = "0000:0a:00") {
  return "3," + std::to_string(sequence) + "," + std::to_string(sequence) + "000000,-;NVRM: Xid (PCI:" + device +
         "): " + std::to_string(code) + ", x";
}

NodeState::Intake feed(NodeState& state, std::vector<std::string> records, Duration uptime = Duration(0)) {
  return state.take_records(records, false, now, uptime);
}

ProbeReport good_probe(std::vector<io::GpuReading> gpus, std::uint64_t round) {
  ProbeReport report;
  report.state = fault::ProbeState::good;
  report.reading = io::NvmlReading{"1", std::move(gpus)};
  report.rounds = round;
  return report;
}

}  // namespace

TEST_CASE("a fault of the kernel makes the node unhealthy and is urgent; an ordinary line is neither") {
  NodeState state;
  state.begin_boot("b1");
  state.take_probe(good_probe({}, 1), now);
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

TEST_CASE("lost records are reported, once") {
  NodeState state;
  state.begin_boot("b1");
  feed(state, {"6,1,1,-;a", "6,2,2,-;b"});
  state.take_records({"6,10,3,-;c"}, true, now, Duration(0));
  const auto findings = state.view(now).status.findings;
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "KMSG_GAP");
  CHECK(findings[0].count == 1);
  CHECK(findings[0].severity == "warn");
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

TEST_CASE("the probe: lost GPUs are found and named, recovery takes them out, failure is unknown") {
  NodeState state;
  state.begin_boot("b1");
  io::GpuReading gpu;
  gpu.pci = "0000:0a:00";
  gpu.uuid = "GPU-1";
  state.take_probe(good_probe({gpu}, 1), now);
  CHECK(state.view(now).status.verdict == "Healthy");
  CHECK(state.view(now).status.expected_gpus == 1);
  CHECK(state.view(now).status.devices.at(0).state == "Good");

  io::GpuReading lost;  // no longer says its name
  lost.lost = true;
  CHECK(state.take_probe(good_probe({lost}, 2), now).urgent);
  CHECK_FALSE(state.take_probe(good_probe({lost}, 2), now).changed);
  auto status = state.view(now).status;
  CHECK(status.verdict == "Unhealthy");
  CHECK(status.devices.at(0).state == "Lost");
  CHECK(status.devices.at(0).uuid == "GPU-1");
  CHECK(status.findings.at(0).device == "0000:0a:00");
  CHECK(status.findings.at(0).count == 1);

  CHECK(state.take_probe(good_probe({gpu}, 3), now).urgent);
  CHECK(state.view(now).status.verdict == "Healthy");

  CHECK(state.take_probe(good_probe({}, 4), now).urgent);
  CHECK(state.view(now).status.reason == "GpuNvmlGPU_MISSING");

  ProbeReport failed;
  failed.state = fault::ProbeState::failed;
  failed.message = "It hangs.";
  failed.rounds = 4;
  NodeState fresh;
  fresh.begin_boot("b1");
  fresh.take_probe(failed, now);
  CHECK(fresh.view(now).status.verdict == "Unknown");
  CHECK(fresh.view(now).status.message == "It hangs.");
}

TEST_CASE("the kernel's word marks the device before the probe has looked again") {
  NodeState state;
  state.begin_boot("b1");
  io::GpuReading a, b;
  a.pci = "0000:0a:00";
  a.uuid = "GPU-a";
  b.index = 1;
  b.pci = "0000:0b:00";
  b.uuid = "GPU-b";
  state.take_probe(good_probe({a, b}, 1), now);
  feed(state, {xid(1, 79), xid(2, 119, "0000:0b:00")});
  const auto devices = state.view(now).status.devices;
  CHECK(devices.at(0).state == "Lost");
  CHECK(devices.at(1).state == "Sick");
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
