#include "core/fault/classify.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace homeostat::fault;

namespace {

std::string row(std::string_view line) {
  std::string out;
  append_row(out, classify_text(line));
  for (char& c : out)
    if (c == '\t') c = '|';
  return out;
}

struct Case {
  std::string_view line, row;
};

void check(std::initializer_list<Case> cases) {
  for (const auto& c : cases) {
    CAPTURE(c.line);
    CHECK(row(c.line) == c.row);
  }
}

constexpr std::string_view nothing = "none|||none|";

}  // namespace

TEST_CASE("Xid in each form that drivers have printed") {
  check({
      {"NVRM: Xid (0000:0a:00): 14, Channel 00000002", "gpu-xid|14|0000:0a:00|info|IGNORE"},
      {"NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus.", "gpu-xid|79|0000:0a:00|fatal|RESTART_BM"},
      {"NVRM: Xid (PCI:0000:0a:00): 31, pid=9, name=a,b:c [d], Ch 00000008", "gpu-xid|31|0000:0a:00|error|RESTART_APP"},
      {"NVRM: Xid (PCI:0000:0A:00.0): 13, x", "gpu-xid|13|0000:0a:00|error|RESTART_APP"},
      {"NVRM: Xid (PCI:0000:0a:00): 110", "gpu-xid|110|0000:0a:00|fatal|RESET_GPU"},
      {"nvrm: xid(pci:0000:0a:00) :95 , x", "gpu-xid|95|0000:0a:00|fatal|RESET_GPU"},
      {"NVRM: Xid (PCI:0000:0a:00): 45, pid=1, name=p, channel 0x00000003 caused by previous Xid 119",
       "gpu-xid|45|0000:0a:00|info|IGNORE"},
      {"NVRM: Xid (PCI:0000:0a:00): 999, news", "gpu-xid|999|0000:0a:00|warn|"},
      {"NVRM: Xid (PCI:0000:0a:00): 57, x", "gpu-xid|57|0000:0a:00|warn|CONTACT_SUPPORT"},
      {"NVRM: Xid (garbage): 79, x", "gpu-xid|79||fatal|RESTART_BM"},
  });
}

TEST_CASE("MIG instances and the cause are attributes, not part of the device") {
  const auto finding = classify_text("NVRM: Xid (PCI:0000:0a:00 GPU-I:03 GPU-CI:01): 45, x caused by previous Xid 94");
  REQUIRE(finding);
  CHECK(finding->device == "0000:0a:00");
  CHECK(finding->gpu_instance == "03");
  CHECK(finding->compute_instance == "01");
  CHECK(finding->caused_by == "94");
}

TEST_CASE("look-alikes of an Xid are no fault") {
  check({
      {"NVRM: Xid", nothing},
      {"NVRM: Xid (PCI:0000:0a:00)", nothing},
      {"NVRM: Xid (PCI:0000:0a:00): ", nothing},
      {"NVRM: Xid (PCI:0000:0a:00): 79abc", nothing},
      {"NVRM: Xid : 79", nothing},
      {"trainer: NVRM: Xid (PCI:0000:0a:00): 79, x", nothing},
      {"12,5,100,-;NVRM: Xid (PCI:0000:0a:00): 79, x", nothing},
      {"NVRM: GPU Board Serial Number: 1", nothing},
      {"", nothing},
  });
}

TEST_CASE("Xid 154 is named by the value that it changed to") {
  check({
      {"NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
       "gpu-xid|154/0x2|0000:0a:00|fatal|RESTART_BM"},
      {"NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
       "gpu-xid|154/0x0|0000:0a:00|info|IGNORE"},
      {"NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)",
       "gpu-xid|154/0x3|0000:0a:00|error|DRAIN_P2P"},
      {"NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x0 to 0x2f",
       "gpu-xid|154/0x2f|0000:0a:00|warn|"},
      {"NVRM: Xid (PCI:0000:0a:00): 154, broken", "gpu-xid|154|0000:0a:00|warn|XID_154"},
  });
}

