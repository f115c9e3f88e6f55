#include "agent/amd_sensor.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "agent/sys_sensor.hpp"
#include "io/amd.hpp"

namespace homeostat::agent {

namespace {

class AmdSensor final : public SysSensor {
 public:
  AmdSensor(io::AmdReader reader, AmdSensorOptions options)
      : SysSensor(reader.now_reading()),
        reader_(std::move(reader)),
        options_(std::move(options)),
        watch_(options_.grace) {}

  std::string_view name() const override { return "amd"; }
  std::span<const std::string_view> components() const override {
    static constexpr std::array<std::string_view, 1> names = {"amd-counters"};
    return names;
  }

  SensorReport look(const SensorInput& input) override {
    recall();
    auto gpus = reader_.read(input.monotonic);
    complete(gpus, input.monotonic);
    // The list first: a finding of a GPU is of use only where the GPU is known.
    if (options_.devices_seen) options_.devices_seen(devices_of(gpus));
    SensorReport report;
    report.findings = watch_.look(gpus, input.expected_gpus, input.monotonic);
    for (const auto& gpu : gpus)
      if (gpu.listed) add_samples(gpu, report);
    set_state(report, gpus, name_of);
    judge_number(gpus, input.expected_gpus, report);
    return report;
  }

 private:
  void complete(std::vector<fault::AmdReading>& gpus, Duration monotonic) {
    if (!options_.shelf) return;
    options_.shelf->put_files(gpus);
    for (const auto& told : options_.shelf->library(monotonic)) {
      const auto gpu = std::ranges::find(gpus, told.pci, &fault::AmdReading::pci);
      if (gpu != gpus.end() && gpu->listed) fault::fill_from_library(*gpu, told);
    }
  }

  // None at all is an answer of /sys, and a fault where some are expected.
  void judge_number(const std::vector<fault::AmdReading>& gpus, int expected, SensorReport& report) const {
    if (watch_.awaits_more()) {
      report.state = fault::ProbeState::pending;
      report.message = std::to_string(std::ranges::count_if(gpus, &fault::AmdReading::listed)) + " of " +
                       std::to_string(expected) + " AMD GPUs are there so far. The driver may still be starting.";
    } else if (gpus.empty() && expected > 0) {
      report.state = fault::ProbeState::good;
    } else if (gpus.empty() && reader_.any_accelerator()) {
      report.state = fault::ProbeState::failed;
    }
    if (!gpus.empty() || report.state == fault::ProbeState::absent) return;
    if (!report.message.empty()) report.message += " ";
    report.message +=
        reader_.any_accelerator()
            ? "AMD accelerators are on the PCI bus, but the amdgpu driver has none of them. Load the driver."
            : "AMD GPUs are expected (" + std::to_string(expected) +
                  "), and none is on the PCI bus. Look at the machine's power and firmware.";
  }

  // A GPU that was lost before the agent was restarted is still missed.
  void recall() {
    if (!options_.known_gpus) return;
    std::vector<std::string> addresses;
    for (auto& gpu : std::exchange(options_.known_gpus, nullptr)()) {
      addresses.push_back(gpu.pci);
      uuids_[gpu.pci] = std::move(gpu.uuid);
    }
    reader_.remember(addresses);
  }

  static std::string name_of(const fault::AmdReading& gpu) { return "AMD GPU " + gpu.pci; }

  // By the order of addresses, in which the driver finds them, too: the same number before and after a loss.
  std::vector<GpuDevice> devices_of(const std::vector<fault::AmdReading>& gpus) const {
    std::vector<GpuDevice> devices;
    devices.reserve(gpus.size());
    for (const auto& gpu : gpus) {
      if (gpu.moved) continue;
      GpuDevice device{static_cast<unsigned>(devices.size()), gpu.uuid, gpu.pci, !gpu.listed && !gpu.there, ""};
      if (const auto known = uuids_.find(gpu.pci); device.uuid.empty() && known != uuids_.end())
        device.uuid = known->second;
      if (device.lost)
        device.trouble = "The GPU has gone from the PCI bus.";
      else if (!gpu.listed)
        device.trouble = "The amdgpu driver has let the GPU go.";
      else if (!gpu.trouble.empty())
        device.trouble = trouble_of(gpu, name_of);
      devices.push_back(std::move(device));
    }
    return devices;
  }

