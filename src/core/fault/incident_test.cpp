#include "core/fault/incident.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "core/fault/catalog.hpp"
#include "core/fault/classify.hpp"

using namespace homeostat;
using namespace homeostat::fault;

namespace {

TimePoint at(std::int64_t ms) { return TimePoint(Duration(1'700'000'000'000 + ms)); }

struct Line {
  std::int64_t ms;
  std::string text;
};

std::string xid(std::string_view bus, std::string_view rest) {
  std::string out = "NVRM: Xid (PCI:0000:";
  ((out += bus) += ":00): ") += rest;
  return out;
}

Finding sensed(std::string component, std::string code, std::string device, Severity severity = Severity::error,
               RepairClass repair_class = RepairClass::watch) {
  Finding finding;
  finding.component = std::move(component);
  finding.code = std::move(code);
  finding.device = std::move(device);
  finding.severity = severity;
  finding.repair_class = repair_class;
  finding.title = finding.code;
  return finding;
}

// A node that is watched: lines and reports come in, incidents are read off.
class Node {
 public:
  Node() = default;
  explicit Node(Topology topology) { ledger.set_topology(std::move(topology)); }

  Change line(std::int64_t ms, std::string_view text) {
    const auto finding = classify_text(text);
    INFO(text);
    REQUIRE(finding);
    return sense(ms, *finding, text);
  }
  Change sense(std::int64_t ms, const Finding& finding, std::string_view evidence = "") {
    now = std::max(now, ms);
    return ledger.observe(finding, at(ms), evidence);
  }
  void lines(const std::vector<Line>& all) {
    for (const auto& [ms, text] : all) line(ms, text);
  }
  IncidentSet incidents() {
    ledger.settle(at(now));
    return incidents_of(ledger.entries(), rules, at(now));
  }
  // "replace-node gpu-xid:79@0000:17:00 +gpu-lost:79@0000:17:00 >gpu-xid:45@0000:18:00 !nvlink:..": one line for each
  // incident: class, root, +companions, >cascades, !victims, each sorted.
  std::string tree() {
    std::string out;
    for (const auto& incident : incidents().incidents) {
      std::vector<std::string> members;
      for (const auto& member : incident.members)
        if (member.role != Role::root)
          members.push_back((member.role == Role::companion ? "+"
                             : member.role == Role::cascade ? ">"
                                                            : "!") +
                            member.finding);
      std::sort(members.begin(), members.end());
      ((out += to_string(incident.repair_class)) += ' ') += incident.root;
      for (const auto& member : members) (out += ' ') += member;
      out += '\n';
    }
    return out;
  }

  Ledger ledger;
  std::vector<PolicyRule> rules;
  std::int64_t now = 0;
};

std::string tree_of(const std::vector<Line>& lines, Topology topology = {}) {
  Node node(std::move(topology));
  node.lines(lines);
  return node.tree();
}

const std::string nvlink_fatal = "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x0 0x0 0x0 0x0 0x0)";
const std::string nvlink_victim = "145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 03 (0x040868e2 0x00000008 0x0 0x0 0x0 0x0)";
const std::string drain_and_reset = "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)";
const std::string reset_wanted = "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)";
const std::string reboot_wanted = "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)";
const std::string all_well = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)";

// ms:   0   1    2  3  4 ...     20   21       30
//       48  171  48 171 48 ...   63   154/0x4  45        one GPU, eight channels
std::vector<Line> ecc_lines() {
  std::vector<Line> lines;
  for (std::int64_t channel = 0; channel < 8; ++channel) {
    lines.push_back({2 * channel, xid("55", "48, An uncorrectable double bit error (DBE) has been detected on GPU")});
    lines.push_back({2 * channel + 1, xid("55", "171, GDDR, Uncorrectable DRAM error in FBPA 3")});
  }
  lines.push_back({20, xid("55", "63, Row Remapper: New row marked for remapping, reset gpu to activate.")});
  lines.push_back({21, xid("55", drain_and_reset)});
  lines.push_back({25, xid("55", "95, Uncontained")});
  lines.push_back({30, xid("55", "45, pid=9, name=a, Ch 00000001")});
  return lines;
}

}  // namespace

TEST_CASE("a dozen lines of one ECC error are one incident, whatever came first") {
  const std::string expected =
      "reset gpu-xid:48@0000:55:00 +gpu-xid:154/0x4@0000:55:00 +gpu-xid:171@0000:55:00 +gpu-xid:63@0000:55:00 "
      "+gpu-xid:95@0000:55:00 >gpu-xid:45@0000:55:00\n";
  auto lines = ecc_lines();
  Node node;
  node.lines(lines);
  CHECK(node.tree() == expected);
  CHECK(node.ledger.entries()[0].count == 8);
  std::reverse(lines.begin(), lines.end());
  for (size_t i = 0; i < lines.size(); ++i) lines[i].ms = static_cast<std::int64_t>(i);
  CHECK(tree_of(lines) == expected);
}