// intrInfo: bits 25 to 20 hold the cause; the unit sits in bits 9 to 5 before R575 and in bits 6 to 0 from R575 on.
TEST_CASE("NVLink5 is decoded in both layouts") {
  check({
      {"NVRM: Xid (PCI:0000:0a:00): 144, SAW_MVB Fatal XC0 i0 Link 02 (0x00000021 0x00000002 0x0 0x0)",
       "nvlink|144/SAW_MVB|0000:0a:00|fatal|RESET_GPU"},
      {"NVRM: Xid (PCI:0000:0a:00): 144, SAW_MVB Fatal XC0 i0 Link 02 (0x00000001 0x00000002 0x0 0x0)",
       "nvlink|144/SAW_MVB|0000:0a:00|fatal|RESET_GPU"},
      {"NVRM: Xid (PCI:0000:0a:00): 144, SAW_MVB Nonfatal XC0 i0 Link 02 (0x00000001 0x00000004 0x0 0x0)",
       "nvlink|144/SAW_MVB|0000:0a:00|info|IGNORE"},
      {"NVRM: Xid (PCI:0000:0a:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 02 (0x00000006 0x00000001 0x0 0x0)",
       "nvlink|145/RLW_RXPIPE|0000:0a:00|info|IGNORE"},
      {"NVRM: Xid (PCI:0000:0a:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 02 (0x00000086 0x00000001 0x0 0x0)",
       "nvlink|145/RLW_RXPIPE|0000:0a:00|fatal|RESET_GPU"},
      {"NVRM: Xid (PCI:0000:0a:00): 149, pid=5, name=x, NETIR_LINK_EVT Fatal XC0 i0 Link 02 (0x02800011 0x0 0x0)",
       "nvlink|149/NETIR_LINK_EVT|0000:0a:00|info|IGNORE"},
      {"NVRM: Xid (PCI:0000:0a:00): 150, MSE Degraded Fatal XC0 i0 Link 00 (0x00000000 0xFFFFFFFF 0x0)",
       "nvlink|150/MSE|0000:0a:00|fatal|RESET_GPU"},
  });
}

TEST_CASE("a unit without end does not become a code without end") {
  const auto finding = classify_text("NVRM: Xid (PCI:0000:0a:00): 144, SA" + std::string(200, '/') + " Fatal XC0 i0");
  REQUIRE(finding);
  CHECK(finding->code == "144");
}

TEST_CASE("an NVLink5 line that cannot be decoded is kept for people, an injected one is never healed") {
  check({
      {"NVRM: Xid (PCI:0000:0a:00): 146, TLW_CTRL", "nvlink|146/TLW_CTRL|0000:0a:00|warn|WORKFLOW_NVLINK5_ERR"},
      {"NVRM: Xid (PCI:0000:0a:00): 146", "nvlink|146|0000:0a:00|warn|WORKFLOW_NVLINK5_ERR"},
      {"NVRM: Xid (PCI:0000:0a:00): 148, NVLPW_CTRL Fatal XC0 i0 Link 03",
       "nvlink|148/NVLPW_CTRL|0000:0a:00|error|WORKFLOW_NVLINK5_ERR"},
      {"NVRM: Xid (PCI:0000:0a:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe40",
       "nvlink|149/NETIR|0000:0a:00|error|WORKFLOW_NVLINK5_ERR"},
      {"NVRM: Xid (PCI:0000:0a:00): 146, TLW_CTRL Fatal XC0 i0 Link 02 (0xffffffff 0xffffffff)",
       "nvlink|146/TLW_CTRL|0000:0a:00|error|WORKFLOW_NVLINK5_ERR"},
      {"NVRM: Xid (PCI:0000:0a:00): 144, SAW_MVB Fatal XC0 i1 Link 02 (0x00000001 0x00000002 0x0)",
       "nvlink|144/SAW_MVB|0000:0a:00|warn|RESET_GPU"},
  });
  const auto finding =
      classify_text("NVRM: Xid (PCI:0000:0a:00): 144, SAW_MVB Fatal XC0 i1 Link 02 (0x00000001 0x00000002 0x0)");
  REQUIRE(finding);
  CHECK(finding->injected);
  CHECK(finding->repair_class == RepairClass::watch);
}

