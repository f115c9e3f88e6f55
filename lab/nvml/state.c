#include "state.h"

#include <stddef.h>
#include <string.h>

#include "figures.h"
#include "json.h"
#include "nvml_abi.h"

static const Word codes[] = {
    {"SUCCESS", NVML_SUCCESS},
    {"UNINITIALIZED", NVML_ERROR_UNINITIALIZED},
    {"INVALID_ARGUMENT", NVML_ERROR_INVALID_ARGUMENT},
    {"NOT_SUPPORTED", NVML_ERROR_NOT_SUPPORTED},
    {"NO_PERMISSION", NVML_ERROR_NO_PERMISSION},
    {"NOT_FOUND", NVML_ERROR_NOT_FOUND},
    {"INSUFFICIENT_SIZE", NVML_ERROR_INSUFFICIENT_SIZE},
    {"INSUFFICIENT_POWER", NVML_ERROR_INSUFFICIENT_POWER},
    {"DRIVER_NOT_LOADED", NVML_ERROR_DRIVER_NOT_LOADED},
    {"TIMEOUT", NVML_ERROR_TIMEOUT},
    {"IRQ_ISSUE", NVML_ERROR_IRQ_ISSUE},
    {"CORRUPTED_INFOROM", NVML_ERROR_CORRUPTED_INFOROM},
    {"GPU_IS_LOST", NVML_ERROR_GPU_IS_LOST},
    {"RESET_REQUIRED", NVML_ERROR_RESET_REQUIRED},
    {"OPERATING_SYSTEM", NVML_ERROR_OPERATING_SYSTEM},
    {"LIB_RM_VERSION_MISMATCH", NVML_ERROR_LIB_RM_VERSION_MISMATCH},
    {"IN_USE", NVML_ERROR_IN_USE},
    {"NOT_READY", NVML_ERROR_NOT_READY},
    {"UNKNOWN", NVML_ERROR_UNKNOWN},
    {0, 0},
};
static const Word throttle_reasons[] = {
    {"idle", 0x1},        {"application_clocks", 0x2},
    {"power_cap", 0x4},   {"hw_slowdown", 0x8},
    {"sync_boost", 0x10}, {"sw_thermal", 0x20},
    {"hw_thermal", 0x40}, {"power_brake", 0x80},
    {"display", 0x100},   {0, 0},
};
static const Word fabric_states[] = {
    {"not_supported", 0}, {"not_started", 1}, {"in_progress", 2}, {"completed", 3}, {0, 0}};

#define FIGURE(name, kind) {#name, offsetof(GpuState, name), kind}
static const Figure figures[] = {
    FIGURE(temperature_c, PLAIN),
    FIGURE(memory_temperature_c, PLAIN),
    FIGURE(slowdown_c, PLAIN),
    FIGURE(memory_max_c, PLAIN),
    FIGURE(power_w, PLAIN),
    FIGURE(power_limit_w, PLAIN),
    FIGURE(sm_clock_mhz, PLAIN),
    FIGURE(sm_clock_max_mhz, PLAIN),
    FIGURE(memory_total_mib, WIDE),
    FIGURE(memory_used_mib, WIDE),
    FIGURE(ecc_corrected, WIDE),
    FIGURE(ecc_uncorrected, WIDE),
    FIGURE(ecc_corrected_aggregate, WIDE),
    FIGURE(ecc_uncorrected_aggregate, WIDE),
    FIGURE(sram_uncorrected, WIDE),
    FIGURE(sram_threshold_exceeded, FLAG),
    FIGURE(remapped_corrected, PLAIN),
    FIGURE(remapped_uncorrected, PLAIN),
    FIGURE(remap_pending, FLAG),
    FIGURE(remap_failure, FLAG),
    FIGURE(bank_remap_pending, FLAG),
    FIGURE(retired_single, PLAIN),
    FIGURE(retired_double, PLAIN),
    FIGURE(retirement_pending, FLAG),
    FIGURE(recovery_action, PLAIN),
    FIGURE(pcie_gen, PLAIN),
    FIGURE(pcie_gen_max, PLAIN),
    FIGURE(pcie_width, PLAIN),
    FIGURE(pcie_width_max, PLAIN),
    FIGURE(pcie_replays, WIDE),
    FIGURE(nvlink_generation, PLAIN),
    FIGURE(mig, FLAG),
    FIGURE(mig_pending, FLAG),
    FIGURE(fabric_health, PLAIN),
};

