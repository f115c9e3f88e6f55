/* The state of a machine's fake AMD GPUs as the stand-in for amdsmi tells it, read from one small JSON file (README.md
 * lists every key). Unknown keys are skipped, missing ones keep their default. Pure: no files, no globals. */
#pragma once

#include "lab/nvml/rules.h"

enum { STATE_MAX_GPUS = 16, STATE_MAX_BYTES = 64 * 1024, STATE_BLOCKS = 19 };

typedef struct {
  unsigned long long corrected, uncorrected, deferred;
} ErrorState;

typedef struct {
  char pci[32], uuid[64], model[64];
  char compute_partition[16], memory_partition[16];
  Rules errors, hangs;
  unsigned long long ecc_enabled; /* bit n: block n counts */
  ErrorState ecc[STATE_BLOCKS];
  unsigned int pages_retired, pages_pending, pages_failed, page_threshold;
  unsigned int hotspot_c, memory_c, critical_c, power_w;
  unsigned int lanes, speed_mts;
  unsigned long long replays, memory_total, memory_used;
  unsigned long long cycles, hot; /* of violations: how many, and how many of them the socket was too hot */
} GpuState;

typedef struct {
  unsigned int version[4], version_numbers; /* 24 tells four numbers, later ones three */
  char driver[64];
  unsigned int extra_bytes; /* that each structure is longer than those of today */
  Rules errors, hangs;
  unsigned int count;
  GpuState gpus[STATE_MAX_GPUS];
} MachineState;

/* 1 when `text` (ended by a zero byte) is whole and of this shape, else 0. */
int state_parse(const char* text, MachineState* state);
