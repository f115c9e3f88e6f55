// The part of amdsmi's binary interface that is used here: numbers and layouts as AMD's public header states them
// (include/amd_smi/amdsmi.h). Compared: the headers of 24.6 (ROCm 6.2), 26.1 (ROCm 7.1) and 26.5 (7.13). 25.3 (ROCm
// 6.4) lies between two that agree; 27 (ROCm 10) needs no change of its callers, says its changelog. Of a structure
// only the members are declared that all of them have at the same place; the library may write past them: an answer
// goes into a Room, which is larger than any of its structures, and what is needed is copied out. A library of another
// major version is not used at all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace homeostat::io::amdsmi {

using Handle = void*;

enum Status : int {
  success = 0,
  invalid = 1,
  not_supported = 2,
  not_yet_implemented = 3,
  fail_load_module = 4,
  fail_load_symbol = 5,
  drm_error = 6,
  api_failed = 7,
  timeout = 8,
  retry = 9,
  no_permission = 10,
  interrupted = 11,
  input_output = 12,
  file_error = 14,
  out_of_resources = 15,
  internal_exception = 16,
  out_of_bounds = 17,
  init_error = 18,
  directory_not_found = 20,
  busy = 30,
  not_found = 31,
  not_init = 32,
  no_slot = 33,
  driver_not_loaded = 34,
  no_data = 40,
  insufficient_size = 41,
  unexpected_size = 42,
  unexpected_data = 43,
  file_not_found = 52,
  setting_unavailable = 55,
  corrupted_eeprom = 56,
  map_error = -2,
  unknown_error = -1,
};

constexpr std::uint64_t init_gpus = 2;
constexpr std::uint32_t memory_vram = 0;
constexpr std::uint32_t heat_hotspot = 1, heat_memory = 2;  // where
constexpr std::uint32_t heat_now = 0, heat_critical = 5;    // what

// Bit n of a mask of blocks, and the name that the driver's files give it.
inline constexpr std::array block_names = {"umc",       "sdma", "gfx",  "mmhub", "athub", "pcie_bif", "hdp",
                                           "xgmi_wafl", "df",   "smn",  "sem",   "mp0",   "mp1",      "fuse",
                                           "mca",       "vcn",  "jpeg", "ih",    "mpio"};

// 24 has the year before it: {24, 6, 2, 0}; from 25 on it is {25, 3, 0}. A pointer to text follows.
struct Version {
  std::uint32_t first, second, third;
};

// The deferred count came with 24.6; a reserved place before.
struct ErrorCount {
  std::uint64_t corrected, uncorrected, deferred;
};

struct RetiredPage {
  std::uint64_t address, size;
  std::uint32_t status;  // 0 reserved, 1 pending, 2 cannot be reserved
};
static_assert(sizeof(RetiredPage) == 24);

struct PcieInfo {
  struct {
    std::uint16_t lanes_max;
    std::uint32_t speed_max, interface_version, slot;
    std::uint64_t reserved[10];
  } fixed;
  struct {
    std::uint16_t lanes;
    std::uint32_t speed_mts, bandwidth;
    std::uint64_t replays;
  } now;
};
static_assert(offsetof(PcieInfo, now) == 96 && sizeof(PcieInfo) == 120);

// Watts; the first is there from 26 on.
struct PowerInfo24 {
  std::uint32_t current_w, average_w;
};
struct PowerInfo26 {
  std::uint64_t socket_w;
  std::uint32_t current_w, average_w;
};

// Compared in 26 only.
struct Violations {
  std::uint64_t reference_us, at_ns, cycles, hot_processor, power, hot_socket, hot_regulator, hot_memory;
};

// Where the library may write: more than twice its largest structure (violations of 26: 6.2 KiB). All ones before the
// call: what is so afterwards was not answered.
class Room {
 public:
  void* fresh() {
    bytes_.fill(0xff);
    return bytes_.data();
  }
  template <class Struct>
  Struct as() const {
    static_assert(sizeof(Struct) <= sizeof(bytes_));
    Struct value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }
  // Text at its beginning, up to `longest`.
  std::string text(std::size_t longest) const {
    std::string out;
    for (const auto byte : bytes_) {
      if (byte < 0x20 || byte > 0x7e || out.size() >= longest) break;
      out.push_back(static_cast<char>(byte));
    }
    return out;
  }

 private:
  alignas(16) std::array<unsigned char, 16384> bytes_{};
};

// A function of the library by its name; `call` is null where the library lacks it.
template <class... Arguments>
struct Function {
  const char* name;
  int (*call)(Arguments...) = nullptr;
};

struct Functions {
  Function<std::uint64_t> init{"amdsmi_init"};
  Function<> shut_down{"amdsmi_shut_down"};
  Function<void*> version{"amdsmi_get_lib_version"};
  // By value: function 3 bits, device 5, bus 8, domain 48, from the lowest on.
  Function<std::uint64_t, Handle*> handle_from_bdf{"amdsmi_get_processor_handle_from_bdf"};
  Function<Handle, unsigned*, char*> uuid{"amdsmi_get_gpu_device_uuid"};
  Function<Handle, void*> asic_info{"amdsmi_get_gpu_asic_info"};      // begins with the market name
  Function<Handle, void*> driver_info{"amdsmi_get_gpu_driver_info"};  // begins with the version
  Function<Handle, std::uint64_t*> ecc_enabled{"amdsmi_get_gpu_ecc_enabled"};
  Function<Handle, std::uint64_t, void*> ecc_count{"amdsmi_get_gpu_ecc_count"};
  Function<Handle, void*> total_ecc{"amdsmi_get_gpu_total_ecc_count"};
  Function<Handle, std::uint32_t*, RetiredPage*> bad_pages{"amdsmi_get_gpu_bad_page_info"};
  Function<Handle, std::uint32_t*> bad_page_threshold{"amdsmi_get_gpu_bad_page_threshold"};
  Function<Handle, void*> violations{"amdsmi_get_violation_status"};
  Function<Handle, void*> pcie_info{"amdsmi_get_pcie_info"};
  Function<Handle, void*> power_info{"amdsmi_get_power_info"};
  Function<Handle, std::uint32_t, std::uint32_t, std::int64_t*> heat{"amdsmi_get_temp_metric"};
  Function<Handle, std::uint32_t, std::uint64_t*> memory_total{"amdsmi_get_gpu_memory_total"};
  Function<Handle, std::uint32_t, std::uint64_t*> memory_used{"amdsmi_get_gpu_memory_usage"};
  Function<Handle, char*, std::uint32_t> compute_partition{"amdsmi_get_gpu_compute_partition"};
  Function<Handle, char*, std::uint32_t> memory_partition{"amdsmi_get_gpu_memory_partition"};
};

std::string word(int status);      // "NO_PERM"
std::string sentence(int status);  // what it means and what to do

}  // namespace homeostat::io::amdsmi
