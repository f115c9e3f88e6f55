/* The lab's libnvidia-ml.so.1: answers for GPUs that a JSON file describes (state.h), read anew at each call, so that a
 * test or `homeostat-lab inject` changes what the agent sees at once. The file is $HOMEOSTAT_FAKE_NVML or
 * /run/homeostat/nvml.json. A lost GPU still counts, as with the real library, and every question about it is answered
 * with NVML_ERROR_GPU_IS_LOST. Threads: no state is shared but the count of nvmlInit calls, which is atomic. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nvml_abi.h"
#include "state.h"

#define EXPORT __attribute__((visibility("default")))

static const char default_state_path[] = "/run/homeostat/nvml.json";
static const char busy_path[] = "/run/homeostat/gpu_busy";
static const unsigned long long memory_bytes = 80ull << 30;
static const unsigned int busy_per_cent = 97;
static atomic_int init_count;

static nvmlReturn_t read_state(MachineState* state) {
  const char* path = getenv("HOMEOSTAT_FAKE_NVML");
  char* text = malloc(STATE_MAX_BYTES);
  if (!text) return NVML_ERROR_UNKNOWN;
  int file = open(path && *path ? path : default_state_path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return free(text), NVML_ERROR_DRIVER_NOT_LOADED;
  size_t length = 0;
  ssize_t got;
  while (length + 1 < STATE_MAX_BYTES && (got = read(file, text + length, STATE_MAX_BYTES - 1 - length)) > 0)
    length += (size_t)got;
  close(file);
  text[length] = '\0';
  int whole = state_parse(text, state);
  free(text);
  return whole ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* A handle is the GPU's index plus one: it holds for as long as the process does, also when the GPU is lost meanwhile.
 */
static nvmlReturn_t find_gpu(nvmlDevice_t device, MachineState* state, GpuState** gpu) {
  if (atomic_load(&init_count) <= 0) return NVML_ERROR_UNINITIALIZED;
  nvmlReturn_t result = read_state(state);
  if (result != NVML_SUCCESS) return result;
  uintptr_t handle = (uintptr_t)device;
  if (handle == 0 || handle > state->count) return NVML_ERROR_INVALID_ARGUMENT;
  *gpu = &state->gpus[handle - 1];
  return (*gpu)->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static nvmlReturn_t copy_text(const char* from, char* to, unsigned int size) {
  if (!to) return NVML_ERROR_INVALID_ARGUMENT;
  if (strlen(from) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(to, from);
  return NVML_SUCCESS;
}

/* Whether a Slurm step runs where we can see it. */
static int step_runs(void) {
  DIR* proc = opendir("/proc");
  if (!proc) return 0;
  int found = 0;
  for (struct dirent* entry; !found && (entry = readdir(proc));) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    char path[64], name[16] = "";
    snprintf(path, sizeof path, "/proc/%.20s/comm", entry->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    ssize_t got = read(file, name, sizeof name - 1);
    close(file);
    found = got > 0 && !strncmp(name, "slurmstepd", 10);
  }
  closedir(proc);
  return found;
}

static unsigned int utilization_of(const GpuState* gpu) {
  if (gpu->utilization != STATE_UTILIZATION_JOB) return (unsigned int)gpu->utilization;
  return access(busy_path, F_OK) == 0 || step_runs() ? busy_per_cent : 0;
}

EXPORT nvmlReturn_t nvmlInit_v2(void) {
  MachineState state;
  nvmlReturn_t result = read_state(&state);
  if (result == NVML_SUCCESS) atomic_fetch_add(&init_count, 1);
  return result;
}

EXPORT nvmlReturn_t nvmlShutdown(void) {
  if (atomic_fetch_sub(&init_count, 1) > 0) return NVML_SUCCESS;
  atomic_fetch_add(&init_count, 1);
  return NVML_ERROR_UNINITIALIZED;
}

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
  MachineState state;
  if (atomic_load(&init_count) <= 0) return NVML_ERROR_UNINITIALIZED;
  nvmlReturn_t result = read_state(&state);
  return result == NVML_SUCCESS ? copy_text(state.driver, version, length) : result;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  MachineState state;
  if (atomic_load(&init_count) <= 0) return NVML_ERROR_UNINITIALIZED;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = read_state(&state);
  if (result == NVML_SUCCESS) *count = state.count;
  return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  MachineState state;
  GpuState* gpu;
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlDevice_t handle = (nvmlDevice_t)((uintptr_t)index + 1);
  nvmlReturn_t result = find_gpu(handle, &state, &gpu);
  if (result == NVML_SUCCESS) *device = handle;
  return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  MachineState state;
  GpuState* gpu;
  nvmlReturn_t result = find_gpu(device, &state, &gpu);
  return result == NVML_SUCCESS ? copy_text(gpu->uuid, uuid, length) : result;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  MachineState state;
  GpuState* gpu;
  if (!pci) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = find_gpu(device, &state, &gpu);
  if (result != NVML_SUCCESS) return result;
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
  MachineState state;
  GpuState* gpu;
  if (!utilization) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = find_gpu(device, &state, &gpu);
  if (result != NVML_SUCCESS) return result;
  utilization->gpu = utilization_of(gpu);
  utilization->memory = utilization->gpu / 2;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                nvmlEccCounterType_t counter, unsigned long long* count) {
  MachineState state;
  GpuState* gpu;
  if (!count || (unsigned int)type > 1 || (unsigned int)counter > 1) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = find_gpu(device, &state, &gpu);
  if (result != NVML_SUCCESS) return result;
  *count = type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? gpu->ecc_corrected : gpu->ecc_uncorrected;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                             unsigned int* celsius) {
  MachineState state;
  GpuState* gpu;
  if (!celsius || sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = find_gpu(device, &state, &gpu);
  if (result == NVML_SUCCESS) *celsius = gpu->temperature_c;
  return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  MachineState state;
  GpuState* gpu;
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = find_gpu(device, &state, &gpu);
  if (result != NVML_SUCCESS) return result;
  memory->total = memory_bytes;
  memory->used = memory_bytes / 100 * utilization_of(gpu);
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  MachineState state;
  GpuState* gpu;
  if (!values || count <= 0) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = find_gpu(device, &state, &gpu);
  if (result != NVML_SUCCESS) return result;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  for (int i = 0; i < count; i++) {
    values[i].timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    values[i].latencyUsec = 0;
    values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    values[i].nvmlReturn =
        values[i].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    values[i].value.ullVal = 0;
    if (values[i].nvmlReturn == NVML_SUCCESS) values[i].value.uiVal = gpu->recovery_action;
  }
  return NVML_SUCCESS;
}
