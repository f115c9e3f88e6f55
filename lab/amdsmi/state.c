#include "state.h"

#include <stddef.h>
#include <string.h>

#include "lab/nvml/figures.h"
#include "lab/nvml/json.h"

static const Word codes[] = {
    {"SUCCESS", 0},
    {"INVAL", 1},
    {"NOT_SUPPORTED", 2},
    {"NOT_YET_IMPLEMENTED", 3},
    {"DRM_ERROR", 6},
    {"TIMEOUT", 8},
    {"RETRY", 9},
    {"NO_PERM", 10},
    {"IO", 12},
    {"FILE_ERROR", 14},
    {"BUSY", 30},
    {"NOT_FOUND", 31},
    {"NOT_INIT", 32},
    {"API_FAILED", 7},
    {"INIT_ERROR", 18},
    {"NO_DATA", 40},
    {"UNEXPECTED_DATA", 43},
    {"DRIVER_NOT_LOADED", 34},
    {"UNKNOWN_ERROR", -1},
    {0, 0},
};

static const char* const block_names[STATE_BLOCKS] = {"umc",       "sdma", "gfx",  "mmhub", "athub", "pcie_bif", "hdp",
                                                      "xgmi_wafl", "df",   "smn",  "sem",   "mp0",   "mp1",      "fuse",
                                                      "mca",       "vcn",  "jpeg", "ih",    "mpio"};

#define FIGURE(name, kind) {#name, offsetof(GpuState, name), kind}
static const Figure figures[] = {
    FIGURE(ecc_enabled, WIDE),   FIGURE(pages_retired, PLAIN),  FIGURE(pages_pending, PLAIN),
    FIGURE(pages_failed, PLAIN), FIGURE(page_threshold, PLAIN), FIGURE(hotspot_c, PLAIN),
    FIGURE(memory_c, PLAIN),     FIGURE(critical_c, PLAIN),     FIGURE(power_w, PLAIN),
    FIGURE(lanes, PLAIN),        FIGURE(speed_mts, PLAIN),      FIGURE(replays, WIDE),
    FIGURE(memory_total, WIDE),  FIGURE(memory_used, WIDE),     FIGURE(cycles, WIDE),
    FIGURE(hot, WIDE),
};

static const char* count_member(const char* key, const char* at, void* into) {
  ErrorState* errors = into;
  long long number = 0;
  at = json_number(at, &number);
  if (!at || number < 0) return 0;
  if (!strcmp(key, "corrected")) errors->corrected = (unsigned long long)number;
  if (!strcmp(key, "uncorrected")) errors->uncorrected = (unsigned long long)number;
  if (!strcmp(key, "deferred")) errors->deferred = (unsigned long long)number;
  return at;
}

static const char* block_member(const char* key, const char* at, void* into) {
  GpuState* gpu = into;
  for (int i = 0; i < STATE_BLOCKS; i++)
    if (!strcmp(key, block_names[i])) return json_object(at, count_member, &gpu->ecc[i]);
  return 0;
}

static const char* gpu_member(const char* key, const char* at, void* into) {
  GpuState* gpu = into;
  if (!strcmp(key, "pci")) return json_string(at, gpu->pci, sizeof gpu->pci);
  if (!strcmp(key, "uuid")) return json_string(at, gpu->uuid, sizeof gpu->uuid);
  if (!strcmp(key, "model")) return json_string(at, gpu->model, sizeof gpu->model);
  if (!strcmp(key, "compute_partition")) return json_string(at, gpu->compute_partition, sizeof gpu->compute_partition);
  if (!strcmp(key, "memory_partition")) return json_string(at, gpu->memory_partition, sizeof gpu->memory_partition);
  if (!strcmp(key, "errors")) return read_errors(at, codes, &gpu->errors);
  if (!strcmp(key, "hang_ms")) return read_hangs(at, &gpu->hangs);
  if (!strcmp(key, "ecc")) return json_object(at, block_member, gpu);
  const Figure* figure = find_figure(figures, sizeof figures / sizeof *figures, key);
  if (figure) return read_figure(figure, at, gpu);
  return json_skip_value(at);
}

/* A sound, idle MI300X. */
static void set_defaults(GpuState* gpu) {
  strcpy(gpu->model, "AMD Instinct MI300X OAM");
  strcpy(gpu->compute_partition, "SPX");
  strcpy(gpu->memory_partition, "NPS1");
  gpu->ecc_enabled = 0x7; /* umc, sdma, gfx */
  gpu->page_threshold = 128;
  gpu->hotspot_c = 45;
  gpu->memory_c = 40;
  gpu->critical_c = 100;
  gpu->power_w = 140;
  gpu->lanes = 16;
  gpu->speed_mts = 32000;
  gpu->memory_total = 192ull << 30;
  gpu->memory_used = 1ull << 20;
}

static const char* gpu_item(const char* at, void* into) {
  MachineState* state = into;
  if (state->count == STATE_MAX_GPUS) return 0;
  GpuState* gpu = &state->gpus[state->count++];
  set_defaults(gpu);
  return json_object(at, gpu_member, gpu);
}

static const char* version_item(const char* at, void* into) {
  MachineState* state = into;
  long long number = 0;
  at = json_number(at, &number);
  if (!at || number < 0 || state->version_numbers == 4) return 0;
  state->version[state->version_numbers++] = (unsigned int)number;
  return at;
}

static const char* machine_member(const char* key, const char* at, void* into) {
  MachineState* state = into;
  long long number = 0;
  if (!strcmp(key, "driver")) return json_string(at, state->driver, sizeof state->driver);
  if (!strcmp(key, "version")) return json_array(at, version_item, state);
  if (!strcmp(key, "gpus")) return json_array(at, gpu_item, state);
  if (!strcmp(key, "errors")) return read_errors(at, codes, &state->errors);
  if (!strcmp(key, "hang_ms")) return read_hangs(at, &state->hangs);
  if (!strcmp(key, "extra_bytes"))
    return (at = json_number(at, &number)), (state->extra_bytes = (unsigned int)number), at;
  return json_skip_value(at);
}

int state_parse(const char* text, MachineState* state) {
  memset(state, 0, sizeof *state);
  strcpy(state->driver, "6.14.14");
  const char* end = json_object(json_skip_space(text), machine_member, state);
  if (state->version_numbers == 0) {
    const unsigned int newest[] = {26, 1, 0};
    memcpy(state->version, newest, sizeof newest);
    state->version_numbers = 3;
  }
  return end && *json_skip_space(end) == '\0';
}
