#include "agent/probe.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/fault/catalog.hpp"

namespace homeostat::agent {

namespace {

using fault::Finding;
using fault::Severity;

Finding make(std::string_view code, const io::GpuReading& gpu, Severity severity, std::string_view action,
             std::string title) {
  Finding finding;
  finding.component = "gpu-nvml";
  finding.code = code;
  finding.device = gpu.pci.empty() ? "gpu-" + std::to_string(gpu.index) : gpu.pci;
  finding.severity = severity;
  finding.action = action;
  finding.title = std::move(title);
  fault::set_repair_class(finding);
  return finding;
}

Duration monotonic_now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

std::vector<Finding> findings_of(const io::NvmlReading& reading, int expected_gpus) {
  std::vector<Finding> findings;
  for (const auto& gpu : reading.gpus) {
    if (gpu.lost) {
      findings.push_back(make("LOST", gpu, Severity::fatal, "RESTART_BM", "The driver says that the GPU is lost"));
      continue;
    }
    if (!gpu.trouble.empty())
      findings.push_back(make("NO_ANSWER", gpu, Severity::error, "", "The driver cannot read the GPU: " + gpu.trouble));
    if (gpu.ecc_uncorrected.value_or(0) > 0)
      findings.push_back(
          make("ECC_UNCORRECTED", gpu, Severity::warn, "", "Uncorrected memory errors since the driver was loaded"));
    if (gpu.recovery_action.value_or(0) != 0) {
      const auto code = "154/0x" + std::to_string(*gpu.recovery_action);
      const auto* entry = fault::Catalog::instance().xid(code);
      findings.push_back(make("RECOVERY_ACTION/" + std::to_string(*gpu.recovery_action), gpu,
                              entry ? entry->severity : Severity::warn, entry ? entry->action : std::string_view{},
                              entry ? std::string(entry->title) : "An unknown recovery action"));
    }
  }
  if (expected_gpus > 0 && reading.gpus.size() < static_cast<size_t>(expected_gpus)) {
    auto missing =
        make("GPU_MISSING", {}, Severity::fatal, "",
             std::to_string(reading.gpus.size()) + " GPUs are there, " + std::to_string(expected_gpus) + " should be");
    missing.device.clear();
    findings.push_back(std::move(missing));
  }
  return findings;
}

struct Probe::Shared {
  mutable std::mutex mutex;
  std::condition_variable wake;
  ProbeOptions options;
  Load load;
  ProbeReport report;
  std::optional<Duration> started;  // of a round that has not ended
  bool asked = false, stopped = false;
};

namespace {

// Loads the library when needed and reads once.
Result<io::NvmlReading> one_round(std::unique_ptr<io::Nvml>& nvml, const std::string& path, const Probe::Load& load) {
  if (!nvml) {
    auto loaded = load(path);
    if (!loaded) return std::unexpected(loaded.error());
    nvml = std::move(*loaded);
  }
  return nvml->read();
}

}  // namespace

Probe::Probe(ProbeOptions options, Load load) : shared_(std::make_shared<Shared>()) {
  shared_->options = std::move(options);
  shared_->load = load ? std::move(load) : Load(io::load_nvml);
  // Detached, and it owns what it touches: a thread that hangs in the driver cannot be joined.
  std::thread([shared = shared_] {
    std::unique_ptr<io::Nvml> nvml;
    std::unique_lock lock(shared->mutex);
    while (!shared->stopped) {
      shared->started = monotonic_now();
      shared->asked = false;
      const auto path = shared->options.nvml_path;
      lock.unlock();
      auto reading = one_round(nvml, path, shared->load);
      lock.lock();
      shared->started.reset();
      ++shared->report.rounds;
      if (shared->stopped) break;
      if (reading) {
        shared->report.state = fault::ProbeState::good;
        shared->report.message.clear();
        shared->report.reading = std::move(*reading);
      } else {
        const bool nothing_there = reading.error().kind == ErrorKind::not_found && !shared->options.gpus_expected;
        shared->report.state = nothing_there ? fault::ProbeState::absent : fault::ProbeState::failed;
        shared->report.message = nothing_there ? "" : reading.error().message;
      }
      shared->wake.wait_for(lock, shared->options.interval, [&] { return shared->stopped || shared->asked; });
    }
  }).detach();
}

Probe::~Probe() {
  std::lock_guard lock(shared_->mutex);
  shared_->stopped = true;
  shared_->wake.notify_all();
}

ProbeReport Probe::latest() const {
  std::lock_guard lock(shared_->mutex);
  auto report = shared_->report;
  if (shared_->started && monotonic_now() - *shared_->started > shared_->options.patience) {
    report.state = fault::ProbeState::failed;
    report.message = "The driver has not answered the device probe for " +
                     format_duration(monotonic_now() - *shared_->started) + ".";
  }
  return report;
}

void Probe::ask_now() {
  std::lock_guard lock(shared_->mutex);
  shared_->asked = true;
  shared_->wake.notify_all();
}

void Probe::expect_gpus(bool expected) {
  std::lock_guard lock(shared_->mutex);
  shared_->options.gpus_expected = expected;
}

}  // namespace homeostat::agent
