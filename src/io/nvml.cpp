#include "io/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>

namespace homeostat::io {

namespace {

// The part of NVML's binary interface that is used here, from NVIDIA's public API reference.
using Handle = struct nvmlDevice_opaque*;
constexpr int nvml_success = 0, nvml_already_initialized = 5, nvml_gpu_is_lost = 15;
constexpr unsigned field_recovery_action = 230;
constexpr unsigned max_gpus = 64;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

struct FieldValue {
  unsigned field_id, scope_id;
  long long timestamp, latency_us;
  unsigned value_type;
  int result;
  union {
    double number;
    unsigned u32;
    unsigned long long u64;
  } value;
};

struct Functions {
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle_by_index)(unsigned, Handle*) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*pci_info)(Handle, PciInfo*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;  // the rest may be missing in old drivers
  int (*total_ecc)(Handle, int, int, unsigned long long*) = nullptr;
  int (*field_values)(Handle, int, FieldValue*) = nullptr;
};

template <class Function>
bool find_symbol(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  return into != nullptr;
}

class LoadedNvml final : public Nvml {
 public:
  // The library stays loaded until the process ends: a thread that hangs in the driver may still be inside it.
  explicit LoadedNvml(const Functions& functions) : call_(functions) {}

  Result<NvmlReading> read() override {
    if (!initialized_) {
      const int result = call_.init();
      if (result != nvml_success && result != nvml_already_initialized)
        return failure("NVML could not be initialised", result);
      initialized_ = true;
    }
    unsigned count = 0;
    if (const int result = call_.count(&count); result != nvml_success) {
      initialized_ = false;
      return failure("NVML could not count the GPUs", result);
    }
    NvmlReading reading;
    std::array<char, 96> version{};
    if (call_.driver_version && call_.driver_version(version.data(), version.size()) == nvml_success)
      reading.driver_version = version.data();
    for (unsigned index = 0; index < count && index < max_gpus; ++index) reading.gpus.push_back(read_gpu(index));
    return reading;
  }

 private:
  std::unexpected<Error> failure(std::string what, int result) const {
    return fail(ErrorKind::unavailable, std::move(what) + ": " + call_.error_string(result) + ".");
  }

  GpuReading read_gpu(unsigned index) {
    auto& names = names_[index];
    GpuReading gpu{index, names.uuid, names.pci, false, {}, {}, {}};
    Handle handle = nullptr;
    if (!good(call_.handle_by_index(index, &handle), gpu)) return gpu;
    std::array<char, 96> uuid{};
    if (good(call_.uuid(handle, uuid.data(), uuid.size()), gpu)) names.uuid = uuid.data();
    PciInfo pci{};
    if (good(call_.pci_info(handle, &pci), gpu)) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%04x:%02x:%02x", pci.domain & 0xffff, pci.bus & 0xff, pci.device & 0xff);
      names.pci = text.data();
    }
    gpu.uuid = names.uuid;
    gpu.pci = names.pci;
    unsigned long long errors = 0;
    if (call_.total_ecc && call_.total_ecc(handle, 1, 0, &errors) == nvml_success) gpu.ecc_uncorrected = errors;
    FieldValue field{};
    field.field_id = field_recovery_action;
    if (call_.field_values && call_.field_values(handle, 1, &field) == nvml_success && field.result == nvml_success)
      gpu.recovery_action = field.value.u32;
    return gpu;
  }

  bool good(int result, GpuReading& gpu) const {
    if (result == nvml_success) return true;
    if (result == nvml_gpu_is_lost) gpu.lost = true;
    if (gpu.trouble.empty()) gpu.trouble = call_.error_string(result);
    return false;
  }

  struct Names {
    std::string uuid, pci;
  };
  Functions call_;
  bool initialized_ = false;
  std::array<Names, max_gpus> names_;
};

}  // namespace

Result<std::unique_ptr<Nvml>> load_nvml(const std::string& path) {
  void* library = ::dlopen(path.empty() ? "libnvidia-ml.so.1" : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    return fail(ErrorKind::not_found,
                std::string("NVIDIA's management library cannot be loaded: ") + (why ? why : "unknown reason") + ".");
  }
  Functions functions;
  const bool complete = find_symbol(library, "nvmlInit_v2", functions.init) &&
                        find_symbol(library, "nvmlDeviceGetCount_v2", functions.count) &&
                        find_symbol(library, "nvmlDeviceGetHandleByIndex_v2", functions.handle_by_index) &&
                        find_symbol(library, "nvmlDeviceGetUUID", functions.uuid) &&
                        find_symbol(library, "nvmlDeviceGetPciInfo_v3", functions.pci_info) &&
                        find_symbol(library, "nvmlErrorString", functions.error_string);
  if (!complete) {
    ::dlclose(library);
    return fail(ErrorKind::invalid, "The library " + path + " is not NVML or is older than its version 11.");
  }
  find_symbol(library, "nvmlSystemGetDriverVersion", functions.driver_version);
  find_symbol(library, "nvmlDeviceGetTotalEccErrors", functions.total_ecc);
  find_symbol(library, "nvmlDeviceGetFieldValues", functions.field_values);
  return std::make_unique<LoadedNvml>(functions);
}

}  // namespace homeostat::io
