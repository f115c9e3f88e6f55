#include "agent/steps_sensor.hpp"

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/fault/step_report.hpp"
#include "io/step_files.hpp"

namespace homeostat::agent {

namespace {

constexpr double busy_ratio = 0.5;  // from here on a GPU's clock says something about speed

// Microseconds are enough, and 0.1 + 0.2 does not become 0.30000000000000004 in everybody's kubectl.
double to_microseconds(double seconds) { return std::round(seconds * 1e6) / 1e6; }

api::JobPerformance performance_of(const fault::NodeSteps& steps) {
  api::JobPerformance job;
  job.job = steps.job;
  job.group = steps.group;
  job.uid = steps.uid;
  job.ranks = steps.ranks;
  job.step = steps.step;
  job.step_time_s = to_microseconds(steps.step_s);
  job.compute_time_s = to_microseconds(steps.compute_s);
  job.wait_time_s = to_microseconds(steps.wait_s);
  job.slowest_rank = steps.slowest_rank;
  job.updated_at = steps.updated_at;
  job.note = steps.note;
  return job;
}

class StepsSensor final : public Sensor {
 public:
  explicit StepsSensor(std::string folder) : folder_(std::move(folder)) {}

  std::string_view name() const override { return "steps"; }
  std::span<const std::string_view> components() const override {
    static constexpr std::array<std::string_view, 1> all{"steps"};
    return all;
  }

  SensorReport look(const SensorInput& input) override {
    SensorReport report;
    const auto prepared = io::prepare_step_folder(folder_);
    auto read = io::read_step_folder(folder_, input.now);
    if (!read) {
      const bool none = read.error().kind == ErrorKind::not_found;
      report.state = none ? fault::ProbeState::absent : fault::ProbeState::failed;
      report.message = none && !prepared ? prepared.error().message : read.error().message;
      return report;
    }
    report.state = fault::ProbeState::good;
    if (!prepared)
      report.message = prepared.error().message;
    else if (read->refused > 0)
      report.message =
          "Refused " + std::to_string(read->refused) + " of the files in " + folder_ + ", such as " + read->example;
    add_jobs(read->reports, report);
    return report;
  }

 private:
  static void add_jobs(std::span<const fault::StepReport> reports, SensorReport& report) {
    std::set<std::pair<std::string, std::string>> sampled;
    for (const auto& steps : fault::gather_steps(reports)) {
      report.performance.push_back(performance_of(steps));
      // Another user's reports for the same job (they have fewer ranks, so they come later) have no series.
      if (!sampled.emplace(steps.job, steps.group).second) continue;
      report.samples.push_back(
          {"homeostat_job_step_seconds", {{"slurm_job", steps.job}, {"group", steps.group}}, steps.step_s});
      if (steps.compute_s > 0)
        report.samples.push_back(
            {"homeostat_job_compute_seconds", {{"slurm_job", steps.job}, {"group", steps.group}}, steps.compute_s});
    }
  }

  std::string folder_;
};

}  // namespace

std::unique_ptr<Sensor> make_steps_sensor(std::string folder) {
  return std::make_unique<StepsSensor>(std::move(folder));
}

void add_gpu_figures(std::vector<api::JobPerformance>& performance, std::span<const Sample> nvml_samples) {
  struct Gpu {
    double clock_hz = 0, busy = -1;
  };
  std::map<std::string_view, Gpu> gpus;
  for (const auto& sample : nvml_samples) {
    if (sample.labels.empty() || sample.labels.front().first != "gpu") continue;
    if (sample.name == "homeostat_gpu_sm_clock_hertz") gpus[sample.labels.front().second].clock_hz = sample.value;
    if (sample.name == "homeostat_gpu_utilization_ratio") gpus[sample.labels.front().second].busy = sample.value;
  }
  double lowest_hz = 0, middling = -1;
  for (const auto& [device, gpu] : gpus) {
    if (gpu.busy < 0) continue;
    if (middling < 0 || std::abs(gpu.busy - 0.5) < std::abs(middling - 0.5)) middling = gpu.busy;
    if (gpu.busy >= busy_ratio && gpu.clock_hz > 0 && (lowest_hz <= 0 || gpu.clock_hz < lowest_hz))
      lowest_hz = gpu.clock_hz;
  }
  for (auto& job : performance) {
    job.sm_clock_mhz = std::llround(lowest_hz / 1e6);
    job.utilisation_percent = middling < 0 ? -1 : std::llround(middling * 100);
  }
}

}  // namespace homeostat::agent
