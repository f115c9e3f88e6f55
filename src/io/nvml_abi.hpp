// The part of NVML's binary interface that is used here: numbers and layouts as NVIDIA's public NVML API reference
// (docs.nvidia.com/deploy/nvml-api) states them. A versioned struct carries its size and version in its first member:
// size | version << 24.
#pragma once

#include <cstdint>
#include <string>

namespace homeostat::io::nvml {

using Handle = struct OpaqueDevice*;

enum Code : int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  already_initialized = 5,
  not_found = 6,
  insufficient_size = 7,
  insufficient_power = 8,
  driver_not_loaded = 9,
  timeout = 10,
  irq_issue = 11,
  library_not_found = 12,
  function_not_found = 13,
  corrupted_inforom = 14,
  gpu_is_lost = 15,
  reset_required = 16,
  operating_system = 17,
  lib_rm_version_mismatch = 18,
  in_use = 19,
  memory = 20,
  no_data = 21,
  vgpu_ecc_not_supported = 22,
  insufficient_resources = 23,
  freq_not_supported = 24,
  argument_version_mismatch = 25,
  deprecated = 26,
  not_ready = 27,
  gpu_not_found = 28,
  invalid_state = 29,
  unknown = 999,
};

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct Utilization {
  unsigned gpu, memory;  // per cent
};

struct Memory {
  unsigned long long total, free, used;  // bytes
};
static_assert(sizeof(Memory) == 24);

struct RowRemapperHistogram {
  unsigned max, high, partial, low, none;
};
static_assert(sizeof(RowRemapperHistogram) == 20);

enum ValueType : unsigned {
  type_double = 0,
  type_unsigned_int = 1,
  type_unsigned_long = 2,
  type_unsigned_long_long = 3,
  type_signed_long_long = 4,
  type_signed_int = 5,
  type_unsigned_short = 6,
};

union Value {
  double number;
  int i32;
  unsigned u32;
  unsigned long ul;
  unsigned long long u64;
  long long i64;
  unsigned short u16;
};

struct FieldValue {
  unsigned field_id, scope_id;
  long long timestamp_us, latency_us;
  unsigned value_type;
  int result;
  Value value;
};
static_assert(sizeof(FieldValue) == 40);

struct GpuFabricInfoV2 {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique_id;
  unsigned char state;
  std::uint32_t health_mask;
};
static_assert(sizeof(GpuFabricInfoV2) == 36);
constexpr unsigned gpu_fabric_info_v2 = sizeof(GpuFabricInfoV2) | 2u << 24;

struct SramEccStatusV1 {
  unsigned version;
  unsigned long long aggregate_parity, aggregate_sec_ded, aggregate_corrected;
  unsigned long long volatile_parity, volatile_sec_ded, volatile_corrected;
  unsigned long long bucket_l2, bucket_sm, bucket_pcie, bucket_mcu, bucket_other;  // aggregate, uncorrected
  unsigned threshold_exceeded;
};
static_assert(sizeof(SramEccStatusV1) == 104);
constexpr unsigned sram_ecc_status_v1 = sizeof(SramEccStatusV1) | 1u << 24;

struct MarginTemperatureV1 {
  unsigned version;
  int margin_c;
};
static_assert(sizeof(MarginTemperatureV1) == 8);
constexpr unsigned margin_temperature_v1 = sizeof(MarginTemperatureV1) | 1u << 24;

enum { ecc_corrected_type = 0, ecc_uncorrected_type = 1, ecc_volatile = 0, ecc_aggregate = 1 };
enum { clock_sm = 1, sensor_gpu = 0, threshold_slowdown = 1, threshold_memory_max = 2 };
enum { retired_multiple_single_bit = 0, retired_double_bit = 1 };
enum { nvlink_replay = 0, nvlink_recovery = 1, nvlink_crc_flit = 2, nvlink_crc_data = 3 };

