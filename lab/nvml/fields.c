/* Field values: many figures in one question. Which fields of a link answer depends on its generation, as with real
 * GPUs. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#include "source.h"

typedef struct {
  unsigned int id;
  int type;
  unsigned long long value;
  int offered;
} Figure;

static void link_figure(const GpuState* gpu, unsigned int link, int counter, Figure* figure) {
  figure->offered = link < gpu->nvlinks;
  figure->type = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
  if (figure->offered) figure->value = gpu->nvlink_errors[link][counter];
}

/* Counters of generation 3 have an id for each of 12 links; links 6 to 11 came later and elsewhere. */
static int find_old_link_figure(const GpuState* gpu, unsigned int id, Figure* figure) {
  static const struct {
    unsigned int low, high;
    int counter;
  } blocks[] = {
      {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6, LINK_CRC},
      {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6, -1},
      {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6, LINK_REPLAY},
      {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6, LINK_RECOVERY},
  };
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    unsigned int link;
    if (id >= blocks[i].low && id < blocks[i].low + 6)
      link = id - blocks[i].low;
    else if (id >= blocks[i].high && id < blocks[i].high + 6)
      link = id - blocks[i].high + 6;
    else
      continue;
    if (gpu->nvlink_generation > 3) return 1;
    if (blocks[i].counter >= 0) {
      link_figure(gpu, link, blocks[i].counter, figure);
    } else {
      figure->type = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
      figure->offered = link < gpu->nvlinks;
    }
    return 1;
  }
  return 0;
}

static int find_link_figure(const GpuState* gpu, unsigned int id, unsigned int link, Figure* figure) {
  static const struct {
    unsigned int id, generation;
    int counter;
  } counters[] = {
      {NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 4, LINK_REPLAY},
      {NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, 4, LINK_RECOVERY},
      {NVML_FI_DEV_NVLINK_ERROR_DL_CRC, 4, LINK_CRC},
      {NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS, 5, LINK_CRC},
      {NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS, 5, LINK_UNRECOVERED},
      {NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, 5, LINK_RECOVERY},
      {NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS, 5, LINK_SYMBOL},
  };
  if (id == NVML_FI_DEV_NVLINK_GET_STATE) {
    figure->offered = gpu->nvlink_generation >= 4 && link < gpu->nvlinks;
    figure->value = gpu->nvlinks_down >> (link & 63) & 1 ? 0 : 1;
    return 1;
  }
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
    if (id == counters[i].id) {
      if (gpu->nvlink_generation == counters[i].generation) link_figure(gpu, link, counters[i].counter, figure);
      return 1;
    }
  return 0;
}

/* Figures of the GPU as a whole; a GPU with retired pages has no remapped rows and the other way round. */
static void find_figure(const GpuState* gpu, Figure* figure) {
  const int rows = !gpu->mig && !gpu->has_retired_pages;
  const struct {
    unsigned int id;
    unsigned long long value;
    int offered, type;
  } figures[] = {
      {NVML_FI_DEV_ECC_SBE_VOL_TOTAL, gpu->ecc_corrected, 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
      {NVML_FI_DEV_ECC_DBE_VOL_TOTAL, gpu->ecc_uncorrected, 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
      {NVML_FI_DEV_ECC_SBE_AGG_TOTAL, gpu->ecc_corrected_aggregate, 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
      {NVML_FI_DEV_ECC_DBE_AGG_TOTAL, gpu->ecc_uncorrected_aggregate, 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
      {NVML_FI_DEV_RETIRED_SBE, gpu->retired_single, gpu->has_retired_pages, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_RETIRED_DBE, gpu->retired_double, gpu->has_retired_pages, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_RETIRED_PENDING, gpu->retirement_pending, gpu->has_retired_pages, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_MEMORY_TEMP, gpu->memory_temperature_c, 1, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_NVLINK_LINK_COUNT, gpu->nvlinks, gpu->nvlinks > 0, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_PCIE_REPLAY_COUNTER, gpu->pcie_replays, 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG},
      {NVML_FI_DEV_REMAPPED_COR, gpu->remapped_corrected, rows, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_REMAPPED_UNC, gpu->remapped_uncorrected, rows, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_REMAPPED_PENDING, gpu->remap_pending, rows, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_REMAPPED_FAILURE, gpu->remap_failure, rows, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, (unsigned int)gpu->slowdown_margin_c, gpu->has_margin,
       NVML_VALUE_TYPE_SIGNED_INT},
      {NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, gpu->recovery_action, 1, NVML_VALUE_TYPE_UNSIGNED_INT},
      {NVML_FI_DEV_PENDING_BANK_REMAPPING, gpu->bank_remap_pending, rows, NVML_VALUE_TYPE_UNSIGNED_INT},
  };
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    if (figures[i].id == figure->id) {
      figure->value = figures[i].value;
      figure->offered = figures[i].offered;
      figure->type = figures[i].type;
      return;
    }
}

static void answer_field(const GpuState* gpu, nvmlFieldValue_t* field) {
  Figure figure = {field->fieldId, NVML_VALUE_TYPE_UNSIGNED_INT, 0, 0};
  char id[16];
  snprintf(id, sizeof id, "%u", field->fieldId);
  if (!find_link_figure(gpu, field->fieldId, field->scopeId, &figure) &&
      !find_old_link_figure(gpu, field->fieldId, &figure))
    find_figure(gpu, &figure);
  const long long told = rule_for(&gpu->field_errors, id);
  field->nvmlReturn = told ? (nvmlReturn_t)told : figure.offered ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
  field->valueType = (unsigned int)figure.type;
  field->value.ullVal = 0;
  if (field->nvmlReturn != NVML_SUCCESS) return;
  if (figure.type == NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
    field->value.ullVal = figure.value;
  else
    field->value.uiVal = (unsigned int)figure.value;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  Answer answer;
  if (!values || count <= 0) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = begin_gpu(__func__, device, &answer);
  if (result != NVML_SUCCESS) return result;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  for (int i = 0; i < count; i++) {
    values[i].timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    values[i].latencyUsec = 0;
    answer_field(&answer.gpu, &values[i]);
  }
  return NVML_SUCCESS;
}
