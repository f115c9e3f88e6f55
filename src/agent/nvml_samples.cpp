#include <array>

#include "agent/nvml_sensor.hpp"

namespace homeostat::agent {

namespace {

using fault::GpuReading;

class Samples {
 public:
  explicit Samples(const GpuReading& gpu) : device_(gpu.pci) { samples_.reserve(48); }

  template <class Number>
  void add(const char* name, const std::optional<Number>& value, double scale = 1) {
    if (value) samples_.push_back({name, {{"gpu", device_}}, static_cast<double>(*value) * scale});
  }
  template <class Number>
  void add(const char* name, const char* label, std::string text, const std::optional<Number>& value) {
    if (value) samples_.push_back({name, {{"gpu", device_}, {label, std::move(text)}}, static_cast<double>(*value)});
  }
  void add_link_errors(const char* kind, unsigned link, const std::optional<std::uint64_t>& value) {
    // Links that never had an error have no series: there are many.
    if (value.value_or(0) > 0)
      samples_.push_back({"homeostat_gpu_nvlink_errors_total",
                          {{"gpu", device_}, {"link", std::to_string(link)}, {"kind", kind}},
                          static_cast<double>(*value)});
  }
  std::vector<Sample> take() { return std::move(samples_); }

 private:
  std::string device_;
  std::vector<Sample> samples_;
};

void add_load(const GpuReading& gpu, Samples& samples) {
  const auto& load = gpu.load;
  samples.add("homeostat_gpu_temperature_celsius", gpu.thermal.gpu_c);
  samples.add("homeostat_gpu_memory_temperature_celsius", gpu.thermal.memory_c);
  samples.add("homeostat_gpu_power_watts", load.power_mw, 1e-3);
  samples.add("homeostat_gpu_utilization_ratio", load.utilization_percent, 1e-2);
  samples.add("homeostat_gpu_memory_used_bytes", load.memory_used);
  samples.add("homeostat_gpu_memory_total_bytes", load.memory_total);
  samples.add("homeostat_gpu_sm_clock_hertz", load.sm_clock_mhz, 1e6);
  samples.add("homeostat_gpu_sm_clock_max_hertz", load.sm_clock_max_mhz, 1e6);
  struct Reason {
    const char* name;
    std::uint64_t bit;
  };
  constexpr std::array reasons = {
      Reason{"power_cap", fault::throttle_power_cap}, Reason{"hw_slowdown", fault::throttle_hw_slowdown},
      Reason{"sw_thermal", fault::throttle_sw_thermal}, Reason{"hw_thermal", fault::throttle_hw_thermal},
      Reason{"power_brake", fault::throttle_power_brake}};
  if (load.throttle_reasons)
    for (const auto& reason : reasons)
      samples.add("homeostat_gpu_throttle", "reason", reason.name,
                  std::optional((*load.throttle_reasons & reason.bit) != 0 ? 1 : 0));
}

void add_health(const GpuReading& gpu, Samples& samples) {
  samples.add("homeostat_gpu_ecc_errors_total", "kind", "corrected", gpu.ecc.corrected);
  samples.add("homeostat_gpu_ecc_errors_total", "kind", "uncorrected", gpu.ecc_uncorrected);
  samples.add("homeostat_gpu_remapped_rows", "kind", "corrected", gpu.repair.rows_corrected);
  samples.add("homeostat_gpu_remapped_rows", "kind", "uncorrected", gpu.repair.rows_uncorrected);
  samples.add("homeostat_gpu_retired_pages", "kind", "single_bit", gpu.repair.pages_single);
  samples.add("homeostat_gpu_retired_pages", "kind", "double_bit", gpu.repair.pages_double);
  samples.add("homeostat_gpu_pcie_generation", gpu.pcie.generation);
  samples.add("homeostat_gpu_pcie_lanes", gpu.pcie.width);
  samples.add("homeostat_gpu_pcie_replays_total", gpu.pcie.replays);
}

void add_links(const GpuReading& gpu, Samples& samples) {
  for (const auto& link : gpu.links) {
    samples.add("homeostat_gpu_nvlink_up", "link", std::to_string(link.link), std::optional(link.up ? 1 : 0));
    samples.add_link_errors("crc", link.link, link.crc);
    samples.add_link_errors("replay", link.link, link.replay);
    samples.add_link_errors("recovery", link.link, link.recovery);
    samples.add_link_errors("unrecovered", link.link, link.unrecovered);
    samples.add_link_errors("symbol", link.link, link.symbol);
  }
}

}  // namespace

std::vector<Sample> gpu_samples(const GpuReading& gpu) {
  Samples samples(gpu);
  if (gpu.pci.empty()) return {};  // nobody could tell whose they are
  add_load(gpu, samples);
  add_health(gpu, samples);
  add_links(gpu, samples);
  return samples.take();
}

}  // namespace homeostat::agent
