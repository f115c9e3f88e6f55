#include "agent/steps_sensor.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::agent;

namespace {

SensorInput input() {
  SensorInput now;
  now.now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  return now;
}

std::string report(int rank, double compute_s) {
  return R"({"v":1,"job":"12","rank":)" + std::to_string(rank) + R"(,"step":42,"step_time_s":0.5,"compute_time_s":)" +
         std::to_string(compute_s) + R"(,"updated_at":1790000000.5})";
}

// The helper itself reports: it alone holds its file as the sensor wants it held.
const char* const helper =
    "import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True\n"
    "import homeostat_steps as hs\n"
    "now = [0.0]\n"
    "steps = hs.Steps(sys.argv[2], clock=lambda: now[0])\n"
    "for _ in range(20):\n"
    "  steps.step(); now[0] += 0.3; steps.computed(); now[0] += 0.2\n"
    "print('ready', flush=True); sys.stdin.readline()\n";

}  // namespace

TEST_CASE("without a folder, and where none can be made, the sensor is absent and says why") {
  TestFolder folder;
  auto sensor = make_steps_sensor(folder.file("none/steps"));
  const auto said = sensor->look(input());
  CHECK(said.state == fault::ProbeState::absent);
  CHECK(said.message.contains("cannot be made"));
  CHECK(said.performance.empty());
}

TEST_CASE("it makes the folder, and an empty one is good news") {
  TestFolder folder;
  auto sensor = make_steps_sensor(folder.file("steps"));
  const auto said = sensor->look(input());
  CHECK(said.state == fault::ProbeState::good);
  CHECK(said.message.empty());
  CHECK(std::filesystem::exists(folder.file("steps")));
}

TEST_CASE("a path that is no folder is a failure, with the reason") {
  TestFolder folder;
  folder.write("steps", "");
  const auto said = make_steps_sensor(folder.file("steps"))->look(input());
  CHECK(said.state == fault::ProbeState::failed);
  CHECK(said.message.contains("cannot be opened"));
}

TEST_CASE("what the helper writes is told per job, while it lives") {
  TestFolder folder;
  const std::string examples = std::string(HOMEOSTAT_SOURCE_DIR) + "/examples";
  ::setenv("SLURM_JOB_ID", "12", 1);
  ::setenv("SLURM_PROCID", "3", 1);
  folder.write("helper.py", helper);
  std::filesystem::create_directory(folder.file("steps"));
  int to[2], from[2];
  REQUIRE(::pipe(to) == 0);
  REQUIRE(::pipe(from) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(to[0], 0);
    ::dup2(from[1], 1);
    ::execlp("python3", "python3", "-B", folder.file("helper.py").c_str(), examples.c_str(),
             folder.file("steps").c_str(), nullptr);
    ::_exit(127);
  }
  ::close(from[1]);  // so that a helper that fails ends the read
  char ready = 0;
  REQUIRE(::read(from[0], &ready, 1) == 1);

  auto sensor = make_steps_sensor(folder.file("steps"));
  auto said = sensor->look(input());
  CHECK(said.state == fault::ProbeState::good);
  REQUIRE(said.performance.size() == 1);
  const auto& job = said.performance[0];
  CHECK(job.job == "12");
  CHECK(job.ranks == 1);
  CHECK(job.compute_time_s == 0.3);
  CHECK(job.wait_time_s == 0.2);
  CHECK(job.step_time_s == 0.5);
  CHECK(job.slowest_rank == 3);
  CHECK(job.uid == ::geteuid());
  REQUIRE(said.samples.size() == 2);
  CHECK(said.samples[0].name == "homeostat_job_step_seconds");
  CHECK(said.samples[0].labels.front() == std::pair<std::string, std::string>("slurm_job", "12"));
  CHECK(said.samples[1].name == "homeostat_job_compute_seconds");
  CHECK(said.samples[1].value == doctest::Approx(0.3));

  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(sensor->look(input()).performance.empty());
  for (int end : {to[0], to[1], from[0]}) ::close(end);
}

TEST_CASE("reports of nobody are no job, nonsense is told and hides nothing") {
  TestFolder folder;
  folder.write("12.0.json", report(0, 0.4));
  folder.write("12.1.json", "{");
  const auto said = make_steps_sensor(folder.path)->look(input());
  CHECK(said.state == fault::ProbeState::good);
  CHECK(said.performance.empty());
  CHECK(said.message.starts_with("Refused 1 of the files in "));
  CHECK(said.message.contains("12.1.json"));
}

//   GPU 0: 95 %, 1980 MHz   GPU 1: 99 %, 1095 MHz   GPU 2: 3 %, 345 MHz (idle: its clock says nothing)
TEST_CASE("the lowest clock of the busy GPUs is added, and how busy they are") {
  auto gpu = [](const char* pci, const char* name, double value) { return Sample{name, {{"gpu", pci}}, value}; };
  const std::vector<Sample> samples = {gpu("0000:05:00", "homeostat_gpu_sm_clock_hertz", 1980e6),
                                       gpu("0000:05:00", "homeostat_gpu_utilization_ratio", 0.95),
                                       gpu("0000:06:00", "homeostat_gpu_sm_clock_hertz", 1095e6),
                                       gpu("0000:06:00", "homeostat_gpu_utilization_ratio", 0.99),
                                       gpu("0000:07:00", "homeostat_gpu_sm_clock_hertz", 345e6),
                                       gpu("0000:07:00", "homeostat_gpu_utilization_ratio", 0.03),
                                       {"homeostat_sensor_up", {}, 1}};
  std::vector<api::JobPerformance> performance(2);
  add_gpu_figures(performance, samples);
  CHECK(performance[0].sm_clock_mhz == 1095);
  CHECK(performance[1].utilisation_percent == 95);
  add_gpu_figures(performance, {});
  CHECK(performance[0].sm_clock_mhz == 0);
  CHECK(performance[0].utilisation_percent == -1);
}
