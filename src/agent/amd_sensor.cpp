#include "agent/amd_sensor.hpp"

#include <array>

#include "agent/sys_sensor.hpp"
#include "io/amd.hpp"

namespace homeostat::agent {

namespace {

class AmdSensor final : public SysSensor {
 public:
  explicit AmdSensor(const io::SysRoots& roots) : AmdSensor(io::AmdReader(roots)) {}

  std::string_view name() const override { return "amd"; }
  std::span<const std::string_view> components() const override {
    static constexpr std::array<std::string_view, 1> names = {"amd-counters"};
    return names;
  }

  SensorReport look(const SensorInput& input) override {
    const auto gpus = reader_.read(input.monotonic);
    SensorReport report;
    // The number that somebody expects is that of the accelerators of whatever make: ours to judge only where AMD's
    // are.
    report.findings = watch_.look(gpus, reader_.any_accelerator() ? input.expected_gpus : 0, input.monotonic);
    size_t troubled = 0;
    std::string trouble;
    for (const auto& gpu : gpus) {
      if (!gpu.trouble.empty()) {
        ++troubled;
        trouble = "AMD GPU " + gpu.pci + " cannot be asked: " + gpu.trouble + ".";
      }
      if (gpu.listed) add_samples(gpu, report);
    }
    const bool none_yet = gpus.empty() && reader_.any_accelerator();
    set_state(report, gpus.size(), troubled, trouble);
    if (none_yet) {
      report.state = fault::ProbeState::failed;
      report.message = "AMD accelerators are on the PCI bus, but the amdgpu driver has none of them. Load the driver.";
    }
    return report;
  }

 private:
  explicit AmdSensor(io::AmdReader reader) : SysSensor(reader.now_reading()), reader_(std::move(reader)) {}

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
    add_sample(report, "homeostat_gpu_pcie_replays_total", labels,
               gpu.pcie_replays ? gpu.pcie_replays : metrics.pcie_replays);
  }

  static std::optional<double> scaled(const std::optional<std::uint64_t>& value, double scale) {
    return value ? std::optional(static_cast<double>(*value) * scale) : std::nullopt;
  }

  io::AmdReader reader_;
  fault::AmdWatch watch_;
};

}  // namespace

std::unique_ptr<Sensor> make_amd_sensor(const io::SysRoots& roots) { return std::make_unique<AmdSensor>(roots); }

}  // namespace homeostat::agent