// ms:    0          1          2       3     40       50        60
//   :16  AER fatal of the port
//   :17             79         lost    154/0x2        45
//   :18                                               45        149 (its link to :17 is gone)
TEST_CASE("a GPU off the bus: what the bus, its peers and its job say belongs to it") {
  const std::vector<Line> lines = {
      {0,
       "pcieport 0000:16:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"},
      {1, xid("17", "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")},
      {2, "NVRM: GPU 0000:17:00.0: GPU has fallen off the bus."},
      {40, xid("17", reboot_wanted)},
      {50, xid("17", "45, pid=7, name=a, Ch 00000001")},
      {50, xid("18", "45, pid=8, name=a, Ch 00000001")},
      {60, xid("18", nvlink_fatal)},
  };
  SUBCASE("with the wiring known the port's error is a companion: the GPU names what to look at") {
    CHECK(tree_of(lines, {{{"0000:17:00", "0000:16:00.0"}}}) ==
          "replace-node gpu-xid:79@0000:17:00 !nvlink:149/NETIR_LINK_EVT@0000:18:00 +gpu-lost:79@0000:17:00 "
          "+gpu-xid:154/0x2@0000:17:00 +pcie-aer:AER_FATAL@0000:16:00.0 >gpu-xid:45@0000:17:00 "
          ">gpu-xid:45@0000:18:00\n");
  }
  SUBCASE("a line that names port and device is as good") {
    CHECK(tree_of({{0, "pcieport 0000:15:01.0: AER: Uncorrected (Fatal) error received: 0000:17:00.0"},
                   {1, "pcieport 0000:15:01.0: DPC: containment event, status:0x1f11 source:0x0000"},
                   {5, xid("17", "79, GPU has fallen off the bus.")}}) ==
          "replace-node gpu-xid:79@0000:17:00 +pcie-aer:AER_FATAL@0000:17:00.0 "
          "+pcie-aer:DPC_CONTAINMENT@0000:15:01.0\n");
  }
  SUBCASE("without, nothing is guessed") {
    const auto tree = tree_of(lines);
    CHECK(tree.find("replace-node pcie-aer:AER_FATAL@0000:16:00.0\n") != std::string::npos);
    CHECK(tree.find("replace-node gpu-xid:79@0000:17:00 !nvlink") != std::string::npos);
    CHECK(tree.find("AER_FATAL", tree.find("AER_FATAL") + 1) == std::string::npos);
  }
}

//            port 15:00.0
//            /          \              one port explains two lost GPUs; two GPUs do not fail at once by chance
//        17:00 79     18:00 79
TEST_CASE("a PCIe port that takes several GPUs along is the root") {
  const Topology wiring{{{"0000:17:00", "0000:15:00.0"}, {"0000:18:00", "0000:15:00.0"}}};
  CHECK(tree_of({{0, xid("17", "79, x")},
                 {5, xid("18", "79, x")},
                 {9, "pcieport 0000:15:00.0: DPC: containment event, status:0x1f01 source:0x0000"}},
                wiring) ==
        "replace-node pcie-aer:DPC_CONTAINMENT@0000:15:00.0 +gpu-xid:79@0000:17:00 +gpu-xid:79@0000:18:00\n");
}

