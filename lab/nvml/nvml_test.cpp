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
#include "tests/test_folder.hpp"

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
  homeostat::TestFolder folder;
  const std::string path = folder.file("nvml.json");
  StateFile() {
    write("");
    setenv("HOMEOSTAT_FAKE_NVML", path.c_str(), 1);
  }
  void write(const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }
};

constexpr const char* two_gpus = R"({"driver":"570.124.06","later":[1,{"a":"b"}],"gpus":[
  {"index":0,"uuid":"GPU-aaaa","pci":"0000:17:00.0","state":"ok","ecc_uncorrected":3,"ecc_corrected":9,"utilization":42,"temperature_c":61},
  {"index":1,"uuid":"GPU-bbbb","pci":"0000:ba:00.0","state":"ok","utilization":0,"recovery_action":2}]})";
// Every key once.
constexpr const char* all_keys = R"({"driver":"570.124.06","errors":{"nvmlX":"TIMEOUT"},"hang_ms":{"nvmlY":1},"gpus":[
  {"uuid":"GPU-aaaa","pci":"0000:17:00.0","name":"NVIDIA A100-SXM4-80GB","state":"ok","errors":{"nvmlZ":4711},
  "field_errors":{"144":"UNKNOWN"},"hang_ms":0,"utilization":"job","temperature_c":61,"memory_temperature_c":70,
  "slowdown_c":89,"memory_max_c":96,"power_w":250,"power_limit_w":400,"sm_clock_mhz":1200,"sm_clock_max_mhz":1410,
  "memory_total_mib":81920,"memory_used_mib":4,"throttle":["power_cap",64],"ecc_corrected":1,"ecc_uncorrected":2,
  "ecc_corrected_aggregate":3,"ecc_uncorrected_aggregate":4,"sram_uncorrected":5,"sram_threshold_exceeded":true,
  "remapped_corrected":6,"remapped_uncorrected":7,"remap_pending":true,"remap_failure":1,"bank_remap_pending":false,
  "remap_histogram":[1,2,3,4,5],"recovery_action":2,"pcie_gen":3,"pcie_gen_max":4,"pcie_width":8,"pcie_width_max":16,
  "pcie_replays":9,"nvlinks":12,"nvlinks_down":[1,11],"nvlink_generation":3,
  "nvlink_errors":[{"link":2,"crc":1,"replay":2,"recovery":3,"unrecovered":4,"symbol":5}],"mig":false,"mig_pending":true,
  "fabric_state":"in_progress","fabric_status":"IN_USE","fabric_health":1,"later":{"a":[null]}}]})";
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
  for (const char* gpu :
       {R"("throttle":["cold"])", R"("throttle":"hw_thermal")", R"("errors":{"nvmlInit_v2":"NO_SUCH_CODE"})",
        R"("errors":["nvmlInit_v2"])", R"("hang_ms":"long")", R"("hang_ms":{"a":"long"})", R"("nvlinks_down":[36])",
        R"("nvlinks_down":[-1])", R"("nvlink_errors":[{"crc":1}])", R"("nvlink_errors":[{"link":36}])",
        R"("nvlink_errors":[7])", R"("remap_histogram":[1,2,3,4,5,6])", R"("pcie_width":-1)", R"("pcie_width":nan)",
        R"("fabric_state":"gone")", R"("mig":"on")", R"("thermal_margin_c":true)", R"("error":"BAD")",
        R"("errors":{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"10":1,"11":1,"12":1,"13":1})"}) {
    CAPTURE(std::string(gpu));
    file.write(R"({"gpus":[{)" + std::string(gpu) + "}]}");
    CHECK(NVML(library, nvmlInit_v2)() == NVML_ERROR_UNKNOWN);
  }
  for (size_t length = 0; length < whole.size(); length++) {
    file.write(whole.substr(0, length));
    CHECK(NVML(library, nvmlInit_v2)() == NVML_ERROR_UNKNOWN);
  }
  const std::string full = all_keys;
  for (size_t length = 0; length < full.size(); length++) {
    file.write(full.substr(0, length));
    CHECK(NVML(library, nvmlInit_v2)() == NVML_ERROR_UNKNOWN);
  }
  file.write("{}");
  CHECK(NVML(library, nvmlInit_v2)() == NVML_SUCCESS);
  CHECK(NVML(library, nvmlShutdown)() == NVML_SUCCESS);
}