TEST_CASE("of the three lines of an SXid only the first is the event") {
  check({
      {"nvidia-nvswitch3: SXid (PCI:0000:b1:00.0): 11001, Fatal, Link 12 ingress invalid command (First)",
       "gpu-sxid|11001|0000:b1:00.0|fatal|RESET_FABRIC"},
      {"nvidia-nvswitch3: SXid (PCI:0000:b1:00.0): 11001, Severity 1 Engine instance 12",
       "gpu-sxid|11001|0000:b1:00.0|info|RESET_FABRIC"},
      {"nvidia-nvswitch3: SXid (PCI:0000:b1:00.0): 11001, Data {0x1, 0x2}",
       "gpu-sxid|11001|0000:b1:00.0|info|RESET_FABRIC"},
      {"nvidia-nvswitch3: SXid (PCI:0000:b1:00.0): 22003, Fatal, Link 12 Minion Halt",
       "gpu-sxid|22003|0000:b1:00.0|fatal|RESTART_BM"},
      {"nvidia-nvswitch3: SXid (PCI:0000:b1:00.0): 11012, Non-fatal, Link 12 single bit",
       "gpu-sxid|11012|0000:b1:00.0|info|IGNORE"},
      {"nvidia-nvswitch3: SXid (PCI:0000:b1:00.0): 26007, SOE EXTERR",
       "gpu-sxid|26007|0000:b1:00.0|fatal|RESET_FABRIC"},
      {"nvidia-nvswitch3: using MSI", nothing},
  });
}

TEST_CASE("AMD: the word uncorrectable holds correctable; a count of zero is no error") {
  check({
      {"amdgpu 0000:21:00.0: amdgpu: socket: 1, die: 0, 3 uncorrectable hardware errors detected in total in umc block",
       "amd-ras|RAS_UE/umc|0000:21:00|fatal|RESET_GPU"},
      {"amdgpu 0000:21:00.0: {7}socket: 1, die: 0, 3 new correctable hardware errors detected in sdma block, no user "
       "action is needed",
       "amd-ras|RAS_CE/sdma|0000:21:00|info|"},
      {"amdgpu 0000:21:00.0: amdgpu: socket: 1, die: 0, 0 uncorrectable hardware errors detected in total in umc block",
       nothing},
      {"amdgpu 0000:21:00.0: amdgpu: 1 deferred hardware errors detected in total in umc block",
       "amd-ras|RAS_DE/umc|0000:21:00|warn|"},
      {"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1, emitted seq=3",
       "amd-gpu|RING_TIMEOUT||error|RESTART_APP"},
      {"amdgpu 0000:21:00.0: amdgpu: GPU reset(4) succeeded!", "amd-gpu|RESET_OK|0000:21:00|info|CLEAR"},
      {"amdgpu 0000:21:00.0: amdgpu: RAS: something optional is not available", nothing},
  });
}

TEST_CASE("a link that goes down while the machine starts is no news") {
  check({
      {"[ 9000.1] mlx5_core 0000:21:00.1 rail0: Link down", "nic|LINK_DOWN|0000:21:00.1|warn|"},
      {"[   12.1] mlx5_core 0000:21:00.1 rail0: Link down", "nic|LINK_DOWN|0000:21:00.1|info|"},
      {"[ 9000.1] mlx5_core 0000:21:00.1 rail0: Link up", "nic|LINK_UP|0000:21:00.1|info|"},
      {"[   12.1] mlx5_core 0000:21:00.1 rail0: Link up", nothing},
      {"[ 9000.1] tg3 0000:21:00.1 eth0: Link is down", "nic|LINK_DOWN|0000:21:00.1|info|"},
  });
}