TEST_CASE("a GPU that is lost without any Xid is an incident all the same, and NVML's view of it joins later") {
  Node node;
  node.line(0, "NVRM: GPU 18:00.0: GPU has fallen off the bus.");  // names no PCI domain
  CHECK(node.tree() == "replace-node gpu-lost:79@18:00\n");
  const auto id = node.incidents().incidents.at(0).id;
  node.sense(7'000, sensed("gpu-nvml", "LOST", "0000:18:00", Severity::fatal, RepairClass::replace_node));
  node.sense(7'000, sensed("gpu-nvml", "GPU_MISSING", "", Severity::fatal, RepairClass::replace_node));
  CHECK(node.tree() == "replace-node gpu-lost:79@18:00 +gpu-nvml:GPU_MISSING +gpu-nvml:LOST@0000:18:00\n");
  CHECK(node.incidents().incidents.at(0).id == id);
}

// ms:    0            300       400
//   :17  149 fatal    154/0x4               the link's own end
//   :18               145                   packets lost on the way to :17
//   :19                         145
TEST_CASE("NVLink: the GPU whose link has failed is the root, those that miss its answers are victims") {
  const std::vector<Line> lines = {{0, xid("18", nvlink_victim)},
                                   {100, xid("17", nvlink_fatal)},
                                   {300, xid("17", drain_and_reset)},
                                   {400, xid("19", nvlink_victim)}};
  CHECK(tree_of(lines) ==
        "reset nvlink:149/NETIR_LINK_EVT@0000:17:00 !nvlink:145/RLW_SRC_TRACK@0000:18:00 "
        "!nvlink:145/RLW_SRC_TRACK@0000:19:00 +gpu-xid:154/0x4@0000:17:00\n");
  SUBCASE("a victim that gives up a minute later is still one") {
    Node node;
    node.line(0, xid("17", nvlink_fatal));
    node.incidents();
    node.line(40'000, xid("19", nvlink_victim));
    CHECK(node.tree() == "reset nvlink:149/NETIR_LINK_EVT@0000:17:00 !nvlink:145/RLW_SRC_TRACK@0000:19:00\n");
  }
}

TEST_CASE("a node that only suffers from a link elsewhere is never replaced for it") {
  Node node;
  node.lines({{0, xid("17", nvlink_victim)}, {10, xid("18", nvlink_victim)}, {20, xid("18", "45, pid=8, Ch 1")}});
  CHECK(node.tree() ==
        "restart-job nvlink:145/RLW_SRC_TRACK@0000:17:00 +nvlink:145/RLW_SRC_TRACK@0000:18:00 "
        ">gpu-xid:45@0000:18:00\n");
  const auto set = node.incidents();
  CHECK(set.incidents[0].title.find("suffers from a link") != std::string::npos);
  CHECK(judge(set, ProbeState::good, "").verdict == NodeVerdict::healthy);
  SUBCASE("unless the driver itself asks for more") {
    node.line(900, xid("18", reset_wanted));
    CHECK(node.tree() ==
          "reset nvlink:145/RLW_SRC_TRACK@0000:17:00 +gpu-xid:154/0x1@0000:18:00 "
          "+nvlink:145/RLW_SRC_TRACK@0000:18:00 >gpu-xid:45@0000:18:00\n");
  }
}

TEST_CASE("NVSwitch: several GPUs suffer from the switch; with one GPU either end of the link may be at fault") {
  const std::string switch_line =
      "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 28 sourcetrack (First)";
  const std::string link_down = "74, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)";
  CHECK(tree_of({{0, xid("17", link_down)}, {3, xid("18", link_down)}, {9, switch_line}}) ==
        "reset gpu-sxid:24007@0000:c3:00.0 !nvlink:74@0000:17:00 !nvlink:74@0000:18:00\n");
  CHECK(tree_of({{0, xid("17", link_down)}, {9, switch_line}}) ==
        "replace-node gpu-sxid:24007@0000:c3:00.0 +nvlink:74@0000:17:00\n");
}

TEST_CASE("firmware of a GPU: its timeouts, the driver's verdict and the failed start are one") {
  const std::vector<Line> lines = {
      {0, xid("9b", "119, pid=1, name=a, Timeout after 6s of waiting for RPC response from GPU4 GSP!")},
      {800, "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30)."},
      {900, xid("9b", reset_wanted)},
      {2'000, "NVRM: GPU 0000:9b:00.0: RmInitAdapter failed! (0x24:0x72:1568)"},
  };
  CHECK(tree_of(lines) ==
        "reset gpu-xid:119@0000:9b:00 +gpu-driver:RMINIT_FAILED@0000:9b:00 +gpu-xid:154/0x1@0000:9b:00 "
        ">gpu-driver:GSP_RATE_LIMIT@0000:9b:00\n");
}

TEST_CASE("a program's crash is one incident on all its GPUs, and the node stays healthy") {
  Node node;
  node.lines({{0, xid("17", "43, pid=1, Ch 8")},
              {1, xid("17", "31, pid=1, MMU Fault")},
              {2, xid("17", "45, pid=1, Ch 8")},
              {3, xid("18", "13, pid=2, Graphics Exception")},
              {900, xid("19", "45, pid=3, Ch 8")}});
  CHECK(node.tree() ==
        "restart-job gpu-xid:31@0000:17:00 +gpu-xid:13@0000:18:00 >gpu-xid:43@0000:17:00 >gpu-xid:45@0000:17:00 "
        ">gpu-xid:45@0000:19:00\n");
  CHECK(judge(node.incidents(), ProbeState::good, "").verdict == NodeVerdict::healthy);
}

TEST_CASE("an after-effect of nothing, and notes, are no incidents") {
  CHECK(tree_of({{0, xid("17", "45, pid=1, Ch 8")}, {1, xid("17", "43, pid=1, Ch 8")}}).empty());
  CHECK(tree_of({{0, "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link INIT"}}).empty());
}

TEST_CASE("a 45 that names its cause belongs to it, long after") {
  Node node;
  node.line(0, xid("dc", nvlink_fatal));
  node.incidents();
  node.line(30'000, xid("dc", "45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149"));
  CHECK(node.tree() == "reset nvlink:149/NETIR_LINK_EVT@0000:dc:00 >gpu-xid:45@0000:dc:00\n");
}

// ms:   0      5        10     20
//   :17 48     45                       45 goes with the fault of its own GPU,
//   :18                 119             and joins no two faults
//   :19                        45       no fault of its own: goes with the gravest near it
TEST_CASE("an after-effect belongs to one fault and joins no two") {
  const std::vector<Line> lines = {
      {0, xid("17", "48, x")}, {5, xid("17", "45, x")}, {10, xid("18", "119, x")}, {20, xid("19", "45, x")}};
  const std::string expected =
      "reset gpu-xid:48@0000:17:00 >gpu-xid:45@0000:17:00 >gpu-xid:45@0000:19:00\nreset gpu-xid:119@0000:18:00\n";
  CHECK(tree_of(lines) == expected);
  // The same when the cause comes last and every line was joined on its own.
  Node node;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    node.line(100 + line->ms, line->text);
    node.incidents();
  }
  CHECK(node.tree() == expected);
}

TEST_CASE("network: the twins of one lost link, the adapter's death, the bond above") {
  CHECK(tree_of({{0, "[ 4443.968257] mlx5_core 0000:53:00.0 enp83s0f0np0: Link down"},
                 {6, "[ 4443.974372] mlx5_core 0000:53:00.0 mlx5_3: Port: 1 Link DOWN"},
                 {90, "bond0: (slave enp83s0f0np0): link status definitely down, disabling slave"}})
            .starts_with("watch nic:LINK_DOWN@0000:53:00.0 >nic:BOND_SLAVE_DOWN"));
  CHECK(tree_of({{0, "mlx5_core 0000:d2:00.1 enp1: Link down"},
                 {5, "mlx5_core 0000:d2:00.0: poll_health:825: device's health compromised - reached miss count."}}) ==
        "replace-node nic:HEALTH_POLL_FAILED@0000:d2:00.0 +nic:LINK_DOWN@0000:d2:00.1\n");
  // Two ports of one card are two links.
  CHECK(tree_of({{0, "mlx5_core 0000:d2:00.0 enp1: Link down"}, {5, "mlx5_core 0000:d2:00.1 enp2: Link down"}}) ==
        "watch nic:LINK_DOWN@0000:d2:00.0\nwatch nic:LINK_DOWN@0000:d2:00.1\n");
}

TEST_CASE("what a probe finds in its first look need not be one fault; what two probes see of one port is") {
  Node node;
  node.sense(0, sensed("gpu-nvml", "ROW_REMAP_PENDING", "0000:17:00"));
  node.sense(0, sensed("gpu-nvml", "ECC_UNCORRECTED", "0000:17:00"));
  node.sense(0, sensed("gpu-nvml", "PCIE_WIDTH", "0000:17:00"));
  node.sense(0, sensed("gpu-nvml", "NVLINK_DOWN", "0000:17:00"));
  for (std::string port : {"0000:41:00.0", "0000:42:00.0", "0000:43:00.0"}) {
    node.sense(100, sensed("ethernet", "LINK_DOWN/eth0", port));
    node.sense(4'000, sensed("infiniband", "LINK_DOWN", port));
  }
  CHECK(node.tree() ==
        "watch gpu-nvml:ECC_UNCORRECTED@0000:17:00 +gpu-nvml:ROW_REMAP_PENDING@0000:17:00\n"
        "watch gpu-nvml:NVLINK_DOWN@0000:17:00\nwatch gpu-nvml:PCIE_WIDTH@0000:17:00\n"
        "watch ethernet:LINK_DOWN/eth0@0000:41:00.0 +infiniband:LINK_DOWN@0000:41:00.0\n"
        "watch ethernet:LINK_DOWN/eth0@0000:42:00.0 +infiniband:LINK_DOWN@0000:42:00.0\n"
        "watch ethernet:LINK_DOWN/eth0@0000:43:00.0 +infiniband:LINK_DOWN@0000:43:00.0\n");
}

// NVML and sysfs look at the same link with holds of their own:
//
//   0 s  pcie-counters WIDTH_REDUCED 17:00.0      30 s  gpu-nvml PCIE_WIDTH 17:00       one narrow link, not two
TEST_CASE("a narrow link is one fault, whichever probe sees it first") {
  Node sysfs_first, nvml_first, apart;
  sysfs_first.sense(0, sensed("pcie-counters", "WIDTH_REDUCED", "0000:17:00"));
  sysfs_first.sense(30'000, sensed("gpu-nvml", "PCIE_WIDTH", "0000:17:00"));
  CHECK(sysfs_first.tree() == "watch pcie-counters:WIDTH_REDUCED@0000:17:00 +gpu-nvml:PCIE_WIDTH@0000:17:00\n");
  nvml_first.sense(0, sensed("gpu-nvml", "PCIE_WIDTH", "0000:17:00"));
  nvml_first.sense(45'000, sensed("pcie-counters", "WIDTH_REDUCED", "0000:17:00"));
  CHECK(nvml_first.tree() == "watch gpu-nvml:PCIE_WIDTH@0000:17:00 +pcie-counters:WIDTH_REDUCED@0000:17:00\n");
  apart.sense(0, sensed("gpu-nvml", "PCIE_WIDTH", "0000:17:00"));
  apart.sense(0, sensed("pcie-counters", "WIDTH_REDUCED", "0000:18:00"));
  CHECK(apart.tree() == "watch gpu-nvml:PCIE_WIDTH@0000:17:00\nwatch pcie-counters:WIDTH_REDUCED@0000:18:00\n");
}

TEST_CASE("many links that the kernel loses in one second share a cause") {
  CHECK(tree_of({{0, "mlx5_core 0000:41:00.0 rail0: Link down"},
                 {100, "mlx5_core 0000:42:00.0 rail1: Link down"},
                 {200, "mlx5_core 0000:43:00.0 rail2: Link down"}}) ==
        "watch nic:LINK_DOWN@0000:41:00.0 +nic:LINK_DOWN@0000:42:00.0 +nic:LINK_DOWN@0000:43:00.0\n");
}

TEST_CASE("storage: a dead NVMe drive, what it fails and what waits for it") {
  Node node;
  node.lines({{0, "nvme nvme4: I/O tag 22 (2016) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller"},
              {900, "nvme nvme4: Disabling device after reset failure: -19"},
              {950, "blk_update_request: I/O error, dev nvme4n1, sector 64 op 0x1:(WRITE) flags 0x1000"},
              {1'200, "EXT4-fs (md0): Remounting filesystem read-only"}});
  CHECK(node.tree() ==
        "replace-node disk:NVME_DEAD@nvme4 +disk:IO_ERROR@nvme4n1 +disk:NVME_TIMEOUT@nvme4 "
        "+filesystem:RO_REMOUNT@md0\n");
  node.line(125'000, "INFO: task jfsmount:136986 blocked for more than 120 seconds.");
  CHECK(node.tree().find(">kernel:HUNG_TASK") != std::string::npos);
  CHECK(node.incidents().incidents.size() == 1);
  // Another drive is another fault.
  node.line(126'000, "nvme nvme1: I/O 775 QID 2 timeout, aborting");
  CHECK(node.incidents().incidents.size() == 2);
}

TEST_CASE("an out-of-memory kill is an incident of its own, also beside a GPU fault") {
  CHECK(tree_of({{0, "python invoked oom-killer: gfp_mask=0x201d2, order=0, oomkilladj=0"},
                 {1, "Out of memory: Killed process 9876 (python)."},
                 {2, xid("17", "79, x")}})
            .starts_with("watch oom:GLOBAL_OOM +oom:OOM_HEADER\nreplace-node gpu-xid:79"));
}

// 27: a whole rack fails within half a second; here: the eight GPUs of one node.
TEST_CASE("many GPUs that fail in one second are one incident of the node") {
  Node node;
  for (std::int64_t gpu = 0; gpu < 8; ++gpu) node.line(gpu * 60, xid("a" + std::to_string(gpu), "79, x"));
  const auto set = node.incidents();
  REQUIRE(set.incidents.size() == 1);
  CHECK(set.incidents[0].root == "gpu-xid:79@0000:a0:00");
  CHECK(set.incidents[0].members.size() == 8);
  CHECK(set.incidents[0].title.starts_with("Several devices failed in the same moment"));
  SUBCASE("two are two") {
    CHECK(tree_of({{0, xid("17", "79, x")}, {10, xid("18", "79, x")}}) ==
          "replace-node gpu-xid:79@0000:17:00\nreplace-node gpu-xid:79@0000:18:00\n");
  }
  SUBCASE("and so are many that take their time") {
    Node slow;
    for (std::int64_t gpu = 0; gpu < 8; ++gpu) slow.line(gpu * 2'000, xid("a" + std::to_string(gpu), "79, x"));
    CHECK(slow.incidents().incidents.size() == 8);
  }
}

// time:   0 s     3 s          20 s       5 min      6 min             7 min
//         48      | Open       45         reset OK   (nothing left)    48 again: a new incident
//         Gathering            same id
TEST_CASE("gathering, late companions, recovery, and the same fault again") {
  Node node;
  node.rules = {{"gpu-xid", "48", "", RepairClass::reset}};  // a class that waits for companions
  node.line(0, xid("17", "63, x"));
  auto set = node.incidents();
  REQUIRE(set.incidents.size() == 1);
  const auto id = set.incidents[0].id;
  CHECK(id == "gpu-xid:63@0000:17:00#2023-11-14T22:13:20.000Z");
  CHECK(set.incidents[0].state == IncidentState::gathering);
  CHECK(next_change(set) == at(3'000));
  node.line(1'000, xid("17", "48, x"));
  set = node.incidents();
  REQUIRE(set.incidents.size() == 1);
  CHECK(set.incidents[0].root == "gpu-xid:48@0000:17:00");
  CHECK(set.incidents[0].id == id);  // the root has changed, the incident has not
  node.now = 3'000;
  set = node.incidents();
  CHECK(set.incidents[0].state == IncidentState::open);
  CHECK_FALSE(next_change(set));
  node.line(20'000, xid("17", "45, x"));
  node.line(21'000, xid("17", reset_wanted));
  set = node.incidents();
  REQUIRE(set.incidents.size() == 1);
  CHECK(set.incidents[0].id == id);
  CHECK(set.incidents[0].members.size() == 4);
  CHECK(node.line(300'000, xid("17", all_well)) == Change::resolved);
  CHECK(node.incidents().incidents.empty());
  CHECK(node.ledger.entries().empty());
  node.line(420'000, xid("17", "48, x"));
  set = node.incidents();
  REQUIRE(set.incidents.size() == 1);
  CHECK(set.incidents[0].id != id);
}

TEST_CASE("an unambiguous fault is open at once and gathers its companions meanwhile") {
  Node node;
  node.line(0, xid("17", "79, x"));
  auto set = node.incidents();
  CHECK(set.incidents.at(0).state == IncidentState::open);
  CHECK(set.incidents.at(0).at_once);
  node.line(5, xid("17", reboot_wanted));
  CHECK(node.incidents().incidents.at(0).members.size() == 2);
  SUBCASE("a clock that is set back makes nobody wait") {
    Node other;
    other.line(0, xid("17", "63, x"));
    other.ledger.settle(at(0));
    const auto later = incidents_of(other.ledger.entries(), {}, at(-3'600'000));
    CHECK(later.incidents.at(0).state == IncidentState::open);
  }
}

TEST_CASE("the driver's change of mind is no new fault") {
  Node node;
  node.line(0, xid("17", drain_and_reset));
  const auto id = node.incidents().incidents.at(0).id;
  node.line(60'000,
            xid("17", "154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)"));
  const auto set = node.incidents();
  REQUIRE(set.incidents.size() == 1);
  CHECK(set.incidents[0].id == id);
  CHECK(set.incidents[0].root == "gpu-xid:154/0x1@0000:17:00");
}

// 50: an old recovery must not call off a fresh fault.
TEST_CASE("news from before the fault cures nothing") {
  Node node;
  node.line(5'000, xid("17", "48, x"));
  CHECK(node.line(4'000, xid("17", all_well)) == Change::none);
  CHECK(node.incidents().incidents.size() == 1);
}

TEST_CASE("what one fault has done to others ends with it") {
  Node node;
  node.lines({{0, xid("17", nvlink_fatal)}, {5, xid("18", nvlink_victim)}, {9, xid("18", "45, x")}});
  CHECK(node.incidents().incidents.size() == 1);
  node.line(60'000, xid("17", all_well));
  CHECK(node.incidents().incidents.empty());
  CHECK(node.ledger.entries().empty());
}

// 11: a remapped row heals with the next reset; NVML's pending flag is the same thing seen again.
TEST_CASE("a remapped row: the line and the counter are one, and both go") {
  Node node;
  node.line(0, xid("17", "63, Row Remapper: New row marked for remapping, reset gpu to activate."));
  node.incidents();
  node.sense(5'000,
             sensed("gpu-nvml", "ROW_REMAP_PENDING", "0000:17:00", Severity::warn, RepairClass::drain_after_job));
  CHECK(node.tree() == "drain-after-job gpu-xid:63@0000:17:00 +gpu-nvml:ROW_REMAP_PENDING@0000:17:00\n");
  node.line(90'000, xid("17", all_well));
  CHECK(node.tree() == "drain-after-job gpu-nvml:ROW_REMAP_PENDING@0000:17:00\n");
  node.ledger.retain("gpu-nvml", {});
  CHECK(node.tree().empty());
}

TEST_CASE("a program's crash an hour later is a new incident, and a graver fault is never hidden in an old one") {
  Node node;
  node.line(0, xid("17", "31, x"));
  const auto first = node.incidents().incidents.at(0).id;
  node.line(3'600'000, xid("17", "31, x"));
  CHECK(node.incidents().incidents.at(0).id != first);
  node.line(3'700'000, xid("17", "79, x"));
  CHECK(node.tree() == "restart-job gpu-xid:31@0000:17:00\nreplace-node gpu-xid:79@0000:17:00\n");
}

TEST_CASE("the policy has the last word on the class; the verdict names the root and holds no counts") {
  Node node;
  node.lines(ecc_lines());
  const auto before = judge(node.incidents(), ProbeState::good, "");
  CHECK(before.reason == "GpuXid48");
  CHECK(before.verdict == NodeVerdict::unhealthy);
  for (int i = 0; i < 1'000; ++i) node.line(100 + i, xid("55", "48, again"));
  for (int i = 0; i < 6; ++i) node.line(1'200 + i, xid("6" + std::to_string(i), "119, x"));
  const auto after = judge(node.incidents(), ProbeState::good, "");
  CHECK(after.message == before.message);
  CHECK(after.reason == before.reason);
  node.rules = {{"gpu-xid", "", "", RepairClass::ignore}};
  CHECK(judge(node.incidents(), ProbeState::good, "").verdict == NodeVerdict::healthy);
}

TEST_CASE("the lists are bounded and say what they leave out; the gravest stay") {
  Node node;
  for (std::int64_t i = 0; i < 40; ++i)
    node.sense(i * 10'000, sensed("gpu-driver", "BAR_INVALID", "0000:" + std::to_string(10 + i) + ":00",
                                  i == 39 ? Severity::fatal : Severity::warn,
                                  i == 39 ? RepairClass::replace_node : RepairClass::watch));
  auto set = node.incidents();
  CHECK(set.incidents.size() == IncidentSet::max_incidents);
  CHECK(set.left_out == 40 - IncidentSet::max_incidents);
  CHECK(set.incidents.back().repair_class == RepairClass::replace_node);
  Node crowd;
  for (int i = 0; i < 60; ++i) crowd.sense(i, sensed("gpu-xid", std::to_string(200 + i), "0000:17:00"));
  set = crowd.incidents();
  REQUIRE(set.incidents.size() == 1);
  CHECK(set.incidents[0].members.size() == IncidentSet::max_members);
  CHECK(set.incidents[0].left_out == 60 - IncidentSet::max_members);
}

namespace {

std::vector<std::vector<Line>> all_scenes() {
  const std::string link_down = "74, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)";
  return {
      ecc_lines(),
      {{0, xid("17", "79, x")},
       {10, "NVRM: GPU 0000:17:00.0: GPU has fallen off the bus."},
       {20, xid("17", reboot_wanted)},
       {30, xid("18", nvlink_fatal)},
       {40, xid("18", "45, x")},
       {50, "pcieport 0000:16:00.0: AER: Multiple Uncorrected (Fatal) error received: 0000:16:00.0"}},
      {{0, xid("17", nvlink_fatal)},
       {10, xid("18", nvlink_victim)},
       {20, xid("19", nvlink_victim)},
       {30, xid("17", drain_and_reset)},
       {40, xid("19", "45, x")}},
      {{0, xid("17", "31, x")}, {10, xid("17", "43, x")}, {20, xid("18", "13, x")}, {30, xid("19", "45, x")}},
      {{0, xid("17", link_down)},
       {10, xid("18", link_down)},
       {20, "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 28 sourcetrack timeout error (First)"}},
      {{0, "nvme nvme4: Disabling device after reset failure: -19"},
       {10, "blk_update_request: I/O error, dev nvme4n1, sector 64 op 0x1:(WRITE) flags 0x1000"},
       {20, "EXT4-fs (md0): Remounting filesystem read-only"},
       {30, xid("17", "119, x")},
       {40, "NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x24:0x72:1568)"}},
      {{0, xid("17", "79, x")}, {10, xid("18", "79, x")}, {20, xid("19", "119, x")}, {30, xid("17", "45, x")}},
  };
}

// Where two members are equally deep the earlier one is the root, so equally deep ones keep their order.
std::vector<Line> shuffled(std::vector<Line> lines) {
  const auto order = *rc::gen::container<std::vector<int>>(lines.size(), rc::gen::inRange(0, 900));
  for (size_t i = 0; i < lines.size(); ++i) lines[i].ms = order[i];
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.ms < b.ms; });
  return lines;
}

// "root: sorted members" of each incident, without its id.
std::vector<std::string> membership(Node& node) {
  std::vector<std::string> out;
  for (const auto& incident : node.incidents().incidents) {
    std::vector<std::string> members;
    members.reserve(incident.members.size());
    for (const auto& member : incident.members) members.push_back(member.finding);
    std::sort(members.begin(), members.end());
    std::string text =
        std::to_string(cause_of(incident.cause).depth) + " " + std::string(to_string(incident.repair_class));
    for (const auto& member : members) (text += ' ') += member;
    out.push_back(std::move(text));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("the order of companions within the window changes neither root nor members") {
  CHECK(rc::check([] {
    const auto scenes = all_scenes();
    const auto& scene = scenes[*rc::gen::inRange<size_t>(0, scenes.size())];
    const Topology wiring{{{"0000:17:00", "0000:16:00.0"}}};
    Node plain(wiring), mixed(wiring);
    plain.lines(scene);
    const auto lines = shuffled(scene);
    // Joined at any moment in between, and restarted at any moment.
    const auto restart = *rc::gen::inRange<size_t>(0, lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      mixed.line(lines[i].ms, lines[i].text);
      if (*rc::gen::arbitrary<bool>()) mixed.ledger.settle(at(lines[i].ms));
      if (i != restart) continue;
      Ledger again;
      again.set_topology(wiring);
      again.restore(mixed.ledger.entries(), mixed.ledger.dropped(), mixed.ledger.history());
      mixed.ledger = again;
    }
    RC_ASSERT(membership(plain) == membership(mixed));
  }));
}

TEST_CASE("a restart in the middle changes no id") {
  CHECK(rc::check([] {
    const auto scenes = all_scenes();
    const auto lines = shuffled(scenes[*rc::gen::inRange<size_t>(0, scenes.size())]);
    const auto restart = *rc::gen::inRange<size_t>(0, lines.size());
    Node one, two;
    for (size_t i = 0; i < lines.size(); ++i) {
      for (auto* node : {&one, &two}) {
        node->line(lines[i].ms, lines[i].text);
        node->ledger.settle(at(lines[i].ms));
      }
      if (i != restart) continue;
      Ledger again;
      again.restore(two.ledger.entries(), two.ledger.dropped(), two.ledger.history());
      two.ledger = again;
    }
    RC_ASSERT(one.tree() == two.tree());
    const auto a = one.incidents(), b = two.incidents();
    for (size_t i = 0; i < a.incidents.size(); ++i) RC_ASSERT(a.incidents[i].id == b.incidents[i].id);
  }));
}

TEST_CASE("whatever comes in whatever order: one root for each incident, joined once and for all") {
  static const std::vector<std::pair<std::string, std::string>> kinds = {{"gpu-xid", "79"},
                                                                         {"gpu-xid", "48"},
                                                                         {"gpu-xid", "45"},
                                                                         {"gpu-xid", "154/0x1"},
                                                                         {"gpu-xid", "154/0x0"},
                                                                         {"gpu-lost", "79"},
                                                                         {"nvlink", "149/NETIR"},
                                                                         {"nvlink", "145/RLW_SRC_TRACK"},
                                                                         {"gpu-sxid", "24007"},
                                                                         {"pcie-aer", "AER_FATAL"},
                                                                         {"gpu-nvml", "LOST"},
                                                                         {"gpu-nvml", "GPU_MISSING"},
                                                                         {"gpu-driver", "GPU_IS_LOST"},
                                                                         {"nic", "LINK_DOWN"},
                                                                         {"nic", "LINK_UP"},
                                                                         {"nic", "BOND_SLAVE_DOWN"},
                                                                         {"disk", "NVME_DEAD"},
                                                                         {"filesystem", "RO_REMOUNT"},
                                                                         {"kernel", "HUNG_TASK"},
                                                                         {"oom", "OOM_HEADER"},
                                                                         {"gpu-xid", "31"},
                                                                         {"gpu-xid", "119"},
                                                                         {"steps", "SLOW"},
                                                                         {"amd-gpu", "RESET_BEGIN"}};
  static const std::vector<std::string> devices = {"", "0000:17:00", "0000:18:00", "0000:16:00.0", "17:00", "nvme1"};
  CHECK(rc::check([] {
    Ledger ledger;
    ledger.set_topology({{{"0000:17:00", "0000:16:00.0"}, {"0000:18:00", "0000:16:00.0"}}});
    std::int64_t now = 0;
    const int count = *rc::gen::inRange(1, 60);
    for (int i = 0; i < count; ++i) {
      const auto& kind = *rc::gen::elementOf(kinds);
      now += *rc::gen::element<std::int64_t>(0, 1, 500, 2'900, 3'100, 70'000, 4'000'000, -2'000);
      const auto severity = *rc::gen::element(Severity::info, Severity::warn, Severity::error, Severity::fatal);
      ledger.observe(sensed(kind.first, kind.second, *rc::gen::elementOf(devices), severity, RepairClass::reset),
                     at(now), "line");
      const auto then = *rc::gen::inRange(0, 4);
      if (then == 0) ledger.settle(at(now));
      if (then == 1) ledger.retain("gpu-nvml", {});
    }
    ledger.settle(at(now));
    std::vector<std::string> roots, ids;
    for (const auto& entry : ledger.entries()) {
      RC_ASSERT(!entry.incident.empty());
      RC_ASSERT(entry.role != Role::none);
      ids.push_back(entry.incident);
      if (entry.role == Role::root) roots.push_back(entry.incident);
    }
    std::sort(roots.begin(), roots.end());
    RC_ASSERT(std::adjacent_find(roots.begin(), roots.end()) == roots.end());
    for (const auto& id : ids) RC_ASSERT(std::binary_search(roots.begin(), roots.end(), id));
    // Joined again, or after a restart, all stays.
    Ledger again;
    again.set_topology({{{"0000:17:00", "0000:16:00.0"}, {"0000:18:00", "0000:16:00.0"}}});
    again.restore(ledger.entries(), 0, ledger.history());
    for (size_t i = 0; i < ids.size(); ++i) {
      RC_ASSERT(again.entries()[i].incident == ids[i]);
      RC_ASSERT(again.entries()[i].role == ledger.entries()[i].role);
    }
  }));
}

TEST_CASE("every finding of the catalogue has its place among causes, or is known to stand alone") {
  static constexpr std::string_view alone[] = {"none", "agent", "accelerator-other", "cpu-thermal", "network", "steps"};
  const auto has_place = [](std::string_view component, std::string_view code, Severity severity) {
    if (std::find(std::begin(alone), std::end(alone), component) != std::end(alone)) return true;
    Finding finding = sensed(std::string(component), std::string(code), "", severity);
    return cause_of(finding).family != Family::other;
  };
  for (const auto& rule : Catalog::instance().rules()) {
    CAPTURE(rule.component);
    CAPTURE(rule.code);
    CHECK(has_place(rule.component, rule.code, rule.severity));
  }
  for (const auto& entry : Catalog::instance().decoded()) {
    CAPTURE(entry.component);
    CAPTURE(entry.code);
    CHECK(has_place(entry.component, entry.code, entry.severity));
  }
}

TEST_CASE("a storm costs each line the same: entries are compared once per batch, not once per line") {
  Ledger ledger;
  const std::string codes[] = {"48, x", "171, x", "63, x", "45, x", "31, x", "13, x", "94, x", drain_and_reset};
  for (int i = 0; i < 10'000; ++i) {
    const auto text = xid("a" + std::to_string(i % 8), codes[(i / 8) % 8]);
    ledger.observe(*classify_text(text), at(i / 10), text);
    if (i % 100 == 99) ledger.settle(at(i / 10));
  }
  CHECK(ledger.entries().size() == 64);
  CHECK(ledger.joinings() <= 2);
  CHECK(ledger.history().size() <= RepeatHistory::max_ids);
  // The worst that can be sent: a fresh code in every line. Even then a batch compares once.
  Ledger hostile;
  for (int i = 0; i < 10'000; ++i) {
    hostile.observe(sensed("gpu-xid", std::to_string(i), "0000:17:00"), at(i / 10), "x");
    if (i % 100 == 99) hostile.settle(at(i / 10));
  }
  CHECK(hostile.entries().size() == Ledger::max_entries);
  CHECK(hostile.dropped() == 10'000 - Ledger::max_entries);
  CHECK(hostile.joinings() <= 100);
}
