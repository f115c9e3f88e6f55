/* A stand-in for libamd_smi.so: answers for AMD GPUs that a JSON file describes (README.md), read anew at each call.
 * The file is $HOMEOSTAT_FAKE_AMDSMI or /run/homeostat/amdsmi.json. Structures are laid out by hand, by the offsets of
 * AMD's header, and are cleared whole before they are filled, as long as the library's are. Threads: any number;
 * nothing is locked while a call hangs. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/nvml/statefile.h"
#include "state.h"

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID = 1, FAILED = 7, NOT_FOUND = 31, NOT_INIT = 32, DRIVER_NOT_LOADED = 34 };

static const char default_path[] = "/run/homeostat/amdsmi.json";
static atomic_int sessions;
static atomic_ulong calls;

/* Calls so far: what a look costs. And sessions that are open: whether the driver is held. */
EXPORT unsigned long homeostat_fake_amdsmi_calls(void) { return atomic_load(&calls); }
EXPORT int homeostat_fake_amdsmi_sessions(void) { return atomic_load(&sessions); }

static int read_state(MachineState* state) {
  static _Thread_local char text[STATE_MAX_BYTES];
  size_t length;
  if (!read_state_file("HOMEOSTAT_FAKE_AMDSMI", default_path, text, sizeof text, &length)) return DRIVER_NOT_LOADED;
  return state_parse(text, state) ? SUCCESS : FAILED;
}

/* Hangs as long as the file says so, then gives the status that it says. gpu: -1 for none. */
static int begin(const char* function, long gpu, MachineState* state) {
  atomic_fetch_add(&calls, 1);
  const long long began = now_ms();
  for (;;) {
    const int status = read_state(state);
    if (status != SUCCESS) return status;
    const int known = gpu >= 0 && gpu < (long)state->count;
    long long ms = rule_for(&state->hangs, function);
    if (ms == 0 && known) ms = rule_for(&state->gpus[gpu].hangs, function);
    if (now_ms() - began < ms) {
      nap();
      continue;
    }
    if (gpu >= 0 && !known) return NOT_FOUND;
    const long long told = known ? rule_for(&state->gpus[gpu].errors, function) : 0;
    return (int)(told ? told : rule_for(&state->errors, function));
  }
}

/* A handle is the GPU's number plus one. Leaves with the error that the call is to answer with. */
#define BEGIN(handle, answer)                         \
  static _Thread_local MachineState state;            \
  if (atomic_load(&sessions) <= 0) return NOT_INIT;   \
  if (!(answer)) return INVALID;                      \
  const long number = (long)(uintptr_t)(handle) - 1;  \
  const int status = begin(__func__, number, &state); \
  if (status != SUCCESS) return status;               \
  const GpuState* gpu = &state.gpus[number]

static void put(void* answer, size_t offset, const void* value, size_t size) {
  memcpy((char*)answer + offset, value, size);
}
static void put16(void* answer, size_t offset, unsigned int value) {
  const uint16_t narrow = (uint16_t)value;
  put(answer, offset, &narrow, sizeof narrow);
}
static void put32(void* answer, size_t offset, unsigned int value) {
  const uint32_t narrow = value;
  put(answer, offset, &narrow, sizeof narrow);
}
static void put64(void* answer, size_t offset, unsigned long long value) {
  const uint64_t wide = value;
  put(answer, offset, &wide, sizeof wide);
}
static void clear(void* answer, size_t size, const MachineState* state) {
  memset(answer, 0, size + state->extra_bytes);
}
static int has_year(const MachineState* state) { return state->version[0] == 24; }

EXPORT int amdsmi_init(uint64_t flags) {
  static _Thread_local MachineState state;
  if (!(flags & 2)) return INVALID;
  const int status = begin(__func__, -1, &state);
  if (status == SUCCESS) atomic_fetch_add(&sessions, 1);
  return status;
}

EXPORT int amdsmi_shut_down(void) {
  if (atomic_fetch_sub(&sessions, 1) > 0) return SUCCESS;
  atomic_fetch_add(&sessions, 1);
  return NOT_INIT;
}

EXPORT int amdsmi_get_lib_version(void* answer) {
  static _Thread_local MachineState state;
  static const char build[] = "stand-in";
  const char* pointer = build;
  if (!answer) return INVALID;
  const int status = begin(__func__, -1, &state);
  if (status != SUCCESS) return status;
  for (unsigned int i = 0; i < state.version_numbers; i++) put32(answer, 4u * i, state.version[i]);
  put(answer, 16, &pointer, sizeof pointer);
  return SUCCESS;
}

