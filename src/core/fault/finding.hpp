// What one kernel line (or one probe) says about a node: a Finding. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace homeostat::fault {

enum class Severity { none, info, warn, error, fatal };

// What is done about a finding. Its order says nothing.
enum class RepairClass { ignore, watch, drain_after_job, restart_job, reset, replace_node };

std::string_view to_string(Severity severity);
std::optional<Severity> parse_severity(std::string_view text);
std::string_view to_string(RepairClass repair_class);
std::optional<RepairClass> parse_repair_class(std::string_view text);

struct Finding {
  std::string component;  // gpu-xid, nvlink, gpu-sxid, gpu-lost, gpu-driver, amd-ras, nic, pcie-aer, disk, …
  std::string code;       // 79, 149/NETIR_LINK_EVT, 154/0x4, RAS_UE/umc, LINK_DOWN, …
  std::string device;  // 0000:05:00 (a GPU, without function), 0000:41:00.1, nvme4, md0, …; "" when the line names none
  Severity severity = Severity::none;
  std::string action;  // the catalogue's word (catalog/actions.tsv); "" when nobody has published one
  std::string title;   // one sentence for people
  RepairClass repair_class = RepairClass::watch;
  bool unambiguous = false;  // acts at once, without waiting for companion lines
  bool injected = false;     // the driver marks the fault as injected by a test
  bool drill = false;        // a drill of ours that has proved itself (docs/operators: drills)
  bool rma_candidate = false;
  std::string upstream;       // PCIe: the port that reported the trouble of `device`, where the line names both
  std::string recovery_from;  // Xid 154: the value before, "0x4"; 0x4 to 0x1 is the end of a drain, not a new fault
  std::string caused_by;      // Xid that the line names as its cause
  std::string gpu_instance;   // MIG ids, as printed
  std::string compute_instance;
  std::string pod_uid;        // of an out-of-memory kill: the pod whose cgroup it was, in the API's spelling
  std::string slurm_job;      // of an out-of-memory kill: the Slurm job whose cgroup it was
  std::uint32_t repeats = 1;  // "message repeated N times"
};

}  // namespace homeostat::fault
