// The sensor of NVIDIA GPUs: NVML's figures, what is wrong with them (core/fault/gpu_counters), and the list of
// devices. Component gpu-nvml. Threads: look() runs on one thread at a time and may hang as long as the driver does; it
// holds no lock, and the callbacks are called from it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/gpu_device.hpp"
#include "agent/sensor.hpp"
#include "core/result.hpp"
#include "io/nvml.hpp"

namespace homeostat::agent {

struct NvmlSensorOptions {
  std::string nvml_path;         // "": the loader's libnvidia-ml.so.1
  bool always_expected = false;  // a missing library or driver is a failure also while nobody has said how many GPUs
  Duration grace{60'000};        // after the first look: a driver may still be starting

  // Each may be null.
  std::function<std::vector<KnownGpu>()> known_gpus;         // the names of this boot's GPUs; asked at each look
  std::function<std::vector<std::string>()> open_findings;   // ids that were open before a restart; asked once
  std::function<void(std::vector<GpuDevice>)> devices_seen;  // after each look that answered
  std::function<Result<std::unique_ptr<io::Nvml>>(const std::string&)> load;  // null: io::load_nvml
};

// Its reports: good: it answered. absent: no library or driver, and nobody expects GPUs. pending: within the grace
// there is no driver yet, or fewer GPUs than expected and never all of them since boot: nothing has recovered, nothing
// is found. failed: the library, the driver or the count cannot be had.
std::unique_ptr<Sensor> make_nvml_sensor(NvmlSensorOptions options);

// The figures of one GPU, labelled with its PCI address: at most 22, and one for each link besides those of links that
// have had errors.
std::vector<Sample> gpu_samples(const fault::GpuReading& gpu);

}  // namespace homeostat::agent
