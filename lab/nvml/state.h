/* The state of a machine's fake GPUs, read from one small JSON file (README.md lists every key). Unknown keys are
 * skipped, missing ones keep their default. Pure: no files, no globals. */
#pragma once

#include "rules.h"

enum {
  STATE_MAX_GPUS = 16,
  STATE_MAX_BYTES = 64 * 1024,
  STATE_MAX_LINKS = 36,
  STATE_UTILIZATION_JOB = -1,
  STATE_BY_LOAD = 0xffffffff /* a figure that follows the load of the GPU */
};

enum { LINK_CRC, LINK_REPLAY, LINK_RECOVERY, LINK_UNRECOVERED, LINK_SYMBOL, LINK_COUNTERS };

typedef struct {
  char uuid[80];
  char pci[32];
  char name[64];
  int lost;
  int error; /* an NVML code that every question is answered with, or 0 */
  Rules errors, field_errors, hangs;

  int utilization; /* per cent, or STATE_UTILIZATION_JOB: as busy as the machine's jobs make it */
  unsigned int temperature_c, memory_temperature_c, slowdown_c, memory_max_c;
  int has_margin, thermal_margin_c, slowdown_margin_c;
  unsigned int power_w, power_limit_w, sm_clock_mhz, sm_clock_max_mhz;
  unsigned long long memory_total_mib, memory_used_mib;
  unsigned int throttle; /* bits of NVML's clocks event reasons */

  unsigned long long ecc_corrected, ecc_uncorrected, ecc_corrected_aggregate, ecc_uncorrected_aggregate;
  unsigned long long sram_uncorrected;
  unsigned int sram_threshold_exceeded;
  unsigned int remapped_corrected, remapped_uncorrected, remap_pending, remap_failure, bank_remap_pending;
  unsigned int remap_histogram[5];
  int has_retired_pages;
  unsigned int retired_single, retired_double, retirement_pending;
  unsigned int recovery_action;

  unsigned int pcie_gen, pcie_gen_max, pcie_width, pcie_width_max;
  unsigned long long pcie_replays;

  unsigned int nvlinks, nvlink_generation;
  unsigned long long nvlinks_down; /* bit n: link n */
  unsigned long long nvlink_errors[STATE_MAX_LINKS][LINK_COUNTERS];

  unsigned int mig, mig_pending;
  unsigned int fabric_state, fabric_health;
  int fabric_status; /* an NVML code */
} GpuState;

typedef struct {
  char driver[80];
  Rules errors, hangs;
  unsigned int count;
  GpuState gpus[STATE_MAX_GPUS];
} MachineState;

/* 1 when `text` (ended by a zero byte) is whole and of this shape, else 0. */
int state_parse(const char* text, MachineState* state);
