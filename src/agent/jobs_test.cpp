#include "agent/jobs.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/test_folder.hpp"

using namespace homeostat;

namespace fs = std::filesystem;

TEST_CASE("jobs are found in the cgroups of Slurm's both versions, and in those of a pod") {
  TestFolder tree;
  const auto& root = tree.path;
  CHECK(agent::jobs_under(root).empty());
  CHECK(agent::jobs_under(root / "nowhere").empty());
  for (const char* folder : {"system.slice/slurmstepd.scope/job_17/step_0/user/task_0", "memory/slurm/uid_1000/job_18",
                             "kubepods.slice/kubepods-pod1.slice/cri-1.scope/system.slice/n1_slurmstepd.scope/job_19",
                             "job_x", "job_", "cpu/slurm/uid_1000/job_18"})
    fs::create_directories(root / folder);
  CHECK(agent::jobs_under(root) == std::vector<std::string>{"17", "18", "19"});
  for (int i = 0; i < 2000; ++i) fs::create_directories(root / ("a" + std::to_string(i)));
  CHECK(agent::jobs_under(root).size() <= 3);  // bounded, whatever there is
}
