#include "agent/nvml_sensor.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "core/fault/gpu_counters.hpp"

namespace homeostat::agent {

namespace {

constexpr std::array<std::string_view, 1> component_names = {"gpu-nvml"};

class NvmlSensor final : public Sensor {
 public:
  explicit NvmlSensor(NvmlSensorOptions options) : options_(std::move(options)) {
    if (!options_.load) options_.load = io::load_nvml;
  }

  std::string_view name() const override { return "nvml"; }
  std::span<const std::string_view> components() const override { return component_names; }

  SensorReport look(const SensorInput& input) override {
    if (!started_) begin(input);
    const auto known = options_.known_gpus ? options_.known_gpus() : std::vector<KnownGpu>();
    auto reading = read();
    if (!reading) return unanswered(input, reading.error());
    give_names(reading->gpus, known);
    const auto devices = devices_of(*reading);
    most_seen_ = std::max({most_seen_, reading->gpus.size(), known.size()});
    // The list first: a finding of a GPU is of use only where the GPU is known.
    if (options_.devices_seen) options_.devices_seen(devices);
    if (const auto waiting = still_starting(input, reading->gpus.size())) return *waiting;
    SensorReport report;
    report.state = fault::ProbeState::good;
    report.findings = counters_.judge(*reading, expected(input), input.monotonic);
    for (const auto& gpu : reading->gpus) {
      auto samples = gpu_samples(gpu);
      report.samples.insert(report.samples.end(), std::make_move_iterator(samples.begin()),
                            std::make_move_iterator(samples.end()));
    }
    return report;
  }

 private:
  void begin(const SensorInput& input) {
    started_ = input.monotonic;
    if (options_.open_findings) counters_ = fault::GpuCounters(options_.open_findings());
  }

  Result<io::NvmlReading> read() {
    if (!nvml_) {
      auto loaded = options_.load(options_.nvml_path);
      if (!loaded) return std::unexpected(loaded.error());
      nvml_ = std::move(*loaded);
    }
    return nvml_->read();
  }

  // What should be there: what somebody said, else the most that was seen since boot.
  int expected(const SensorInput& input) const {
    return input.expected_gpus > 0 ? input.expected_gpus : static_cast<int>(most_seen_);
  }
  bool is_expected(const SensorInput& input) const { return options_.always_expected || expected(input) > 0; }
  bool in_grace(const SensorInput& input) const { return input.monotonic - *started_ < options_.grace; }

  SensorReport unanswered(const SensorInput& input, const Error& error) const {
    SensorReport report;
    report.message = error.message;
    if (error.kind == ErrorKind::not_found && !is_expected(input)) {
      report.state = fault::ProbeState::absent;
    } else if (most_seen_ == 0 && in_grace(input)) {
      report.message += " The driver may still be starting.";
      report.state = fault::ProbeState::pending;
    } else {
      report.state = fault::ProbeState::failed;
    }
    return report;
  }

  std::optional<SensorReport> still_starting(const SensorInput& input, size_t there) const {
    const auto wanted = static_cast<size_t>(std::max(input.expected_gpus, 0));
    if (there >= wanted || most_seen_ >= wanted || !in_grace(input)) return std::nullopt;
    SensorReport report;
    report.state = fault::ProbeState::pending;
    report.message = std::to_string(there) + " of " + std::to_string(wanted) +
                     " GPUs are there so far. The driver may still be starting.";
    return report;
  }

  // A GPU that no longer says its name keeps the one that it had.
  static void give_names(std::vector<io::GpuReading>& gpus, const std::vector<KnownGpu>& known) {
    for (auto& gpu : gpus) {
      if (!gpu.pci.empty() && !gpu.uuid.empty()) continue;
      const auto at = std::find_if(known.begin(), known.end(), [&](const KnownGpu& k) { return k.index == gpu.index; });
      if (at == known.end()) continue;
      if (gpu.pci.empty()) gpu.pci = at->pci;
      if (gpu.uuid.empty()) gpu.uuid = at->uuid;
    }
  }

  static std::vector<GpuDevice> devices_of(const io::NvmlReading& reading) {
    std::vector<GpuDevice> devices;
    devices.reserve(reading.gpus.size());
    for (const auto& gpu : reading.gpus)
      devices.push_back({gpu.index, gpu.uuid, gpu.pci, gpu.lost,
                         gpu.reset_required ? "The driver answers nothing about it before it is reset." : gpu.trouble});
    return devices;
  }

  NvmlSensorOptions options_;
  std::unique_ptr<io::Nvml> nvml_;
  fault::GpuCounters counters_;
  std::optional<Duration> started_;
  size_t most_seen_ = 0;
};

}  // namespace

std::unique_ptr<Sensor> make_nvml_sensor(NvmlSensorOptions options) {
  return std::make_unique<NvmlSensor>(std::move(options));
}

}  // namespace homeostat::agent
