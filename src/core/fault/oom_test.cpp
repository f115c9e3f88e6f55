#include "core/fault/oom.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/fault/classify.hpp"
#include "core/fault/ledger.hpp"

using namespace homeostat::fault;

TEST_CASE("the owner of a control group, in each spelling of kubelet and Slurm") {
  const std::string uid = "3c1a3a52-0b9d-4e7f-9a3b-5f1d2c3b4a59";
  const std::string systemd_uid = "3c1a3a52_0b9d_4e7f_9a3b_5f1d2c3b4a59";
  const std::string file_uid = "0123456789abcdef0123456789abcdef";
  struct Case {
    std::string path, pod, job;
  };
  for (const auto& c : {
           Case{"/kubepods/burstable/pod" + uid + "/0123abcd", uid, ""},
           Case{"/kubepods/pod" + uid + "/0123abcd", uid, ""},
           Case{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + systemd_uid +
                    ".slice/cri-containerd-0123abcd.scope",
                uid, ""},
           Case{"/kubepods.slice/kubepods-pod" + systemd_uid + ".slice", uid, ""},
           Case{"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + systemd_uid + ".slice/x", uid, ""},
           Case{"/kubepods/besteffort/pod" + file_uid + "/x", file_uid, ""},
           Case{"/kubepods/POD" + uid, "", ""},
           Case{"/kubepods/podcast/x", "", ""},
           Case{"/kubepods/pod" + uid + "0/x", "", ""},
           Case{"/kubepods/pod1234/x", "", ""},
           Case{"/slurm/uid_1000/job_4711/step_0/task_0", "", "4711"},
           Case{"/slurm_node7/uid_1000/job_4711/step_batch", "", "4711"},
           Case{"/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "", "4711"},
           Case{"/system.slice/node7_slurmstepd.scope/job_4711", "", "4711"},
           Case{"/kubepods.slice/kubepods-pod" + systemd_uid +
                    ".slice/cri-containerd-01.scope/system.slice/slurmstepd.scope/job_12/step_3/user/task_1",
                uid, "12"},
           Case{"/build/job_4711/x", "", ""},
           Case{"/system.slice/slurmstepd.scope/job_x/step_0", "", ""},
           Case{"/user.slice/user-1000.slice", "", ""},
           Case{"", "", ""},
       }) {
    CAPTURE(c.path);
    const auto owner = cgroup_owner(c.path);
    CHECK(owner.pod_uid == c.pod);
    CHECK(owner.slurm_job == c.job);
  }
}

TEST_CASE("a kill within a limit is of the container, without one of the machine; the process's own group counts") {
  const std::string uid = "3c1a3a52-0b9d-4e7f-9a3b-5f1d2c3b4a59";
  const auto limit = classify_text(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1,"
      "oom_memcg=/kubepods/burstable/pod" +
      uid + ",task_memcg=/kubepods/burstable/pod" + uid +
      "/system.slice/slurmstepd.scope/job_9/step_0/user/task_0,task=python,pid=5,uid=0");
  REQUIRE(limit);
  CHECK(limit->code == "CGROUP_OOM");
  CHECK(limit->severity == Severity::info);
  CHECK(limit->device == "job/9");
  CHECK(limit->slurm_job == "9");
  CHECK(limit->pod_uid == uid);
  const auto machine = classify_text(
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/kubepods/"
      "pod" +
      uid + "/x,task=python,pid=5,uid=0");
  REQUIRE(machine);
  CHECK(machine->code == "GLOBAL_OOM");
  CHECK(machine->severity == Severity::warn);
  CHECK(machine->device == "pod/" + uid);
  const auto old = classify_text("Task in /slurm/uid_0/job_7/step_0 killed as a result of limit of /slurm/uid_0/job_7");
  REQUIRE(old);
  CHECK(old->device == "job/7");
  CHECK_FALSE(classify_text("Task in progress"));
}

TEST_CASE("the line of the kill is named after the line of the group, if it is the same process") {
  Classifier classifier;
  const auto say = [&classifier](std::string_view text) { return classifier(parse_kernel_line(text)); };
  say("oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/slurm/uid_0/job_7,task_memcg=/slurm/uid_0/job_7/step_0,"
      "task=a,pid=55,uid=0");
  say("memory: usage 4kB, limit 4kB, failcnt 1");
  const auto other = say("Memory cgroup out of memory: Killed process 56 (b) total-vm:1kB");
  REQUIRE(other);
  CHECK(other->device.empty());
  const auto kill = say("Memory cgroup out of memory: Killed process 55 (a) total-vm:1kB");
  REQUIRE(kill);
  CHECK(kill->device == "job/7");
  CHECK(kill->slurm_job == "7");
  for (int i = 0; i < 1100; ++i) say("something else");
  CHECK(say("Memory cgroup out of memory: Killed process 55 (a) total-vm:1kB")->device.empty());
}

//   invoked oom-killer    header: an entry of its own, and the end of what was before
//   oom-kill:constraint=  the event
//   Killed process        the same event again
TEST_CASE("an out-of-memory kill is one event however many lines tell of it") {
  const std::string group = "/slurm/uid_0/job_7/step_0";
  const std::string record =
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/slurm/uid_0/job_7,"
      "task_memcg=" +
      group + ",task=a,pid=55,uid=0";
  const std::string whole_machine =
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/x,task=a,"
      "pid=55,uid=0";
  const std::string header = "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0";
  const std::string kill = "Memory cgroup out of memory: Killed process 55 (a) total-vm:1kB";
  const std::string other = "Memory cgroup out of memory: Killed process 56 (b) total-vm:1kB";
  const std::string spread = "Tasks in " + group + " are going to be killed due to memory.oom.group set";
  struct Case {
    const char* what;
    std::vector<std::string> lines;
    std::vector<std::string> told;  // id and how often it was seen
  };
  const std::string job = "oom:CGROUP_OOM@job/7";
  for (const auto& c : {
           Case{"record and kill", {record, kill}, {job + " 1"}},
           Case{"twice", {record, kill, header, record, kill}, {job + " 2", "oom:OOM_HEADER 1"}},
           Case{"the kill's own line only", {kill}, {"oom:CGROUP_OOM 1"}},
           Case{"kills without a record", {kill, header, other}, {"oom:CGROUP_OOM 2", "oom:OOM_HEADER 1"}},
           Case{"a kill of another process", {record, other}, {job + " 1", "oom:CGROUP_OOM 1"}},
           Case{"a whole group", {record, kill, spread, other}, {job + " 1"}},
           Case{"a group, its record lost", {spread, other}, {job + " 1"}},
           Case{"already exiting",
                {record, "Memory cgroup out of memory: OOM victim 55 (a) is already exiting. Skip killing the task"},
                {job + " 1"}},
           Case{"old: three lines, the child dies",
                {"Task in " + group + " killed as a result of limit of /slurm/uid_0/job_7",
                 "Memory cgroup out of memory: Kill process 55 (a) score 1001 or sacrifice child",
                 "Killed process 57 (c) total-vm:1kB, anon-rss:1kB, file-rss:0kB"},
                {job + " 1"}},
           Case{"old: two lines of the machine",
                {"Out of memory: Kill process 55 (a) score 900 or sacrifice child",
                 "Killed process 55 (a) total-vm:1kB, anon-rss:1kB, file-rss:0kB"},
                {"oom:GLOBAL_OOM 1"}},
           Case{"the machine",
                {whole_machine, "Out of memory: Killed process 55 (a) total-vm:1kB"},
                {"oom:GLOBAL_OOM 1"}},
           Case{"a container's record, the machine's kill",
                {record, "Out of memory: Killed process 55 (a) total-vm:1kB"},
                {job + " 1", "oom:GLOBAL_OOM 1"}},
           Case{"nothing to kill",
                {record, "Out of memory and no killable processes..."},
                {job + " 1", "oom:GLOBAL_OOM 1"}},
       }) {
    CAPTURE(c.what);
    Classifier classifier;
    Ledger ledger;
    for (const auto& line : c.lines) {
      const auto finding = classifier(parse_kernel_line(line));
      REQUIRE(finding);
      ledger.observe(*finding, homeostat::TimePoint{}, line);
    }
    std::vector<std::string> told;
    for (const auto& entry : ledger.entries()) told.push_back(entry.id + " " + std::to_string(entry.count));
    CHECK(told == c.told);
  }
}

TEST_CASE("a kill that comes later is another one") {
  Classifier classifier;
  const auto record = classifier(parse_kernel_line(
      "6,1,7000000000,-;Task in /slurm/uid_0/job_7 killed as a result of limit of /slurm/uid_0/job_7"));
  REQUIRE(record);
  const auto soon = classifier(parse_kernel_line("3,2,7002000000,-;Memory cgroup out of memory: Killed process 5 (a)"));
  REQUIRE(soon);
  CHECK(soon->device == "job/7");
  CHECK(soon->repeats == 0);
  const auto late = classifier(parse_kernel_line("3,3,7010000000,-;Memory cgroup out of memory: Killed process 6 (b)"));
  REQUIRE(late);
  CHECK(late->device.empty());
  CHECK(late->repeats == 1);
}
