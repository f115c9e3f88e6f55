#include "core/fault/repeat.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/fault/classify.hpp"
#include "core/fault/incident.hpp"
#include "core/fault/ledger.hpp"

using namespace homeostat;
using namespace homeostat::fault;

namespace {

TimePoint at(std::int64_t seconds) { return TimePoint(std::chrono::seconds(1'700'000'000 + seconds)); }

struct Node {
  Change line(std::int64_t seconds, std::string_view text) {
    const auto finding = classify_text(text);
    INFO(text);
    REQUIRE(finding);
    return ledger.observe(*finding, at(seconds), text);
  }
  // The class that the entry of that id asks for, "" when there is none.
  std::string asks(std::string_view id, std::int64_t seconds, std::vector<PolicyRule> rules = {}) {
    ledger.settle(at(seconds));
    for (const auto& entry : ledger.entries())
      if (entry.id == id) return std::string(to_string(treatment(entry, rules).repair_class));
    return "";
  }
  Ledger ledger;
};

constexpr std::int64_t hour = 3'600;
constexpr std::string_view crash_a = "NVRM: Xid (PCI:0000:0a:00): 31, pid=1, MMU Fault";
constexpr std::string_view crash_b = "NVRM: Xid (PCI:0000:0b:00): 31, pid=1, MMU Fault";
constexpr std::string_view all_well =
    "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)";

}  // namespace

// hours:    0          1          2          26
//           crash      crash      crash      (a day later)
//           restart    restart    drain      restart
TEST_CASE("a program's crash is the program's until it comes again and again on one GPU") {
  Node node;
  const std::string id = "gpu-xid:31@0000:0a:00";
  for (int line = 0; line < 50; ++line) node.line(line, crash_a);  // one crash, many lines
  CHECK(node.asks(id, 60) == "restart-job");
  node.line(hour, crash_a);
  CHECK(node.asks(id, hour) == "restart-job");
  node.line(2 * hour, crash_a);
  CHECK(node.asks(id, 2 * hour) == "drain-after-job");
  const auto set = incidents_of(node.ledger.entries(), {}, at(2 * hour));
  REQUIRE(set.incidents.size() == 1);
  CHECK(set.incidents[0].title.ends_with("; it comes more often than is tolerated"));
  CHECK(judge(set, ProbeState::good, "").verdict == NodeVerdict::degraded);
  SUBCASE("a rule of the policy stands above") {
    CHECK(node.asks(id, 2 * hour, {{"gpu-xid", "31", "", RepairClass::watch}}) == "watch");
  }
  SUBCASE("it is over when the window has passed") { CHECK(node.asks(id, 30 * hour) == "restart-job"); }
}

TEST_CASE("a program that crashes on every GPU is no sick GPU") {
  Node node;
  for (int job = 0; job < 4; ++job) {
    node.line(job * hour, crash_a);
    node.line(job * hour + 1, crash_b);
  }
  CHECK(node.asks("gpu-xid:31@0000:0a:00", 4 * hour) == "restart-job");
  // One crash elsewhere does not clear a GPU that has many.
  Node other;
  for (int job = 0; job < 4; ++job) other.line(job * hour, crash_a);
  other.line(4 * hour, crash_b);
  CHECK(other.asks("gpu-xid:31@0000:0a:00", 4 * hour) == "drain-after-job");
  CHECK(other.asks("gpu-xid:31@0000:0b:00", 4 * hour) == "restart-job");
}

// s:    0     7    13    20    26          600
//       down  up   down  up   down up      |
//       watch .    watch .    drain drain  .          the link is up, and still not to be trusted
TEST_CASE("a link that flaps is not well because it is up") {
  Node node;
  const std::string id = "nic:LINK_DOWN@0000:53:00.0";
  const auto down = [&](std::int64_t s) {
    node.line(s, "mlx5_core 0000:53:00.0 enp83s0f0np0: Link down");
    node.line(s, "mlx5_core 0000:53:00.0 mlx5_3: Port: 1 Link DOWN");  // the twin counts with it
  };
  const auto up = [&](std::int64_t s) { return node.line(s, "mlx5_core 0000:53:00.0 enp83s0f0np0: Link up"); };
  down(0);
  CHECK(node.asks(id, 0) == "watch");
  CHECK(up(7) == Change::resolved);
  CHECK(node.asks(id, 7).empty());
  down(13);
  CHECK(up(20) == Change::resolved);
  down(26);
  CHECK(node.asks(id, 26) == "drain-after-job");
  up(30);
  CHECK(node.asks(id, 30) == "drain-after-job");
  CHECK(node.ledger.entries()[0].cured);
  CHECK(node.asks(id, 900).empty());
  CHECK(node.ledger.entries().empty());
}

TEST_CASE("a fault that a reset did not cure comes back as a graver one") {
  Node node;
  const std::string id = "gpu-xid:109@0000:0a:00";
  const std::string_view hang =
      "NVRM: Xid (PCI:0000:0a:00): 109, pid=1, name=a, Ch 00000008, errorString CTX SWITCH TIMEOUT";
  for (int line = 0; line < 5; ++line) node.line(0, hang);
  CHECK(node.asks(id, 0) == "reset");
  CHECK(node.line(300, all_well) == Change::resolved);
  CHECK(node.asks(id, 300).empty());
  node.line(5 * hour, hang);
  CHECK(node.asks(id, 5 * hour) == "replace-node");
}

TEST_CASE("corrected errors count by rate, with repetitions that the log has folded, and fall back late") {
  Node node;
  const std::string id = "pcie-aer:AER_CORRECTABLE@0000:00:03.1";
  const std::string line =
      "pcieport 0000:00:03.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)";
  node.line(0, line);
  CHECK(node.asks(id, 0) == "ignore");
  CHECK(incidents_of(node.ledger.entries(), {}, at(0)).incidents.empty());
  node.line(10, "kernel: message repeated 998 times: [ " + line + "]");
  CHECK(node.asks(id, 10) == "ignore");
  node.line(20, line);
  CHECK(node.asks(id, 20) == "drain-after-job");
  CHECK(incidents_of(node.ledger.entries(), {}, at(20)).incidents.size() == 1);
  // Still half of it an hour later: no end yet.
  node.line(3'000, "kernel: message repeated 600 times: [ " + line + "]");
  CHECK(node.asks(id, 4'500) == "drain-after-job");
  CHECK(node.asks(id, 3 * hour) == "ignore");
}

TEST_CASE("what has come how often survives the agent, is bounded, and a clock that is set back changes nothing") {
  RepeatHistory history;
  const RepeatLimit limit{3, Duration(600'000), Duration(1'000), RepairClass::drain_after_job, false};
  history.add("a@1", limit, at(1'000), 1);
  history.add("a@1", limit, at(1'010), 1);
  history.add("a@1", limit, at(500), 1);  // counts, and moves nothing
  RepeatHistory again;
  again.restore(history.records());
  CHECK(again.weigh("a@1", limit, at(1'010)));
  CHECK_FALSE(again.weigh("a@2", limit, at(1'010)));
  CHECK_FALSE(again.weigh("a@1", limit, at(3'000)));
  for (int i = 0; i < 1'000; ++i) history.add("b@" + std::to_string(i), limit, at(2'000 + i), 1);
  CHECK(history.records().size() == RepeatHistory::max_ids);
  // A count stays at its largest.
  const RepeatLimit lines{1'000, Duration(600'000), Duration(0), RepairClass::drain_after_job, false};
  for (int i = 0; i < 3; ++i) history.add("c@1", lines, at(9'000), 4'000'000'000);
  CHECK(history.weigh("c@1", lines, at(9'000)));
}
