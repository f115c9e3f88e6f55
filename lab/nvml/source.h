/* Where each call gets its answer from: the state file, the rules in it (errors, hangs) and the machine's load.
 * Threads: any number at once; nothing is locked while a call hangs. */
#pragma once

#include "nvml_abi.h"
#include "state.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct {
  unsigned int gpu_count;
  char driver[80];
  GpuState gpu; /* the one that is asked */
} Answer;

/* Begins a call that is about the whole machine. */
nvmlReturn_t begin_machine(const char* function, Answer* answer);
/* Begins a call about a GPU: hangs if told to, then gives its state or the error that it is to answer with. A lost GPU
 * answers everything with NVML_ERROR_GPU_IS_LOST. */
nvmlReturn_t begin_gpu(const char* function, nvmlDevice_t device, Answer* answer);
nvmlReturn_t start_session(void);
nvmlReturn_t end_session(void);

unsigned int busy_per_cent(const GpuState* gpu);
