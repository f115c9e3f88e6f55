/* The state of a machine's fake GPUs, as the lab writes it into one small JSON file:
 *   {"driver":"570.1","gpus":[{"index":0,"uuid":"GPU-…","pci":"0000:17:00.0","state":"ok|lost","ecc_uncorrected":0,"ecc_corrected":0,
 *    "utilization":0-100 or "job","temperature_c":40,"recovery_action":0}]}
 * Unknown keys are skipped, missing ones keep their default. Pure: no files, no globals. */
#pragma once

enum { STATE_MAX_GPUS = 16, STATE_MAX_BYTES = 64 * 1024, STATE_UTILIZATION_JOB = -1 };

typedef struct {
  char uuid[80];
  char pci[32];
  int lost;
  int utilization; /* per cent, or STATE_UTILIZATION_JOB: as busy as the machine's jobs make it */
  unsigned int temperature_c;
  unsigned int recovery_action;
  unsigned long long ecc_corrected;
  unsigned long long ecc_uncorrected;
} GpuState;

typedef struct {
  char driver[80];
  unsigned int count;
  GpuState gpus[STATE_MAX_GPUS];
} MachineState;

/* 1 when `text` (ended by a zero byte) is whole and of this shape, else 0. */
int state_parse(const char* text, MachineState* state);