TEST_CASE("PCIe, memory, disks, filesystems, the kernel itself") {
  check({
      {"pcieport 0000:40:01.1: AER: Uncorrectable (Fatal) error message received from 0000:41:00.0",
       "pcie-aer|AER_FATAL|0000:41:00.0|fatal|"},
      {"pcieport 0000:40:01.1: AER: Corrected error message received from 0000:41:00.0",
       "pcie-aer|AER_CORRECTABLE|0000:41:00.0|info|"},
      {"pcieport 0000:40:01.1: AER: enabled with IRQ 30", nothing},
      {"pcieport 0000:40:01.1: pciehp: Slot(7): Link Down", "pcie-link|LINK_DOWN|0000:40:01.1|fatal|"},
      {"pcieport 0000:40:01.1: pciehp: Slot(7): Link Up", nothing},
      {"EDAC MC1: 2 UE memory scrubbing error on x", "memory-edac|EDAC_UE|MC1|fatal|"},
      {"EDAC skx MC1: HANDLING MCE MEMORY ERROR", nothing},
      {"nvme nvme2: I/O tag 3 (1003) opcode 0x1 QID 4 timeout, aborting", "disk|NVME_TIMEOUT|nvme2|warn|"},
      {"nvme nvme2: Shutdown timeout set to 10 seconds", nothing},
      {"I/O error, dev nvme1n1, sector 8 op 0x0:(READ)", "disk|IO_ERROR|nvme1n1|fatal|"},
      {"blk_update_request: I/O error, dev sdc, sector 8", "disk|IO_ERROR|sdc|warn|"},
      {"EXT4-fs (dm-3): Remounting filesystem read-only", "filesystem|RO_REMOUNT|dm-3|fatal|"},
      {"EXT4-fs (dm-3): re-mounted. Opts: errors=remount-ro", nothing},
      {"watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [a:1]", "kernel|SOFT_LOCKUP||error|"},
      {"INFO: task a:1 blocked for more than 120 seconds.", "kernel|HUNG_TASK||warn|"},
      {"BUG: kernel NULL pointer dereference, address: 0000000000000008", "kernel|OOPS||error|"},
      {"traps: a[1] general protection fault ip:1 sp:2 error:0 in b[1+1]", nothing},
      {"Memory cgroup out of memory: Killed process 5 (a)", "oom|CGROUP_OOM||info|"},
      {"nfs: server files.example not responding, still trying", "nfs|NOT_RESPONDING|files.example|warn|"},
      {"nf_conntrack: table full, dropping packet", "network|CONNTRACK_FULL||warn|"},
      {"LustreError: 167-0: y-OST0-osc-f0: This client was evicted by y; in progress operations will fail.",
       "lustre|EVICTED|y-OST0|error|"},
  });
}

// The port tells, the device below it has the trouble: a finding must meet the GPU's own Xid.
TEST_CASE("AER: the device in trouble is named, and the port that reported it") {
  const auto fatal =
      classify_text("pcieport 0000:40:01.1: AER: Uncorrectable (Fatal) error message received from 0000:41:00.0");
  REQUIRE(fatal);
  CHECK(fatal->device == "0000:41:00.0");
  CHECK(fatal->upstream == "0000:40:01.1");
  const auto own = classify_text("pcieport 0000:40:01.1: AER: Corrected error received: 0000:40:01.1");
  REQUIRE(own);
  CHECK(own->device == "0000:40:01.1");
  CHECK(own->upstream.empty());
  const auto old = classify_text("pcieport 0001:40:01.1: AER: Uncorrected (Non-Fatal) error received: id=4108");
  REQUIRE(old);
  CHECK(old->device == "0001:41:01.0");
  CHECK(old->upstream == "0001:40:01.1");
}

