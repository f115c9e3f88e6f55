#include "core/fault/oom.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/fault/classify.hpp"

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
  for (int i = 0; i < 70; ++i) say("something else");
  CHECK(say("Memory cgroup out of memory: Killed process 55 (a) total-vm:1kB")->device.empty());
}
