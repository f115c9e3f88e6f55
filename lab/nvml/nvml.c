/* The lab's libnvidia-ml.so.1: answers for GPUs that a JSON file describes (README.md), read anew at each call, so that
 * a test or `homeostat-lab inject` changes what the agent sees at once. The file is $HOMEOSTAT_FAKE_NVML or
 * /run/homeostat/nvml.json. A lost GPU still counts, as with the real library. What an idle GPU does of itself (low
 * clock, low PCIe generation) it does here, too. Threads: any number. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "source.h"

/* Begins a call about `device`: leaves with the error that it is to answer with. */
#define BEGIN(device)                                         \
  Answer answer;                                              \
  const GpuState* gpu = &answer.gpu;                          \
  nvmlReturn_t result = begin_gpu(__func__, device, &answer); \
  if (result != NVML_SUCCESS) return result

static nvmlReturn_t copy_text(const char* from, char* to, unsigned int size) {
  if (!to) return NVML_ERROR_INVALID_ARGUMENT;
  if (strlen(from) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(to, from);
  return NVML_SUCCESS;
}

static unsigned int by_load(const GpuState* gpu, unsigned int told, unsigned int idle, unsigned int busy) {
  return told != STATE_BY_LOAD ? told : busy_per_cent(gpu) > 0 ? busy : idle;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) { return start_session(); }
EXPORT nvmlReturn_t nvmlShutdown(void) { return end_session(); }

EXPORT const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  Answer answer;
  nvmlReturn_t result = begin_machine(__func__, &answer);
  return result == NVML_SUCCESS ? copy_text(answer.driver, version, length) : result;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  Answer answer;
  nvmlReturn_t result = begin_machine(__func__, &answer);
  if (result != NVML_SUCCESS) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = answer.gpu_count;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  Answer answer;
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlDevice_t handle = (nvmlDevice_t)((uintptr_t)index + 1);
  nvmlReturn_t result = begin_gpu(__func__, handle, &answer);
  if (result == NVML_SUCCESS) *device = handle;
  return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  BEGIN(device);
  return copy_text(gpu->uuid, uuid, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  BEGIN(device);
  return copy_text(gpu->name, name, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  unsigned int function = 0;
  memset(pci, 0, sizeof *pci);
  if (sscanf(gpu->pci, "%x:%x:%x.%x", &pci->domain, &pci->bus, &pci->device, &function) != 4) return NVML_ERROR_UNKNOWN;
  pci->pciDeviceId = 0x233010de; /* an H100 SXM of NVIDIA */
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.%X", pci->domain & 0xffff, pci->bus & 0xff,
           pci->device & 0xff, function & 0xf);
  snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.%X", pci->domain, pci->bus, pci->device, function);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  if (!utilization) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  utilization->gpu = busy_per_cent(gpu);
  utilization->memory = utilization->gpu / 2;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  memory->total = gpu->memory_total_mib << 20;
  memory->used =
      gpu->memory_used_mib != STATE_BY_LOAD ? gpu->memory_used_mib << 20 : memory->total / 100 * busy_per_cent(gpu);
  if (memory->used > memory->total) memory->used = memory->total;
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts) {
  if (!milliwatts) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *milliwatts = by_load(gpu, gpu->power_w, gpu->power_limit_w / 10, gpu->power_limit_w) * 1000;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                             unsigned int* celsius) {
  if (!celsius || sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *celsius = gpu->temperature_c;
  return NVML_SUCCESS;
}

/* GPUs that state a margin have no absolute limits any more. */
EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold,
                                                      unsigned int* celsius) {
  if (!celsius) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  if (gpu->has_margin) return NVML_ERROR_NOT_SUPPORTED;
  if (threshold == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    *celsius = gpu->slowdown_c;
  else if (threshold == NVML_TEMPERATURE_THRESHOLD_MEM_MAX)
    *celsius = gpu->memory_max_c;
  else
    return NVML_ERROR_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* megahertz) {
  if (!megahertz || (unsigned int)type > NVML_CLOCK_MEM) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *megahertz = by_load(gpu, gpu->sm_clock_mhz, 345, gpu->sm_clock_max_mhz);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* megahertz) {
  if (!megahertz || (unsigned int)type > NVML_CLOCK_MEM) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *megahertz = gpu->sm_clock_max_mhz;
  return NVML_SUCCESS;
}

static nvmlReturn_t clock_reasons(const char* function, nvmlDevice_t device, unsigned long long* reasons) {
  Answer answer;
  if (!reasons) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = begin_gpu(function, device, &answer);
  if (result == NVML_SUCCESS) *reasons = answer.gpu.throttle | (busy_per_cent(&answer.gpu) == 0 ? 1 : 0);
  return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return clock_reasons(__func__, device, reasons);
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int* generation) {
  if (!generation) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *generation = by_load(gpu, gpu->pcie_gen, 1, gpu->pcie_gen_max);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* generation) {
  if (!generation) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *generation = gpu->pcie_gen_max;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* width) {
  if (!width) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *width = gpu->pcie_width;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int* width) {
  if (!width) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *width = gpu->pcie_width_max;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int* count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *count = (unsigned int)gpu->pcie_replays;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                nvmlEccCounterType_t counter, unsigned long long* count) {
  if (!count || (unsigned int)type > 1 || (unsigned int)counter > 1) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  const int now = counter == NVML_VOLATILE_ECC;
  if (type == NVML_MEMORY_ERROR_TYPE_CORRECTED)
    *count = now ? gpu->ecc_corrected : gpu->ecc_corrected_aggregate;
  else
    *count = now ? gpu->ecc_uncorrected : gpu->ecc_uncorrected_aggregate;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int* count,
                                              unsigned long long* addresses) {
  if (!count || (unsigned int)cause > 1) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  if (!gpu->has_retired_pages) return NVML_ERROR_NOT_SUPPORTED;
  const unsigned int room = *count;
  *count = cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR ? gpu->retired_double : gpu->retired_single;
  if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned int i = 0; i < *count && addresses; i++) addresses[i] = 0x1000ull * (i + 1);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t* pending) {
  if (!pending) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  if (!gpu->has_retired_pages) return NVML_ERROR_NOT_SUPPORTED;
  *pending = gpu->retirement_pending ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t* active) {
  if (!active) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  if (link >= gpu->nvlinks) return NVML_ERROR_INVALID_ARGUMENT;
  *active = gpu->nvlinks_down >> link & 1 ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                                    nvmlNvLinkErrorCounter_t counter, unsigned long long* value) {
  if (!value || (unsigned int)counter > NVML_NVLINK_ERROR_DL_CRC_DATA) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  if (link >= gpu->nvlinks) return NVML_ERROR_INVALID_ARGUMENT;
  if (gpu->nvlink_generation >= 5) return NVML_ERROR_NOT_SUPPORTED;
  static const int counters[] = {LINK_REPLAY, LINK_RECOVERY, LINK_CRC};
  *value = counter == NVML_NVLINK_ERROR_DL_CRC_DATA ? 0 : gpu->nvlink_errors[link][counters[counter]];
  return NVML_SUCCESS;
}

#ifndef HOMEOSTAT_FAKE_NVML_OLD /* what libraries of the time before R450 do not have */

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return clock_reasons(__func__, device, reasons);
}

EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t* margin) {
  if (!margin) return NVML_ERROR_INVALID_ARGUMENT;
  if (margin->version != NVML_MARGIN_TEMPERATURE_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  BEGIN(device);
  if (!gpu->has_margin) return NVML_ERROR_NOT_SUPPORTED;
  margin->marginTemperature = gpu->thermal_margin_c;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_v1_t* status) {
  if (!status) return NVML_ERROR_INVALID_ARGUMENT;
  if (status->version != NVML_ECC_SRAM_ERROR_STATUS_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  BEGIN(device);
  memset(status, 0, sizeof *status);
  status->version = NVML_ECC_SRAM_ERROR_STATUS_V1;
  status->volatileUncSecDed = status->aggregateUncSecDed = gpu->sram_uncorrected;
  status->bThresholdExceeded = gpu->sram_threshold_exceeded;
  return NVML_SUCCESS;
}

/* On a GPU that is split by MIG the rows cannot be asked for. */
EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* corrected, unsigned int* uncorrected,
                                              unsigned int* pending, unsigned int* failed) {
  if (!corrected || !uncorrected || !pending || !failed) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  if (gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
  *corrected = gpu->remapped_corrected;
  *uncorrected = gpu->remapped_uncorrected;
  *pending = gpu->remap_pending;
  *failed = gpu->remap_failure;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t* values) {
  if (!values) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  if (gpu->mig) return NVML_ERROR_NOT_SUPPORTED;
  const unsigned int* banks = gpu->remap_histogram;
  *values = (nvmlRowRemapperHistogramValues_t){banks[0], banks[1], banks[2], banks[3], banks[4]};
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current, unsigned int* pending) {
  if (!current || !pending) return NVML_ERROR_INVALID_ARGUMENT;
  BEGIN(device);
  *current = gpu->mig;
  *pending = gpu->mig_pending;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t* info) {
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  if (info->version != NVML_GPU_FABRIC_INFO_V2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  BEGIN(device);
  memset(info, 0, sizeof *info);
  info->version = NVML_GPU_FABRIC_INFO_V2;
  info->state = (unsigned char)gpu->fabric_state;
  info->status = (nvmlReturn_t)gpu->fabric_status;
  info->healthMask = gpu->fabric_health;
  return NVML_SUCCESS;
}

#endif
