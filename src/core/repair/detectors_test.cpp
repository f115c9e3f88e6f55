#include "core/repair/detectors.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::repair;
using fault::RepairClass;

namespace {

constexpr TimePoint start{Duration{1'764'483'000'000}};
constexpr Duration second{1'000};

NodeCondition condition(std::string type, std::string status, std::string reason = "", TimePoint since = start) {
  return {std::move(type), std::move(status), std::move(reason), "", since, std::nullopt};
}

DetectorPolicy policy() {
  DetectorPolicy policy;
  policy.conditions = {
      {"AcceleratedHardwareReady", "False", "NvidiaXID79Error", 60 * second, "gpu-xid", "79", fault::Severity::fatal,
       RepairClass::replace_node},
      {"AcceleratedHardwareReady", "False", "NvidiaXID*", 0 * second, "gpu-xid", "OTHER", fault::Severity::error,
       RepairClass::watch},
      {"KernelDeadlock", "True", "", 60 * second, "kernel", "KERNEL_DEADLOCK", fault::Severity::error,
       RepairClass::replace_node},
      {"AMDGPU*", "True", "", 0 * second, "amd-ras", "OTHER", fault::Severity::error, RepairClass::reset},
  };
  return policy;
}

NodeSight well() {
  NodeSight sight;
  sight.node = "n1", sight.node_uid = "u1", sight.boot_id = "b1";
  sight.created_at = start - 3600 * second;
  sight.last_report = start;
  sight.slurm = SlurmSight::answers;
  sight.machine = MachineSight::there;
  sight.conditions = {condition("Ready", "True")};
  return sight;
}

// Looks every five seconds, for so long; the last detection.
Detection watch(const NodeSight& sight, Duration duration, const DetectorPolicy& rules = policy()) {
  Continuity continuity;
  Detection last;
  for (Duration at{0}; at <= duration; at += 5 * second) {
    NodeSight now = sight;
    if (sight.agent_silent_for > Duration{0}) now.agent_silent_for = at;
    last = detect(now, rules, continuity, start + at, at);
  }
  return last;
}

std::string story(const Detection& detection) {
  std::string text;
  for (const Finding& finding : detection.findings)
    text += finding.fault.component + "/" + finding.fault.code + " " +
            std::string(fault::to_string(finding.repair_class)) + (finding.held < finding.wanted ? " held" : "") + ";";
  return text;
}

}  // namespace

// type, status, reason | watched for | what it is
TEST_CASE("Node conditions become faults by the first rule that fits, once they have stood long enough") {
  struct Row {
    const char *type, *status, *reason;
    int seconds;
    const char* story;
  };
  constexpr Row rows[] = {
      {"KernelDeadlock", "True", "DockerHung", 0, "kernel/KERNEL_DEADLOCK replace-node held;"},
      {"KernelDeadlock", "True", "DockerHung", 55, "kernel/KERNEL_DEADLOCK replace-node held;"},
      {"KernelDeadlock", "True", "DockerHung", 60, "kernel/KERNEL_DEADLOCK replace-node;"},
      {"KernelDeadlock", "False", "KernelHasNoDeadlock", 600, ""},
      {"KernelDeadlock", "Unknown", "NoInfo", 600, ""},
      {"AcceleratedHardwareReady", "True", "", 600, ""},
      {"AcceleratedHardwareReady", "False", "NvidiaXID79Error", 60, "gpu-xid/79 replace-node;"},
      {"AcceleratedHardwareReady", "False", "NvidiaXID48Error", 0, "gpu-xid/OTHER watch;"},
      {"AcceleratedHardwareReady", "False", "DCGMError", 600, ""},
      {"AMDGPUXgmi", "True", "", 0, "amd-ras/OTHER reset;"},
      {"AMDXgmi", "True", "", 600, ""},
      {"SomethingNew", "True", "", 600, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.type);
    CAPTURE(row.seconds);
    NodeSight sight = well();
    sight.conditions.push_back(condition(row.type, row.status, row.reason));
    CHECK(story(watch(sight, row.seconds * second)) == row.story);
  }
}

TEST_CASE("what a finding carries for the repair") {
  NodeSight sight = well();
  sight.conditions.push_back({"KernelDeadlock", "True", "DockerHung", "task dockerd blocked", start, std::nullopt});
  Finding finding = watch(sight, 60 * second).findings.at(0);
  CHECK(finding.fault.source == "condition:KernelDeadlock=True");
  CHECK(finding.fault.evidence == "Node condition KernelDeadlock is True (DockerHung): task dockerd blocked");
  CHECK(finding.fault.observed_at == start);
  CHECK(finding.fault.severity == "error");
  auto source = source_condition(finding.fault);
  REQUIRE(source);
  CHECK(source->type == "KernelDeadlock");
  CHECK(source->status == "True");
}

//  seconds  0    20   40   60   80   100  ...
//  status   True False True False True ...     transitions each 20 s: never 60 s in a row
TEST_CASE("a condition that comes and goes never counts, also when we miss that it was gone") {
  for (bool we_miss_the_good_half : {false, true}) {
    CAPTURE(we_miss_the_good_half);
    Continuity continuity;
    for (int at = 0; at < 1200; at += 5) {
      bool bad = at / 20 % 2 == 0;
      if (we_miss_the_good_half && !bad) continue;
      NodeSight sight = well();
      sight.conditions.push_back(
          condition("KernelDeadlock", bad ? "True" : "False", "", start + (at / 20 * 20) * second));
      auto seen = detect(sight, policy(), continuity, start + at * second, at * second);
      CHECK(story(seen) == (bad ? "kernel/KERNEL_DEADLOCK replace-node held;" : ""));
    }
  }
}

TEST_CASE("the clocks of nodes prove nothing by themselves") {
  NodeSight sight = well();
  SUBCASE("a transition an hour ago by a clock that is an hour slow") {
    sight.conditions.push_back(condition("KernelDeadlock", "True", "", start - 3600 * second));
    CHECK(story(watch(sight, 30 * second)) == "kernel/KERNEL_DEADLOCK replace-node held;");
  }
  SUBCASE("a transition in the future") {
    sight.conditions.push_back(condition("KernelDeadlock", "True", "", start + 3600 * second));
    CHECK(story(watch(sight, 60 * second)) == "kernel/KERNEL_DEADLOCK replace-node;");
  }
  SUBCASE("heartbeats of the same clock do prove a duration, after ten seconds of our own") {
    auto beating = condition("KernelDeadlock", "True", "", start - 7200 * second + 3600 * second);
    beating.heartbeat_at = start - 3500 * second;
    sight.conditions.push_back(beating);
    CHECK(story(watch(sight, 5 * second)) == "kernel/KERNEL_DEADLOCK replace-node held;");
    CHECK(story(watch(sight, 10 * second)) == "kernel/KERNEL_DEADLOCK replace-node;");
  }
  SUBCASE("unless the clock was set in between: a transition before the Node existed") {
    auto jumped = condition("KernelDeadlock", "True", "", TimePoint{Duration{0}});
    jumped.heartbeat_at = start;
    sight.conditions.push_back(jumped);
    CHECK(story(watch(sight, 55 * second)) == "kernel/KERNEL_DEADLOCK replace-node held;");
    CHECK(story(watch(sight, 60 * second)) == "kernel/KERNEL_DEADLOCK replace-node;");
  }
}

TEST_CASE("while a node starts up nothing counts, and it is looked at when that is over") {
  NodeSight sight = well();
  sight.conditions.push_back(condition("AMDGPUXgmi", "True"));
  SUBCASE("a Node that was just made") {
    sight.created_at = start;
    CHECK(story(watch(sight, 295 * second)) == "");
    CHECK(watch(sight, 290 * second).look_again == 10 * second);
    CHECK(story(watch(sight, 300 * second)) == "amd-ras/OTHER reset;");
  }
  SUBCASE("a Node that has rebooted before our eyes") {
    Continuity continuity;
    CHECK(story(detect(sight, policy(), continuity, start, 0 * second)) == "amd-ras/OTHER reset;");
    sight.boot_id = "b2";
    CHECK(story(detect(sight, policy(), continuity, start, 5 * second)) == "");
    CHECK(story(detect(sight, policy(), continuity, start, 304 * second)) == "");
    CHECK(story(detect(sight, policy(), continuity, start, 305 * second)) == "amd-ras/OTHER reset;");
  }
  SUBCASE("a Node made in the future: our clock or the server's is wrong, so its age proves nothing") {
    sight.created_at = start + 3600 * second;
    CHECK(story(watch(sight, 0 * second)) == "amd-ras/OTHER reset;");
  }
}

//  kubelet | agent | slurmd | else | after 120 s | after 300 s
TEST_CASE("a lost heartbeat is told from a dead machine") {
  struct Row {
    const char* kubelet;
    bool agent_silent;
    SlurmSight slurm;
    const char* other;  // cordoned, gone, many
    const char *after_120, *after_300;
  };
  using enum SlurmSight;
  constexpr Row rows[] = {
      {"True", false, answers, "", "", ""},
      {"True", true, answers, "", "agent/AGENT_SILENT watch;", "agent/AGENT_SILENT watch;"},
      {"True", true, silent, "", "agent/AGENT_SILENT watch;", "agent/AGENT_SILENT watch;"},
      {"False", false, answers, "", "node/KUBELET_NOT_READY watch;", "node/KUBELET_NOT_READY watch;"},
      {"False", true, silent, "", "node/KUBELET_NOT_READY watch;", "node/KUBELET_NOT_READY watch;"},
      {"Unknown", false, answers, "", "node/KUBELET_SILENT watch;", "node/KUBELET_SILENT watch;"},
      {"Unknown", false, silent, "", "node/KUBELET_SILENT watch;", "node/KUBELET_SILENT watch;"},
      {"Unknown", true, silent, "", "node/NODE_LOST replace-node held;", "node/NODE_LOST replace-node;"},
      {"Unknown", true, not_in_slurm, "", "node/NODE_LOST replace-node held;", "node/NODE_LOST replace-node;"},
      {"Unknown", true, answers, "", "node/NODE_SILENT watch;", "node/NODE_SILENT watch;"},
      {"Unknown", true, unknown, "", "node/NODE_SILENT watch;", "node/NODE_SILENT watch;"},
      {"Unknown", true, silent, "cordoned", "node/NODE_SILENT watch;", "node/NODE_SILENT watch;"},
      {"Unknown", true, silent, "gone", "node/NODE_SILENT watch;", "node/NODE_SILENT watch;"},
      {"Unknown", true, silent, "many", "node/NODE_SILENT watch;", "node/NODE_SILENT watch;"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.kubelet);
    CAPTURE(row.agent_silent);
    CAPTURE(static_cast<int>(row.slurm));
    CAPTURE(row.other);
    NodeSight sight = well();
    sight.conditions = {condition("Ready", row.kubelet)};
    sight.agent_silent_for = row.agent_silent ? second : Duration{0};
    sight.slurm = row.slurm;
    sight.cordoned_by_others = row.other == std::string("cordoned");
    if (row.other == std::string("gone")) sight.machine = MachineSight::gone;
    if (row.other == std::string("many")) sight.fleet = "9 of 10 nodes fell silent";
    CHECK(story(watch(sight, 115 * second)) == "");
    CHECK(story(watch(sight, 120 * second)) == row.after_120);
    CHECK(story(watch(sight, 300 * second)) == row.after_300);
  }
}

TEST_CASE("a node that is lost: what the repair gets, and when it is looked at") {
  NodeSight sight = well();
  sight.conditions = {condition("Ready", "Unknown", "NodeStatusUnknown")};
  sight.agent_silent_for = second;
  sight.slurm = SlurmSight::silent;
  Detection early = watch(sight, 120 * second);
  CHECK(early.look_again == 30 * second);  // it may be heard again, or be one of many
  Finding finding = watch(sight, 300 * second).findings.at(0);
  CHECK(finding.fault.source == silence_source);
  CHECK(finding.fault.observed_at == sight.last_report);  // so that a later report, by the same clock, withdraws it
  CHECK(finding.fault.severity == "fatal");
  CHECK(finding.epoch == "silence/" + format_rfc3339(start));
  CHECK(watch(sight, 100 * second).look_again == 20 * second);
}

TEST_CASE("when many fall silent within a minute it is not the nodes") {
  auto fleet = [](int nodes, int silent, Duration spread) {
    std::vector<FleetNode> all;
    all.reserve(static_cast<size_t>(nodes));
    for (int i = 0; i < nodes; ++i) all.push_back({"n" + std::to_string(i), i < silent, i * spread});
    return all;
  };
  struct Row {
    int nodes, silent;
    Duration spread;
    bool frozen;
  };
  const Row rows[] = {
      {3, 1, 0 * second, false},      {3, 2, 0 * second, false},     {3, 3, 0 * second, true},
      {10, 2, 1 * second, false},     {10, 3, 1 * second, true},     {10, 3, 61 * second, false},
      {100, 20, 1 * second, false},   {100, 21, 1 * second, true},   {100, 100, 600 * second, false},
      {1000, 200, 0 * second, false}, {1000, 201, 0 * second, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    CAPTURE(row.silent);
    CHECK_FALSE(silence_of_many("n0", fleet(row.nodes, row.silent, row.spread)).empty() == row.frozen);
  }
  CHECK(silence_of_many("n0", fleet(3, 3, 0 * second)).find("3 of 3 nodes") == 0);
  CHECK(silence_of_many("n9", fleet(10, 9, 0 * second)) == "");        // it is heard itself
  CHECK(silence_of_many("stranger", fleet(10, 9, 0 * second)) == "");  // nobody knows it
}

TEST_CASE("continuity: bounded, by key and mark") {
  Continuity continuity;
  CHECK(continuity.held("a", "x", 10 * second) == 0 * second);
  CHECK(continuity.held("a", "x", 40 * second) == 30 * second);
  CHECK(continuity.held("a", "y", 50 * second) == 0 * second);
  CHECK(continuity.held("a", "x", 60 * second) == 0 * second);
  CHECK_FALSE(continuity.since_change("b", "x", 60 * second));
  CHECK(continuity.since_change("b", "y", 61 * second) == 0 * second);
  CHECK(continuity.since_change("b", "y", 63 * second) == 2 * second);
  for (size_t i = 0; i < Continuity::max_keys + 100; ++i)
    (void)continuity.held("k" + std::to_string(i), "", 100 * second + Duration(static_cast<std::int64_t>(i)));
  CHECK(continuity.size() == Continuity::max_keys);
  continuity.forget("k1");
  CHECK(continuity.size() < Continuity::max_keys);
  CHECK(continuity.held("k1", "", 999 * second) == 0 * second);
}
