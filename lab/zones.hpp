// Zones from outside: start one, find one that still runs, end one. What is known of a zone is on disk, so that any
// later process can take over: a record names the first process by pid and start time, which together are never reused.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"
#include "lab/zone_spec.hpp"

namespace homeostat::lab {

struct ZoneRecord {
  pid_t pid = -1;                     // as the host sees it
  unsigned long long start_time = 0;  // field 22 of /proc/PID/stat, in clock ticks since boot
};

Result<void> write_record(const std::string& path, pid_t pid);  // of a process that runs now
std::optional<ZoneRecord> read_record(const std::string& path);
// The record's process still runs, and is not a zombie.
bool alive(const ZoneRecord& record);

// Field 22 of a line of /proc/PID/stat, whose second field may hold blanks and parentheses.
std::optional<unsigned long long> parse_start_time(std::string_view stat_line);

// Writes the specification beside the record and runs `program zone-init SPEC`. The network namespace and cgroup must
// exist.
Result<void> start_zone(const std::string& program, const ZoneSpec& spec);
// Kills everything in the zone and waits until the kernel has done so. Success when it did not run. The record goes
// too.
Result<void> kill_zone(const std::string& record_path, Duration timeout = Duration(10'000));

Result<void> make_netns(const std::string& path);
void remove_netns(const std::string& path);

// cgroup v1 (every mounted controller) and v2 alike. path is absolute below the hierarchy's root: "/lab-x".
Result<void> make_cgroup(const std::string& path);
Result<void> join_cgroup(const std::string& path);
void remove_cgroup(const std::string& path);  // with all below it, once its processes are gone; waits up to 2 s
std::vector<std::string> cgroup_places(const std::string& path);  // the folders of it that exist

// Each kubelet and containerd holds several inotify instances, and the kernel's default allows root 128 of them: about
// ten machines. The one setting of the host that a lab changes; what it was is kept in /run until the last lab goes.
Result<void> allow_inotify();
void restore_inotify();

// Host pids of the processes whose network namespace is the one at `path`, zombies aside.
std::vector<pid_t> processes_in_netns(const std::string& path);

}  // namespace homeostat::lab
