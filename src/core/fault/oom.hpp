// Out-of-memory records of the kernel: whose control group ran out, as a pod's uid or a Slurm job's number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/fault/finding.hpp"

namespace homeostat::fault {

struct CgroupOwner {
  std::string pod_uid;    // "3c1a3a52-…", or 32 hex digits for a pod that the kubelet made from a file
  std::string slurm_job;  // "4711"
  bool known() const { return !pod_uid.empty() || !slurm_job.empty(); }
};

// Reads the path of a control group in all the spellings of kubelet (cgroupfs and systemd) and Slurm (v1 and v2).
CgroupOwner cgroup_owner(std::string_view path);

// Fills pod_uid, slurm_job and, from them, the device: "job/4711", else "pod/3c1a3a52-…".
void set_owner(Finding& finding, const CgroupOwner& owner);

// "oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=…,task_memcg=…,task=…,pid=…,uid=…", and the older
// "Task in … killed as a result of limit of …"; and "Tasks in … are going to be killed due to memory.oom.group set".
// nullopt: not such a line.
struct OomRecord {
  Finding finding;
  std::uint64_t pid = 0;  // of the process that is killed; 0 when the line does not tell
  bool of_group = false;  // the kill of one process spreads to its whole control group
};
std::optional<OomRecord> parse_oom_record(std::string_view text);

// The process of "…: Killed process 5 (name) …", "Killed process 5, …", "…: OOM victim 5 (name) …"; 0 when it names
// none.
std::uint64_t killed_pid(std::string_view text);

}  // namespace homeostat::fault