TEST_CASE("the values of Xid 154 and the registers of Xid 74 are read") {
  const auto drained = classify_text(
      "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset "
      "Required)");
  REQUIRE(drained);
  CHECK(drained->recovery_from == "0x4");
  CHECK(drained->code == "154/0x1");
  CHECK(drained->title.find("no new fault") != std::string::npos);
  const auto fresh = classify_text(
      "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)");
  REQUIRE(fresh);
  CHECK(fresh->recovery_from == "0x0");
  CHECK(fresh->title.find("no new fault") == std::string::npos);
  const auto link = classify_text(
      "NVRM: Xid (PCI:0000:0a:00): 74, pid=1, name=x, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, "
      "0x3, 0x0, 0x0)");
  REQUIRE(link);
  CHECK(link->title ==
        "NVLink error on link 14; register 3 bit 16 (when it repeats: run field diagnostics); register 5 bit 0 1 (not "
        "published)");
  const auto bare = classify_text("NVRM: Xid (PCI:0000:0a:00): 74, NVLink: fatal error detected on link 3");
  REQUIRE(bare);
  CHECK(bare->title == "NVLink error on link 3");
}

// NVIDIA's workflow for Hopper: what only follows another error, or lost nothing, does not take the node away. A bit
// that nobody names, a register that Hopper leaves at 0 and a line cut off weigh like the code alone.
TEST_CASE("the registers of Xid 74 weigh the line") {
  const auto weighed = [](std::string_view registers) {
    const auto finding =
        classify_text("NVRM: Xid (PCI:0000:0a:00): 74, pid=1, name=x, NVLink: fatal error detected on link 7" +
                      std::string(registers));
    REQUIRE(finding);
    return std::string(to_string(finding->severity)) + " " + finding->action + " " +
           std::string(to_string(finding->repair_class));
  };
  const std::string grave = "fatal WORKFLOW_NVLINK_ERR replace-node", followed = "error CORRELATE watch",
                    harmless = "warn IGNORE watch";
  CHECK(weighed("(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)") == grave);
  CHECK(weighed("(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)") == grave);
  CHECK(weighed("(0x0, 0x0, 0x0, 0x0, 0x40000, 0x0, 0x0)") == grave);
  CHECK(weighed("(0x2, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)") == followed);
  CHECK(weighed("(0x100001, 0x0, 0x0, 0x40000, 0x100000, 0x0, 0x0)") == followed);
  CHECK(weighed("(0x100010, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)") == grave);
  CHECK(weighed("(0x40800001, 0x0, 0x0, 0x0, 0x24900000, 0x0, 0x0)") == harmless);
  CHECK(weighed("(0x1, 0x1, 0x0, 0x0, 0x0, 0x0, 0x0)") == grave);
  CHECK(weighed("(0x5, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)") == grave);
  CHECK(weighed("(0x1, 0x0, 0x0") == grave);
  CHECK(weighed("(0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)") == grave);
  CHECK(weighed("") == grave);
}

// Firmware prints what it kept from before the start without a number in braces; the start was the cure.
TEST_CASE("a fatal record of the firmware from before this boot is not a fault of now") {
  check({
      {"[    2.1] [Hardware Error]: event severity: fatal", "cpu-mce|APEI_FATAL||warn|"},
      {"[    2.1] {1}[Hardware Error]: event severity: fatal", "cpu-mce|APEI_FATAL||fatal|"},
      {"[ 9000.1] [Hardware Error]: event severity: fatal", "cpu-mce|APEI_FATAL||fatal|"},
  });
}

TEST_CASE("each prefix of a fault line, and each single byte, is survived") {
  const std::string line =
      "Nov 30 05:49:34 n kernel: [ 1.2] NVRM: Xid (PCI:0000:0a:00 GPU-I:01): 149, pid=1, name=x, NETIR_LINK_EVT Fatal "
      "XC0 i0 Link 1 (0x1 0x2)";
  for (size_t n = 0; n <= line.size(); ++n) classify_text(std::string_view(line).substr(0, n));
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    CHECK_FALSE(classify_text(one).has_value());
  }
}