static const char* throttle_item(const char* at, void* into) {
  long long bits = 0;
  at = read_word(at, throttle_reasons, &bits);
  *(unsigned int*)into |= (unsigned int)bits;
  return at;
}

static const char* down_item(const char* at, void* into) {
  long long link = 0;
  at = json_number(at, &link);
  if (!at || link < 0 || link >= STATE_MAX_LINKS) return 0;
  *(unsigned long long*)into |= 1ull << link;
  return at;
}

typedef struct {
  long long link;
  unsigned long long counts[LINK_COUNTERS];
} LinkErrors;

static const char* link_member(const char* key, const char* at, void* into) {
  static const char* const names[LINK_COUNTERS] = {"crc", "replay", "recovery", "unrecovered", "symbol"};
  LinkErrors* errors = into;
  long long number = 0;
  if (!strcmp(key, "link")) return json_number(at, &errors->link);
  for (int i = 0; i < LINK_COUNTERS; i++)
    if (!strcmp(key, names[i])) {
      at = json_number(at, &number);
      errors->counts[i] = (unsigned long long)(number < 0 ? 0 : number);
      return at;
    }
  return json_skip_value(at);
}

static const char* link_item(const char* at, void* into) {
  GpuState* gpu = into;
  LinkErrors errors = {-1, {0}};
  at = json_object(at, link_member, &errors);
  if (!at || errors.link < 0 || errors.link >= STATE_MAX_LINKS) return 0;
  memcpy(gpu->nvlink_errors[errors.link], errors.counts, sizeof errors.counts);
  return at;
}

typedef struct {
  unsigned int* at;
  int left;
} Numbers;

static const char* number_item(const char* at, void* into) {
  Numbers* numbers = into;
  long long number = 0;
  at = json_number(at, &number);
  if (!at || number < 0 || numbers->left-- <= 0) return 0;
  *numbers->at++ = (unsigned int)number;
  return at;
}

static const char* read_int(const char* at, int* out) {
  long long number = 0;
  at = json_number(at, &number);
  *out = (int)number;
  return at;
}

static const char* read_utilization(const char* at, GpuState* gpu) {
  char word[16];
  long long number = 0;
  if (*at == '"') {
    at = json_string(at, word, sizeof word);
    gpu->utilization = STATE_UTILIZATION_JOB;
    return at && !strcmp(word, "job") ? at : 0;
  }
  at = json_number(at, &number);
  gpu->utilization = number > 100 ? 100 : number < 0 ? 0 : (int)number;
  return at;
}

static const char* read_state(const char* at, GpuState* gpu) {
  char word[16];
  at = json_string(at, word, sizeof word);
  gpu->lost = at && !strcmp(word, "lost");
  return at;
}

