#include "state.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

static const char* skip_space(const char* at) {
  while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
  return at;
}

/* Each reader takes the place of a value and returns the place after it, or 0 when it is not there. */
static const char* read_string(const char* at, char* out, size_t size) {
  if (*at++ != '"') return 0;
  size_t length = 0;
  for (; *at != '"'; at++) {
    if (*at == '\\') at++; /* names and ids here need no escapes; an escaped byte stands for itself */
    if (*at == '\0') return 0;
    if (length + 1 < size) out[length++] = *at;
  }
  if (size > 0) out[length] = '\0';
  return at + 1;
}

static const char* read_number(const char* at, unsigned long long* out) {
  char* end;
  double value = strtod(at, &end);
  if (end == at || value < 0 || value > 1e15) return 0;
  *out = (unsigned long long)value;
  return end;
}

static const char* skip_value(const char* at, int depth);

static const char* skip_group(const char* at, char close, int depth) {
  at = skip_space(at + 1);
  if (*at == close) return at + 1;
  for (;;) {
    if (close == '}') {
      at = read_string(skip_space(at), 0, 0);
      if (!at || *(at = skip_space(at)) != ':') return 0;
      at++;
    }
    at = skip_value(skip_space(at), depth + 1);
    if (!at) return 0;
    at = skip_space(at);
    if (*at == close) return at + 1;
    if (*at++ != ',') return 0;
  }
}

static const char* skip_value(const char* at, int depth) {
  unsigned long long number;
  if (depth > MAX_DEPTH) return 0;
  if (*at == '"') return read_string(at, 0, 0);
  if (*at == '{') return skip_group(at, '}', depth);
  if (*at == '[') return skip_group(at, ']', depth);
  if (!strncmp(at, "true", 4) || !strncmp(at, "null", 4)) return at + 4;
  if (!strncmp(at, "false", 5)) return at + 5;
  if (*at == '-') at++;
  return read_number(at, &number);
}

static const char* read_gpu_member(const char* key, const char* at, GpuState* gpu) {
  unsigned long long number = 0;
  char word[16];
  if (!strcmp(key, "uuid")) return read_string(at, gpu->uuid, sizeof gpu->uuid);
  if (!strcmp(key, "pci")) return read_string(at, gpu->pci, sizeof gpu->pci);
  if (!strcmp(key, "state")) {
    at = read_string(at, word, sizeof word);
    gpu->lost = at && !strcmp(word, "lost");
    return at;
  }
  if (!strcmp(key, "utilization") && *at == '"') {
    at = read_string(at, word, sizeof word);
    gpu->utilization = STATE_UTILIZATION_JOB;
    return at && !strcmp(word, "job") ? at : 0;
  }
  if (!strcmp(key, "utilization"))
    return (at = read_number(at, &number)), (gpu->utilization = number > 100 ? 100 : (int)number), at;
  if (!strcmp(key, "temperature_c"))
    return (at = read_number(at, &number)), (gpu->temperature_c = (unsigned int)number), at;
  if (!strcmp(key, "recovery_action"))
    return (at = read_number(at, &number)), (gpu->recovery_action = (unsigned int)number), at;
  if (!strcmp(key, "ecc_corrected")) return read_number(at, &gpu->ecc_corrected);
  if (!strcmp(key, "ecc_uncorrected")) return read_number(at, &gpu->ecc_uncorrected);
  return skip_value(at, 0);
}

typedef const char* (*MemberReader)(const char* key, const char* at, void* into);

static const char* read_object(const char* at, MemberReader read_member, void* into) {
  char key[32];
  if (*at != '{') return 0;
  at = skip_space(at + 1);
  if (*at == '}') return at + 1;
  for (;;) {
    at = read_string(skip_space(at), key, sizeof key);
    if (!at || *(at = skip_space(at)) != ':') return 0;
    at = read_member(key, skip_space(at + 1), into);
    if (!at) return 0;
    at = skip_space(at);
    if (*at == '}') return at + 1;
    if (*at++ != ',') return 0;
  }
}

static const char* gpu_member(const char* key, const char* at, void* into) { return read_gpu_member(key, at, into); }

static const char* read_gpus(const char* at, MachineState* state) {
  if (*at != '[') return 0;
  at = skip_space(at + 1);
  if (*at == ']') return at + 1;
  for (;;) {
    if (state->count == STATE_MAX_GPUS) return 0;
    GpuState* gpu = &state->gpus[state->count++];
    gpu->temperature_c = 40;
    at = read_object(skip_space(at), gpu_member, gpu);
    if (!at) return 0;
    at = skip_space(at);
    if (*at == ']') return at + 1;
    if (*at++ != ',') return 0;
  }
}

static const char* machine_member(const char* key, const char* at, void* into) {
  MachineState* state = into;
  if (!strcmp(key, "driver")) return read_string(at, state->driver, sizeof state->driver);
  if (!strcmp(key, "gpus")) return read_gpus(at, state);
  return skip_value(at, 0);
}

int state_parse(const char* text, MachineState* state) {
  memset(state, 0, sizeof *state);
  const char* end = read_object(skip_space(text), machine_member, state);
  return end && *skip_space(end) == '\0';
}
