// The stand-in is loaded as the agent loads the real library: dlopen and dlsym, with a state file that changes between
// calls.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include "lab/nvml/nvml_abi.h"

namespace {

struct Library {
  void* handle = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ~Library() { dlclose(handle); }
  template <typename Function>
  Function* get(const char* name) {
    return reinterpret_cast<Function*>(dlsym(handle, name));
  }
};

#define NVML(library, name) library.get<decltype(name)>(#name)

struct StateFile {
  std::string path;
  StateFile() {
    char name[] = "/tmp/homeostat-nvml-XXXXXX";
    int file = mkstemp(name);
    REQUIRE(file >= 0);
    close(file);
    path = name;
    setenv("HOMEOSTAT_FAKE_NVML", name, 1);
  }
  ~StateFile() { unlink(path.c_str()); }
  void write(const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }
};

constexpr const char* two_gpus = R"({"driver":"570.124.06","later":[1,{"a":"b"}],"gpus":[
  {"index":0,"uuid":"GPU-aaaa","pci":"0000:17:00.0","state":"ok","ecc_uncorrected":3,"ecc_corrected":9,"utilization":42,"temperature_c":61},
  {"index":1,"uuid":"GPU-bbbb","pci":"0000:ba:00.0","state":"ok","utilization":0,"recovery_action":2}]})";
constexpr const char* first_lost = R"({"driver":"570.124.06","gpus":[
  {"index":0,"uuid":"GPU-aaaa","pci":"0000:17:00.0","state":"lost"},{"index":1,"uuid":"GPU-bbbb","pci":"0000:ba:00.0","state":"ok"}]})";

}  // namespace