TEST_CASE("nvml: each key is one answer") {
  StateFile file;
  file.write(all_keys);
  Library library;
  REQUIRE(NVML(library, nvmlInit_v2)() == NVML_SUCCESS);
  nvmlDevice_t gpu = nullptr;
  REQUIRE(NVML(library, nvmlDeviceGetHandleByIndex_v2)(0, &gpu) == NVML_SUCCESS);
  std::array<char, 96> name{};
  CHECK(NVML(library, nvmlDeviceGetName)(gpu, name.data(), name.size()) == NVML_SUCCESS);
  CHECK(std::string(name.data()) == "NVIDIA A100-SXM4-80GB");
  const auto number = [&](auto* function, auto... arguments) {
    unsigned int value = 0;
    CHECK(function(gpu, arguments..., &value) == NVML_SUCCESS);
    return value;
  };
  CHECK(number(NVML(library, nvmlDeviceGetPowerUsage)) == 250'000);
  CHECK(number(NVML(library, nvmlDeviceGetClockInfo), NVML_CLOCK_SM) == 1200);
  CHECK(number(NVML(library, nvmlDeviceGetMaxClockInfo), NVML_CLOCK_SM) == 1410);
  CHECK(number(NVML(library, nvmlDeviceGetTemperatureThreshold), NVML_TEMPERATURE_THRESHOLD_SLOWDOWN) == 89);
  CHECK(number(NVML(library, nvmlDeviceGetTemperatureThreshold), NVML_TEMPERATURE_THRESHOLD_MEM_MAX) == 96);
  CHECK(number(NVML(library, nvmlDeviceGetCurrPcieLinkGeneration)) == 3);
  CHECK(number(NVML(library, nvmlDeviceGetMaxPcieLinkGeneration)) == 4);
  CHECK(number(NVML(library, nvmlDeviceGetCurrPcieLinkWidth)) == 8);
  CHECK(number(NVML(library, nvmlDeviceGetMaxPcieLinkWidth)) == 16);
  CHECK(number(NVML(library, nvmlDeviceGetPcieReplayCounter)) == 9);
  unsigned long long reasons = 0, errors = 0;
  CHECK(NVML(library, nvmlDeviceGetCurrentClocksEventReasons)(gpu, &reasons) == NVML_SUCCESS);
  CHECK((reasons & 0x44) == 0x44);
  CHECK(NVML(library, nvmlDeviceGetNvLinkErrorCounter)(gpu, 2, NVML_NVLINK_ERROR_DL_RECOVERY, &errors) == NVML_SUCCESS);
  CHECK(errors == 3);
  nvmlEnableState_t state = NVML_FEATURE_ENABLED;
  CHECK(NVML(library, nvmlDeviceGetNvLinkState)(gpu, 11, &state) == NVML_SUCCESS);
  CHECK(state == NVML_FEATURE_DISABLED);
  CHECK(NVML(library, nvmlDeviceGetNvLinkState)(gpu, 12, &state) == NVML_ERROR_INVALID_ARGUMENT);
  unsigned int corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  CHECK(NVML(library, nvmlDeviceGetRemappedRows)(gpu, &corrected, &uncorrected, &pending, &failed) == NVML_SUCCESS);
  CHECK(corrected == 6);
  CHECK(uncorrected == 7);
  CHECK(pending == 1);
  CHECK(failed == 1);
  nvmlRowRemapperHistogramValues_t banks{};
  CHECK(NVML(library, nvmlDeviceGetRowRemapperHistogram)(gpu, &banks) == NVML_SUCCESS);
  CHECK(banks.none == 5);
  CHECK(NVML(library, nvmlDeviceGetRetiredPages)(gpu, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR, &pending,
                                                 nullptr) == NVML_ERROR_NOT_SUPPORTED);
  nvmlEccSramErrorStatus_v1_t sram{};
  CHECK(NVML(library, nvmlDeviceGetSramEccErrorStatus)(gpu, &sram) == NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  sram.version = sizeof sram | 1U << 24;
  CHECK(NVML(library, nvmlDeviceGetSramEccErrorStatus)(gpu, &sram) == NVML_SUCCESS);
  CHECK(sram.bThresholdExceeded == 1);
  nvmlGpuFabricInfo_v2_t fabric{};
  CHECK(NVML(library, nvmlDeviceGetGpuFabricInfoV)(gpu, &fabric) == NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  fabric.version = sizeof fabric | 2U << 24;
  CHECK(NVML(library, nvmlDeviceGetGpuFabricInfoV)(gpu, &fabric) == NVML_SUCCESS);
  CHECK(fabric.state == 2);
  CHECK(fabric.status == NVML_ERROR_IN_USE);
  CHECK(fabric.healthMask == 1);
  CHECK(NVML(library, nvmlDeviceGetMigMode)(gpu, &corrected, &pending) == NVML_SUCCESS);
  CHECK(corrected == 0);
  CHECK(pending == 1);
  // Generation 3 answers by an id for each link, and knows neither state nor the later counters as fields.
  std::array<nvmlFieldValue_t, 6> fields{};
  fields[0].fieldId = NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0 + 2;
  fields[1].fieldId = NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6;
  fields[2].fieldId = NVML_FI_DEV_NVLINK_GET_STATE;
  fields[3].fieldId = NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY;
  fields[4].fieldId = NVML_FI_DEV_REMAPPED_PENDING;
  fields[5].fieldId = NVML_FI_DEV_MEMORY_TEMP;
  CHECK(NVML(library, nvmlDeviceGetFieldValues)(gpu, 6, fields.data()) == NVML_SUCCESS);
  CHECK(fields[0].value.ullVal == 3);
  CHECK(fields[1].nvmlReturn == NVML_SUCCESS);
  CHECK(fields[2].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
  CHECK(fields[3].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
  CHECK(fields[4].nvmlReturn == NVML_ERROR_UNKNOWN);
  CHECK(fields[5].value.uiVal == 70);
  CHECK(NVML(library, nvmlShutdown)() == NVML_SUCCESS);
}