EXPORT int amdsmi_get_processor_handle_from_bdf(uint64_t bdf, void** handle) {
  static _Thread_local MachineState state;
  if (atomic_load(&sessions) <= 0) return NOT_INIT;
  if (!handle) return INVALID;
  int status = begin(__func__, -1, &state);
  for (unsigned int i = 0; status == SUCCESS && i < state.count; i++) {
    unsigned int domain, bus, device, function;
    if (sscanf(state.gpus[i].pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) continue;
    if (bdf != ((uint64_t)domain << 16 | (uint64_t)bus << 8 | device << 3 | function)) continue;
    const long long told = rule_for(&state.gpus[i].errors, __func__);
    *handle = (void*)(uintptr_t)(i + 1);
    return told ? (int)told : SUCCESS;
  }
  return status == SUCCESS ? NOT_FOUND : status;
}

EXPORT int amdsmi_get_gpu_device_uuid(void* handle, unsigned int* length, char* uuid) {
  BEGIN(handle, length && uuid);
  if (*length < 38) return INVALID;
  snprintf(uuid, *length, "%s", gpu->uuid);
  return SUCCESS;
}

EXPORT int amdsmi_get_gpu_asic_info(void* handle, void* answer) {
  BEGIN(handle, answer);
  clear(answer, 1144, &state);
  put(answer, 0, gpu->model, strlen(gpu->model) + 1);
  return SUCCESS;
}

EXPORT int amdsmi_get_gpu_driver_info(void* handle, void* answer) {
  BEGIN(handle, answer);
  (void)gpu;
  clear(answer, has_year(&state) ? 192 : 768, &state);
  put(answer, 0, state.driver, strlen(state.driver) + 1);
  return SUCCESS;
}

EXPORT int amdsmi_get_gpu_ecc_enabled(void* handle, uint64_t* blocks) {
  BEGIN(handle, blocks);
  *blocks = gpu->ecc_enabled;
  return SUCCESS;
}

static void put_errors(void* answer, const ErrorState* errors, const MachineState* state) {
  clear(answer, 64, state);
  put64(answer, 0, errors->corrected);
  put64(answer, 8, errors->uncorrected);
  put64(answer, 16, errors->deferred);
}

EXPORT int amdsmi_get_gpu_ecc_count(void* handle, uint64_t block, void* answer) {
  BEGIN(handle, answer);
  for (int i = 0; i < STATE_BLOCKS; i++)
    if (block == 1ull << i) return put_errors(answer, &gpu->ecc[i], &state), SUCCESS;
  return INVALID;
}

EXPORT int amdsmi_get_gpu_total_ecc_count(void* handle, void* answer) {
  BEGIN(handle, answer);
  ErrorState sum = {0, 0, 0};
  for (int i = 0; i < STATE_BLOCKS; i++) {
    sum.corrected += gpu->ecc[i].corrected;
    sum.uncorrected += gpu->ecc[i].uncorrected;
    sum.deferred += gpu->ecc[i].deferred;
  }
  return put_errors(answer, &sum, &state), SUCCESS;
}

/* As the library: it leaves the number alone when there are no pages, and does not ask how long the list is. */
EXPORT int amdsmi_get_gpu_bad_page_info(void* handle, uint32_t* count, void* list) {
  BEGIN(handle, count);
  const unsigned int of[] = {gpu->pages_retired, gpu->pages_pending, gpu->pages_failed};
  const unsigned int sum = of[0] + of[1] + of[2];
  if (sum == 0) return SUCCESS;
  *count = sum;
  size_t place = 0;
  for (unsigned int kind = 0; list && kind < 3; kind++)
    for (unsigned int i = 0; i < of[kind]; i++, place += 24) {
      put64(list, place, 0x1000ull * i);
      put64(list, place + 8, 4096);
      put64(list, place + 16, kind);
    }
  return SUCCESS;
}

EXPORT int amdsmi_get_gpu_bad_page_threshold(void* handle, uint32_t* threshold) {
  BEGIN(handle, threshold);
  *threshold = gpu->page_threshold;
  return SUCCESS;
}

EXPORT int amdsmi_get_violation_status(void* handle, void* answer) {
  BEGIN(handle, answer);
  clear(answer, 6016, &state);
  put64(answer, 16, gpu->cycles);
  put64(answer, 40, gpu->hot);
  return SUCCESS;
}

EXPORT int amdsmi_get_pcie_info(void* handle, void* answer) {
  BEGIN(handle, answer);
  clear(answer, 512, &state);
  put16(answer, 0, 16);
  put32(answer, 4, 32000);
  put16(answer, 96, gpu->lanes);
  put32(answer, 100, gpu->speed_mts);
  put64(answer, 112, gpu->replays);
  return SUCCESS;
}

EXPORT int amdsmi_get_power_info(void* handle, void* answer) {
  BEGIN(handle, answer);
  clear(answer, has_year(&state) ? 68 : 192, &state);
  if (has_year(&state)) {
    put32(answer, 0, gpu->power_w);
    put32(answer, 4, 0xffff); /* not told by this chip */
  } else {
    put64(answer, 0, gpu->power_w);
    put32(answer, 8, gpu->power_w);
    put32(answer, 12, 0xffffffff);
  }
  return SUCCESS;
}

EXPORT int amdsmi_get_temp_metric(void* handle, uint32_t where, uint32_t what, int64_t* degrees) {
  BEGIN(handle, degrees);
  if (where < 1 || where > 2 || (what != 0 && what != 5)) return INVALID;
  *degrees = what == 5 ? gpu->critical_c : where == 1 ? gpu->hotspot_c : gpu->memory_c;
  return SUCCESS;
}

EXPORT int amdsmi_get_gpu_memory_total(void* handle, uint32_t kind, uint64_t* bytes) {
  BEGIN(handle, bytes && kind == 0);
  *bytes = gpu->memory_total;
  return SUCCESS;
}

EXPORT int amdsmi_get_gpu_memory_usage(void* handle, uint32_t kind, uint64_t* bytes) {
  BEGIN(handle, bytes && kind == 0);
  *bytes = gpu->memory_used;
  return SUCCESS;
}

EXPORT int amdsmi_get_gpu_compute_partition(void* handle, char* text, uint32_t length) {
  BEGIN(handle, text && length > 0);
  snprintf(text, length, "%s", gpu->compute_partition);
  return SUCCESS;
}

EXPORT int amdsmi_get_gpu_memory_partition(void* handle, char* text, uint32_t length) {
  BEGIN(handle, text && length > 0);
  snprintf(text, length, "%s", gpu->memory_partition);
  return SUCCESS;
}