TEST_CASE("nvml: answers what the file says, in the real library's layouts") {
  StateFile file;
  file.write(two_gpus);
  Library library;
  REQUIRE(library.handle != nullptr);
  REQUIRE(NVML(library, nvmlInit_v2)() == NVML_SUCCESS);

  unsigned int count = 0;
  CHECK(NVML(library, nvmlDeviceGetCount_v2)(&count) == NVML_SUCCESS);
  CHECK(count == 2);
  std::array<char, 80> text{};
  CHECK(NVML(library, nvmlSystemGetDriverVersion)(text.data(), text.size()) == NVML_SUCCESS);
  CHECK(std::string(text.data()) == "570.124.06");

  nvmlDevice_t gpu = nullptr;
  REQUIRE(NVML(library, nvmlDeviceGetHandleByIndex_v2)(0, &gpu) == NVML_SUCCESS);
  CHECK(NVML(library, nvmlDeviceGetUUID)(gpu, text.data(), text.size()) == NVML_SUCCESS);
  CHECK(std::string(text.data()) == "GPU-aaaa");
  CHECK(NVML(library, nvmlDeviceGetUUID)(gpu, text.data(), 8) == NVML_ERROR_INSUFFICIENT_SIZE);
  nvmlPciInfo_t pci{};
  CHECK(NVML(library, nvmlDeviceGetPciInfo_v3)(gpu, &pci) == NVML_SUCCESS);
  CHECK(std::string(pci.busId) == "00000000:17:00.0");
  CHECK(std::string(pci.busIdLegacy) == "0000:17:00.0");
  CHECK(pci.bus == 0x17);
  nvmlUtilization_t utilization{};
  CHECK(NVML(library, nvmlDeviceGetUtilizationRates)(gpu, &utilization) == NVML_SUCCESS);
  CHECK(utilization.gpu == 42);
  unsigned long long errors = 0;
  CHECK(NVML(library, nvmlDeviceGetTotalEccErrors)(gpu, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
                                                   &errors) == NVML_SUCCESS);
  CHECK(errors == 3);
  CHECK(NVML(library, nvmlDeviceGetTotalEccErrors)(gpu, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, &errors) ==
        NVML_SUCCESS);
  CHECK(errors == 9);
  unsigned int celsius = 0;
  CHECK(NVML(library, nvmlDeviceGetTemperature)(gpu, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS);
  CHECK(celsius == 61);
  nvmlMemory_t memory{};
  CHECK(NVML(library, nvmlDeviceGetMemoryInfo)(gpu, &memory) == NVML_SUCCESS);
  CHECK(memory.used + memory.free == memory.total);

  REQUIRE(NVML(library, nvmlDeviceGetHandleByIndex_v2)(1, &gpu) == NVML_SUCCESS);
  std::array<nvmlFieldValue_t, 2> fields{};
  fields[0].fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
  fields[1].fieldId = 1;
  CHECK(NVML(library, nvmlDeviceGetFieldValues)(gpu, 2, fields.data()) == NVML_SUCCESS);
  CHECK(fields[0].nvmlReturn == NVML_SUCCESS);
  CHECK(fields[0].value.uiVal == NVML_GPU_RECOVERY_ACTION_NODE_REBOOT);
  CHECK(fields[1].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
  CHECK(NVML(library, nvmlDeviceGetHandleByIndex_v2)(2, &gpu) == NVML_ERROR_INVALID_ARGUMENT);
  CHECK(NVML(library, nvmlShutdown)() == NVML_SUCCESS);
  CHECK(NVML(library, nvmlDeviceGetCount_v2)(&count) == NVML_ERROR_UNINITIALIZED);
  CHECK(NVML(library, nvmlShutdown)() == NVML_ERROR_UNINITIALIZED);
}

TEST_CASE("nvml: a GPU that falls off the bus is lost at the next call, still counts, and the other goes on") {
  StateFile file;
  file.write(two_gpus);
  Library library;
  REQUIRE(NVML(library, nvmlInit_v2)() == NVML_SUCCESS);
  nvmlDevice_t first = nullptr, second = nullptr;
  REQUIRE(NVML(library, nvmlDeviceGetHandleByIndex_v2)(0, &first) == NVML_SUCCESS);
  REQUIRE(NVML(library, nvmlDeviceGetHandleByIndex_v2)(1, &second) == NVML_SUCCESS);

  file.write(first_lost);
  unsigned int count = 0, celsius = 0;
  CHECK(NVML(library, nvmlDeviceGetCount_v2)(&count) == NVML_SUCCESS);
  CHECK(count == 2);
  CHECK(NVML(library, nvmlDeviceGetTemperature)(first, NVML_TEMPERATURE_GPU, &celsius) == NVML_ERROR_GPU_IS_LOST);
  CHECK(NVML(library, nvmlDeviceGetHandleByIndex_v2)(0, &first) == NVML_ERROR_GPU_IS_LOST);
  CHECK(NVML(library, nvmlDeviceGetTemperature)(second, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS);
  CHECK(celsius == 40);
  CHECK(std::string(NVML(library, nvmlErrorString)(NVML_ERROR_GPU_IS_LOST)) == "GPU is lost");
  CHECK(NVML(library, nvmlShutdown)() == NVML_SUCCESS);
}

// Whatever stands in the file, the library answers with an error and never reads past it.
TEST_CASE("nvml: a file that is absent, torn or not of the shape") {
  StateFile file;
  Library library;
  unlink(file.path.c_str());
  CHECK(NVML(library, nvmlInit_v2)() == NVML_ERROR_DRIVER_NOT_LOADED);
  const std::string whole = two_gpus;
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"gpus\":7}"),
        std::string("{\"gpus\":[{\"utilization\":\"x\"}]}"), std::string(5000, '['), "{\"a\":" + std::string(5000, '['),
        whole + "x", std::string("{\"gpus\":[{\"uuid\":\"\\")}) {
    file.write(text);
    CHECK(NVML(library, nvmlInit_v2)() == NVML_ERROR_UNKNOWN);
  }
  for (size_t length = 0; length < whole.size(); length++) {
    file.write(whole.substr(0, length));
    CHECK(NVML(library, nvmlInit_v2)() == NVML_ERROR_UNKNOWN);
  }
  file.write("{}");
  CHECK(NVML(library, nvmlInit_v2)() == NVML_SUCCESS);
  CHECK(NVML(library, nvmlShutdown)() == NVML_SUCCESS);
}