  // The names and labels are those of the NVIDIA GPUs' figures, so that one dashboard shows both.
  static void add_samples(const fault::AmdReading& gpu, SensorReport& report) {
    const Labels labels = {{"gpu", gpu.pci}};
    const auto of_kind = [&](const char* kind) { return Labels{{"gpu", gpu.pci}, {"kind", kind}}; };
    add_sample(report, "homeostat_gpu_memory_total_bytes", labels, gpu.vram_total);
    add_sample(report, "homeostat_gpu_memory_used_bytes", labels, gpu.vram_used);
    auto busy = gpu.busy_percent;
    if (!busy && gpu.metrics) busy = gpu.metrics->busy_percent;
    add_sample(report, "homeostat_gpu_utilization_ratio", labels, scaled(busy, 1e-2));
    std::uint64_t corrected = 0, uncorrected = 0;
    for (const auto& block : gpu.blocks) {
      corrected += block.corrected.value_or(0);
      uncorrected += block.uncorrected.value_or(0);
    }
    if (!gpu.blocks.empty()) {
      add_sample(report, "homeostat_gpu_ecc_errors_total", of_kind("corrected"), std::optional(corrected));
      add_sample(report, "homeostat_gpu_ecc_errors_total", of_kind("uncorrected"), std::optional(uncorrected));
    }
    if (gpu.bad_pages)
      add_sample(report, "homeostat_gpu_retired_pages", of_kind("retired"), std::optional(gpu.bad_pages->retired));
    if (!gpu.metrics) return;
    const auto& metrics = *gpu.metrics;
    add_sample(report, "homeostat_gpu_temperature_celsius", labels, metrics.hotspot_c);
    add_sample(report, "homeostat_gpu_memory_temperature_celsius", labels, metrics.memory_c);
    add_sample(report, "homeostat_gpu_power_watts", labels, metrics.power_w);
    add_sample(report, "homeostat_gpu_sm_clock_hertz", labels, scaled(metrics.gfxclk_mhz, 1e6));
    add_sample(report, "homeostat_gpu_pcie_lanes", labels, metrics.lanes);
    add_sample(report, "homeostat_gpu_pcie_generation", labels, generation_of(metrics.speed_tenth_gts));
    add_sample(report, "homeostat_gpu_pcie_replays_total", labels,
               gpu.pcie_replays ? gpu.pcie_replays : metrics.pcie_replays);
  }

  // 2.5, 5, 8, 16, 32, 64 GT/s.
  static std::optional<unsigned> generation_of(const std::optional<std::uint64_t>& speed_tenth_gts) {
    if (!speed_tenth_gts) return std::nullopt;
    constexpr std::array<std::uint64_t, 6> speeds = {25, 50, 80, 160, 320, 640};
    const auto* const found = std::ranges::find(speeds, *speed_tenth_gts);
    return found == speeds.end() ? std::nullopt : std::optional(static_cast<unsigned>(found - speeds.begin()) + 1);
  }

  static std::optional<double> scaled(const std::optional<std::uint64_t>& value, double scale) {
    return value ? std::optional(static_cast<double>(*value) * scale) : std::nullopt;
  }

  io::AmdReader reader_;
  AmdSensorOptions options_;
  std::map<std::string, std::string> uuids_;  // by address, of GPUs that were known before the first look
  fault::AmdWatch watch_;
};

}  // namespace

std::unique_ptr<Sensor> make_amd_sensor(AmdSensorOptions options) {
  io::AmdReader reader(options.roots);
  return std::make_unique<AmdSensor>(std::move(reader), std::move(options));
}

}  // namespace homeostat::agent
