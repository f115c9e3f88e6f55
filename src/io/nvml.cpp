#include "io/nvml.hpp"

#include <algorithm>
#include <array>

#include "io/nvml_gpu.hpp"

namespace homeostat::io {

namespace {

using nvml::Functions;

class LoadedNvml final : public Nvml {
 public:
  // The library stays loaded until the process ends: a thread that hangs in the driver may still be inside it.
  LoadedNvml(const Functions& functions, std::vector<std::string> lacking)
      : call_(functions), lacking_(std::move(lacking)) {}

  Result<NvmlReading> read() override {
    if (!initialized_) {
      const int code = call_.init();
      if (code != nvml::success && code != nvml::already_initialized)
        return failure("NVML could not be initialised", code);
      initialized_ = true;
    }
    unsigned count = 0;
    if (const int code = call_.count(&count); code != nvml::success) {
      initialized_ = false;
      return failure("NVML could not count the GPUs", code);
    }
    NvmlReading reading;
    std::array<char, 96> version{};
    if (call_.driver_version && call_.driver_version(version.data(), version.size()) == nvml::success) {
      version.back() = '\0';
      reading.driver_version = version.data();
    }
    const auto there = std::min(count, fault::max_gpus);
    if (gpus_.size() < there) gpus_.resize(there);
    reading.gpus.reserve(there);
    for (unsigned index = 0; index < there; ++index) reading.gpus.push_back(gpus_[index].read(call_, index));
    if (std::any_of(reading.gpus.begin(), reading.gpus.end(), waits_for_reset)) let_go();
    return reading;
  }

  std::vector<std::string> lacking() const override { return lacking_; }

 private:
  static bool waits_for_reset(const GpuReading& gpu) {
    constexpr unsigned reset = 1, drain_and_reset = 4, bus_reset = 6;  // recovery actions
    const auto action = gpu.recovery_action.value_or(0);
    return gpu.reset_required || action == reset || action == drain_and_reset || action == bus_reset;
  }

  // A GPU cannot be reset while somebody holds it open ("in use by another client"), and who held it over a reset must
  // begin anew.
  void let_go() {
    if (call_.shutdown && call_.shutdown() == nvml::success) initialized_ = false;
  }

  static std::unexpected<Error> failure(std::string what, int code) {
    what += " (";
    what += nvml::word(code);
    what += "). ";
    what += nvml::sentence(code);
    // Where no driver is loaded there may be nothing to watch: callers tell that from a driver that fails.
    return fail(code == nvml::driver_not_loaded ? ErrorKind::not_found : ErrorKind::unavailable, std::move(what));
  }

  Functions call_;
  std::vector<std::string> lacking_;
  bool initialized_ = false;
  std::vector<nvml::Gpu> gpus_;
};

bool find_vital(SymbolFinder& find, Functions& into) {
  return find("nvmlInit_v2", into.init) && find("nvmlDeviceGetCount_v2", into.count) &&
         find("nvmlDeviceGetHandleByIndex_v2", into.handle_by_index) && find("nvmlDeviceGetUUID", into.uuid) &&
         find("nvmlDeviceGetPciInfo_v3", into.pci_info);
}

void find_optional(SymbolFinder& find, Functions& into) {
  find.optional("nvmlShutdown", into.shutdown);
  find.optional("nvmlSystemGetDriverVersion", into.driver_version);
  find.optional("nvmlDeviceGetName", into.name);
  find.optional("nvmlDeviceGetFieldValues", into.field_values);
  find.optional("nvmlDeviceGetTotalEccErrors", into.total_ecc);
  find.optional("nvmlDeviceGetSramEccErrorStatus", into.sram_ecc);
  find.optional("nvmlDeviceGetRemappedRows", into.remapped_rows);
  find.optional("nvmlDeviceGetRowRemapperHistogram", into.remap_histogram);
  find.optional("nvmlDeviceGetRetiredPages", into.retired_pages);
  find.optional("nvmlDeviceGetRetiredPagesPendingStatus", into.retired_pending);
  find.optional("nvmlDeviceGetTemperature", into.temperature);
  find.optional("nvmlDeviceGetTemperatureThreshold", into.temperature_threshold);
  find.optional("nvmlDeviceGetMarginTemperature", into.margin_temperature);
  find.optional("nvmlDeviceGetPowerUsage", into.power_usage);
  find.optional("nvmlDeviceGetUtilizationRates", into.utilization);
  find.optional("nvmlDeviceGetMemoryInfo", into.memory_info);
  find.optional("nvmlDeviceGetClockInfo", into.clock_info);
  find.optional("nvmlDeviceGetMaxClockInfo", into.max_clock_info);
  find.optional("nvmlDeviceGetCurrPcieLinkGeneration", into.pcie_generation);
  find.optional("nvmlDeviceGetMaxPcieLinkGeneration", into.pcie_generation_max);
  find.optional("nvmlDeviceGetCurrPcieLinkWidth", into.pcie_width);
  find.optional("nvmlDeviceGetMaxPcieLinkWidth", into.pcie_width_max);
  find.optional("nvmlDeviceGetPcieReplayCounter", into.pcie_replays);
  find.optional("nvmlDeviceGetMigMode", into.mig_mode);
  find.optional("nvmlDeviceGetGpuFabricInfoV", into.fabric_info);
  find.optional("nvmlDeviceGetNvLinkState", into.nvlink_state);
  find.optional("nvmlDeviceGetNvLinkErrorCounter", into.nvlink_errors);
  // Libraries before R535 have the same function under its old name.
  if (!find("nvmlDeviceGetCurrentClocksEventReasons", into.event_reasons))
    find.optional("nvmlDeviceGetCurrentClocksThrottleReasons", into.event_reasons);
}

}  // namespace

Result<std::unique_ptr<Nvml>> load_nvml(const std::string& path) { return load_nvml_with(path, nullptr); }

Result<std::unique_ptr<Nvml>> load_nvml_with(const std::string& path, const SymbolLookup& lookup) {
  std::string why;
  void* library = open_library(path.empty() ? "libnvidia-ml.so.1" : path.c_str(), why);
  if (!library) return fail(ErrorKind::not_found, "NVIDIA's management library cannot be loaded: " + why + ".");
  Functions functions;
  SymbolFinder find(library, lookup);
  if (!find_vital(find, functions)) {
    ::dlclose(library);
    return fail(ErrorKind::invalid, "The library " + path + " is not NVML or is older than its version 11.");
  }
  find_optional(find, functions);
  return std::make_unique<LoadedNvml>(functions, find.take_lacking());
}

}  // namespace homeostat::io
