#define _GNU_SOURCE
#include "source.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "statefile.h"

static const char default_state_path[] = "/run/homeostat/nvml.json";
static const char busy_path[] = "/run/homeostat/gpu_busy";
enum { BUSY_PER_CENT = 97, STEP_CHECK_MS = 500 };

static atomic_int session_count;
static atomic_ulong call_count;

/* Calls of NVML functions so far: what a look costs. */
EXPORT unsigned long homeostat_fake_nvml_calls(void) { return atomic_load(&call_count); }

/* The text of the file and what was read from it, so that only a file that has changed is parsed anew. */
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static char cached_text[STATE_MAX_BYTES], new_text[STATE_MAX_BYTES];
static size_t cached_length;
static int cached_whole = -1; /* nothing yet */
static MachineState cached_state;

/* Copies the state of the machine and of one GPU (-1: of none); rules of the machine come with it. */
static nvmlReturn_t look_up(long gpu, Answer* answer, Rules* errors, Rules* hangs) {
  nvmlReturn_t result = NVML_ERROR_UNKNOWN;
  size_t length;
  pthread_mutex_lock(&cache_lock);
  if (!read_state_file("HOMEOSTAT_FAKE_NVML", default_state_path, new_text, sizeof new_text, &length)) {
    result = NVML_ERROR_DRIVER_NOT_LOADED;
  } else {
    if (cached_whole < 0 || length != cached_length || memcmp(new_text, cached_text, length) != 0) {
      memcpy(cached_text, new_text, length + 1);
      cached_length = length;
      cached_whole = state_parse(cached_text, &cached_state);
    }
    if (cached_whole) {
      result = NVML_SUCCESS;
      answer->gpu_count = cached_state.count;
      memcpy(answer->driver, cached_state.driver, sizeof answer->driver);
      *errors = cached_state.errors;
      *hangs = cached_state.hangs;
      if (gpu >= 0 && gpu < (long)cached_state.count) answer->gpu = cached_state.gpus[gpu];
    }
  }
  pthread_mutex_unlock(&cache_lock);
  return result;
}

/* How long this call is to hang by the file as it is now. */
static long long hang_of(const char* function, long gpu, Answer* answer, const Rules* machine) {
  long long ms = rule_for(machine, function);
  if (ms == 0 && gpu >= 0 && gpu < (long)answer->gpu_count) ms = rule_for(&answer->gpu.hangs, function);
  return ms;
}

/* Looks the state up and hangs as told; a hang ends early when the file no longer asks for it. */
static nvmlReturn_t look_up_slowly(const char* function, long gpu, Answer* answer, Rules* errors) {
  Rules hangs;
  atomic_fetch_add(&call_count, 1);
  memset(answer, 0, sizeof *answer);
  const long long began = now_ms();
  for (;;) {
    nvmlReturn_t result = look_up(gpu, answer, errors, &hangs);
    if (result != NVML_SUCCESS) return result;
    if (now_ms() - began >= hang_of(function, gpu, answer, &hangs)) return NVML_SUCCESS;
    nap();
  }
}

nvmlReturn_t begin_machine(const char* function, Answer* answer) {
  Rules errors;
  if (atomic_load(&session_count) <= 0) return NVML_ERROR_UNINITIALIZED;
  nvmlReturn_t result = look_up_slowly(function, -1, answer, &errors);
  return result == NVML_SUCCESS ? (nvmlReturn_t)rule_for(&errors, function) : result;
}

nvmlReturn_t start_session(void) {
  Rules errors;
  Answer answer;
  nvmlReturn_t result = look_up_slowly("nvmlInit_v2", -1, &answer, &errors);
  if (result == NVML_SUCCESS) result = (nvmlReturn_t)rule_for(&errors, "nvmlInit_v2");
  if (result == NVML_SUCCESS) atomic_fetch_add(&session_count, 1);
  return result;
}

nvmlReturn_t end_session(void) {
  if (atomic_fetch_sub(&session_count, 1) > 0) return NVML_SUCCESS;
  atomic_fetch_add(&session_count, 1);
  return NVML_ERROR_UNINITIALIZED;
}

/* A handle is the GPU's index plus one: it holds for as long as the process does, also when the GPU is lost meanwhile.
 */
nvmlReturn_t begin_gpu(const char* function, nvmlDevice_t device, Answer* answer) {
  Rules errors;
  if (atomic_load(&session_count) <= 0) return NVML_ERROR_UNINITIALIZED;
  const long gpu = (long)(uintptr_t)device - 1;
  nvmlReturn_t result = look_up_slowly(function, gpu, answer, &errors);
  if (result != NVML_SUCCESS) return result;
  if (gpu < 0 || gpu >= (long)answer->gpu_count) return NVML_ERROR_INVALID_ARGUMENT;
  if (answer->gpu.lost) return NVML_ERROR_GPU_IS_LOST;
  if (answer->gpu.error) return (nvmlReturn_t)answer->gpu.error;
  const long long told = rule_for(&answer->gpu.errors, function);
  return (nvmlReturn_t)(told ? told : rule_for(&errors, function));
}

/* Whether a Slurm step runs where we can see it. */
static int find_step(void) {
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

/* Walking /proc costs more than all else here, so it is done twice a second at most. */
static int step_runs(void) {
  static _Atomic long long checked_at = -STEP_CHECK_MS;
  static atomic_int found;
  const long long now = now_ms();
  if (now - atomic_load(&checked_at) >= STEP_CHECK_MS) {
    atomic_store(&checked_at, now);
    atomic_store(&found, find_step());
  }
  return atomic_load(&found);
}

unsigned int busy_per_cent(const GpuState* gpu) {
  if (gpu->utilization != STATE_UTILIZATION_JOB) return (unsigned int)gpu->utilization;
  return access(busy_path, F_OK) == 0 || step_runs() ? BUSY_PER_CENT : 0;
}
