#include "io/amdsmi_abi.hpp"

namespace homeostat::io::amdsmi {

namespace {

struct Meaning {
  int status;
  const char* word;
  const char* sentence;
};

constexpr std::array meanings = {
    Meaning{success, "SUCCESS", "The library answered."},
    Meaning{invalid, "INVAL", "The library does not know this question or this GPU."},
    Meaning{not_supported, "NOT_SUPPORTED", "This GPU does not offer the figure."},
    Meaning{not_yet_implemented, "NOT_YET_IMPLEMENTED", "This version of the library does not have the figure."},
    Meaning{fail_load_module, "FAIL_LOAD_MODULE", "A library that amdsmi needs is missing: install ROCm whole."},
    Meaning{fail_load_symbol, "FAIL_LOAD_SYMBOL", "A library that amdsmi needs is too old: install one ROCm whole."},
    Meaning{drm_error, "DRM_ERROR", "libdrm could not ask the driver: make /dev/dri visible to the agent."},
    Meaning{api_failed, "API_FAILED", "The driver failed: see the kernel log."},
    Meaning{timeout, "TIMEOUT", "The driver gave up waiting for the GPU."},
    Meaning{retry, "RETRY", "The driver is busy; it is asked again."},
    Meaning{no_permission, "NO_PERM",
            "The answer is refused to this user: run the agent as root with /dev/kfd and /dev/dri visible to it."},
    Meaning{interrupted, "INTERRUPT", "The call was interrupted; it is made again."},
    Meaning{input_output, "IO", "The driver could not read from the GPU: see the kernel log."},
    Meaning{file_error, "FILE_ERROR", "A file of the driver cannot be read: mount the host's /sys."},
    Meaning{out_of_resources, "OUT_OF_RESOURCES", "The library ran out of memory."},
    Meaning{internal_exception, "INTERNAL_EXCEPTION", "The library failed within: see whether it fits the driver."},
    Meaning{out_of_bounds, "INPUT_OUT_OF_BOUNDS", "The library refuses the question's range."},
    Meaning{init_error, "INIT_ERROR",
            "The library could not start: make /dev/kfd, /dev/dri and the host's /sys visible."},
    Meaning{directory_not_found, "DIRECTORY_NOT_FOUND", "The driver does not have the figure's folder."},
    Meaning{busy, "BUSY", "Another program is asking the GPU; it is asked again."},
    Meaning{not_found, "NOT_FOUND", "The library does not find the GPU: the driver may have been loaded anew."},
    Meaning{not_init, "NOT_INIT", "The library has not started; the next look starts it."},
    Meaning{no_slot, "NO_SLOT", "The library has no free slot."},
    Meaning{driver_not_loaded, "DRIVER_NOT_LOADED", "The amdgpu driver is not loaded: load it (modprobe amdgpu)."},
    Meaning{no_data, "NO_DATA", "The driver has no such data yet."},
    Meaning{insufficient_size, "INSUFFICIENT_SIZE", "The answer is longer than the interface says."},
    Meaning{unexpected_size, "UNEXPECTED_SIZE", "The driver gave more or less than the library expects."},
    Meaning{unexpected_data, "UNEXPECTED_DATA", "The driver gave what the library does not understand."},
    Meaning{file_not_found, "FILE_NOT_FOUND", "The driver does not have the figure's file."},
    Meaning{setting_unavailable, "SETTING_UNAVAILABLE", "This GPU does not offer the setting."},
    Meaning{corrupted_eeprom, "CORRUPTED_EEPROM", "The GPU's record of bad pages is damaged: ask the vendor."},
    Meaning{map_error, "MAP_ERROR", "The library failed with a code of its own: see the kernel log."},
    Meaning{unknown_error, "UNKNOWN_ERROR", "The library failed without a reason: see the kernel log."},
};

const Meaning* find(int status) {
  for (const auto& meaning : meanings)
    if (meaning.status == status) return &meaning;
  return nullptr;
}

}  // namespace

std::string sentence(int status) {
  if (const auto* meaning = find(status)) return meaning->sentence;
  return "The library answered with the unknown code " + std::to_string(status) + ".";
}

std::string word(int status) {
  if (const auto* meaning = find(status)) return meaning->word;
  return std::to_string(status);
}

}  // namespace homeostat::io::amdsmi