/* Keys that stand for behaviour and groups of figures. */
static const char* group_member(const char* key, const char* at, GpuState* gpu) {
  long long number = 0;
  if (!strcmp(key, "errors")) return read_errors(at, codes, &gpu->errors);
  if (!strcmp(key, "field_errors")) return read_errors(at, codes, &gpu->field_errors);
  if (!strcmp(key, "hang_ms")) return read_hangs(at, &gpu->hangs);
  if (!strcmp(key, "error")) return (at = read_word(at, codes, &number)), (gpu->error = (int)number), at;
  if (!strcmp(key, "throttle")) return json_array(at, throttle_item, &gpu->throttle);
  if (!strcmp(key, "nvlinks")) {
    at = json_number(at, &number);
    gpu->nvlinks = number < 0 ? 0 : number > STATE_MAX_LINKS ? STATE_MAX_LINKS : (unsigned int)number;
    return at;
  }
  if (!strcmp(key, "nvlinks_down")) return json_array(at, down_item, &gpu->nvlinks_down);
  if (!strcmp(key, "nvlink_errors")) return json_array(at, link_item, gpu);
  if (!strcmp(key, "remap_histogram")) {
    Numbers numbers = {gpu->remap_histogram, 5};
    return json_array(at, number_item, &numbers);
  }
  if (!strcmp(key, "fabric_state"))
    return (at = read_word(at, fabric_states, &number)), (gpu->fabric_state = (unsigned int)number), at;
  if (!strcmp(key, "fabric_status"))
    return (at = read_word(at, codes, &number)), (gpu->fabric_status = (int)number), at;
  if (!strcmp(key, "thermal_margin_c")) return (gpu->has_margin = 1), read_int(at, &gpu->thermal_margin_c);
  if (!strcmp(key, "slowdown_margin_c")) return (gpu->has_margin = 1), read_int(at, &gpu->slowdown_margin_c);
  return json_skip_value(at);
}

static const char* gpu_member(const char* key, const char* at, void* into) {
  GpuState* gpu = into;
  if (!strcmp(key, "uuid")) return json_string(at, gpu->uuid, sizeof gpu->uuid);
  if (!strcmp(key, "pci")) return json_string(at, gpu->pci, sizeof gpu->pci);
  if (!strcmp(key, "name")) return json_string(at, gpu->name, sizeof gpu->name);
  if (!strcmp(key, "state")) return read_state(at, gpu);
  if (!strcmp(key, "utilization")) return read_utilization(at, gpu);
  if (!strncmp(key, "retire", 6)) gpu->has_retired_pages = 1;
  const Figure* figure = find_figure(figures, sizeof figures / sizeof *figures, key);
  if (figure) return read_figure(figure, at, gpu);
  return group_member(key, at, gpu);
}

/* A sound, idle H100 on an HGX board. */
static void set_defaults(GpuState* gpu) {
  strcpy(gpu->name, "NVIDIA H100 80GB HBM3");
  gpu->temperature_c = 40;
  gpu->memory_temperature_c = 45;
  gpu->slowdown_c = 87;
  gpu->memory_max_c = 95;
  gpu->slowdown_margin_c = -2;
  gpu->power_w = gpu->sm_clock_mhz = gpu->pcie_gen = STATE_BY_LOAD;
  gpu->power_limit_w = 700;
  gpu->sm_clock_max_mhz = 1980;
  gpu->memory_total_mib = 80ull << 10;
  gpu->memory_used_mib = STATE_BY_LOAD;
  gpu->pcie_gen_max = 5;
  gpu->pcie_width = gpu->pcie_width_max = 16;
  gpu->nvlinks = 18;
  gpu->nvlink_generation = 4;
  gpu->remap_histogram[0] = 640;
  gpu->fabric_state = 3;
  gpu->mig_pending = STATE_BY_LOAD; /* as MIG is now */
}

static const char* gpu_item(const char* at, void* into) {
  MachineState* state = into;
  if (state->count == STATE_MAX_GPUS) return 0;
  GpuState* gpu = &state->gpus[state->count++];
  set_defaults(gpu);
  at = json_object(at, gpu_member, gpu);
  if (gpu->mig_pending == STATE_BY_LOAD) gpu->mig_pending = gpu->mig;
  return at;
}

static const char* machine_member(const char* key, const char* at, void* into) {
  MachineState* state = into;
  if (!strcmp(key, "driver")) return json_string(at, state->driver, sizeof state->driver);
  if (!strcmp(key, "gpus")) return json_array(at, gpu_item, state);
  if (!strcmp(key, "errors")) return read_errors(at, codes, &state->errors);
  if (!strcmp(key, "hang_ms")) return read_hangs(at, &state->hangs);
  return json_skip_value(at);
}

int state_parse(const char* text, MachineState* state) {
  memset(state, 0, sizeof *state);
  const char* end = json_object(json_skip_space(text), machine_member, state);
  return end && *json_skip_space(end) == '\0';
}