// Field ids. Those marked (link) take the number of the link as their scope.
enum Field : unsigned {
  field_ecc_corrected_volatile = 3,
  field_ecc_uncorrected_volatile = 4,
  field_ecc_corrected_aggregate = 5,
  field_ecc_uncorrected_aggregate = 6,
  field_retired_single = 29,
  field_retired_double = 30,
  field_retired_pending = 31,
  field_crc_flit_l0 = 32,  // these four count per link: links 0 to 5 here, links 6 to 11 at the _l6 ids
  field_crc_data_l0 = 39,
  field_replay_l0 = 46,
  field_recovery_l0 = 53,
  field_memory_temperature = 82,
  field_nvlink_count = 91,
  field_pcie_replays = 94,
  field_crc_flit_l6 = 96,
  field_crc_data_l6 = 102,
  field_replay_l6 = 108,
  field_recovery_l6 = 114,
  field_remapped_corrected = 142,
  field_remapped_uncorrected = 143,
  field_remapped_pending = 144,
  field_remapped_failure = 145,
  field_nvlink_replay = 161,    // (link) Hopper
  field_nvlink_recovery = 162,  // (link)
  field_nvlink_crc = 163,       // (link)
  field_nvlink_state = 165,     // (link) 1: active
  field_slowdown_margin = 194,
  field_nvlink5_receive_errors = 208,    // (link) Blackwell
  field_nvlink5_unrecovered = 214,       // (link)
  field_nvlink5_recoveries = 215,        // (link)
  field_nvlink5_effective_errors = 219,  // (link)
  field_recovery_action = 230,
  field_bank_remap_pending = 307,
};

// Every function that is called. The first five exist since NVML 11 and must be there; each of the others may be
// missing in an old library (nullptr).
struct Functions {
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle_by_index)(unsigned, Handle*) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*pci_info)(Handle, PciInfo*) = nullptr;

  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*field_values)(Handle, int, FieldValue*) = nullptr;
  int (*total_ecc)(Handle, int, int, unsigned long long*) = nullptr;
  int (*sram_ecc)(Handle, SramEccStatusV1*) = nullptr;
  int (*remapped_rows)(Handle, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  int (*remap_histogram)(Handle, RowRemapperHistogram*) = nullptr;
  int (*retired_pages)(Handle, int, unsigned*, unsigned long long*) = nullptr;
  int (*retired_pending)(Handle, int*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*temperature_threshold)(Handle, int, unsigned*) = nullptr;
  int (*margin_temperature)(Handle, MarginTemperatureV1*) = nullptr;
  int (*power_usage)(Handle, unsigned*) = nullptr;
  int (*utilization)(Handle, Utilization*) = nullptr;
  int (*memory_info)(Handle, Memory*) = nullptr;
  int (*clock_info)(Handle, int, unsigned*) = nullptr;
  int (*max_clock_info)(Handle, int, unsigned*) = nullptr;
  int (*event_reasons)(Handle, unsigned long long*) = nullptr;  // under its old name in older libraries
  int (*pcie_generation)(Handle, unsigned*) = nullptr;
  int (*pcie_generation_max)(Handle, unsigned*) = nullptr;
  int (*pcie_width)(Handle, unsigned*) = nullptr;
  int (*pcie_width_max)(Handle, unsigned*) = nullptr;
  int (*pcie_replays)(Handle, unsigned*) = nullptr;
  int (*mig_mode)(Handle, unsigned*, unsigned*) = nullptr;
  int (*fabric_info)(Handle, GpuFabricInfoV2*) = nullptr;
  int (*nvlink_state)(Handle, unsigned, int*) = nullptr;
  int (*nvlink_errors)(Handle, unsigned, int, unsigned long long*) = nullptr;
};

// What a code means for the reader of a report and what to do, as a sentence.
std::string sentence(int code);
// The code's name without its prefix: "GPU_IS_LOST".
std::string word(int code);

}  // namespace homeostat::io::nvml
