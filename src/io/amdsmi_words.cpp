#include <array>

#include "io/amdsmi_abi.hpp"
#include "io/library_words.hpp"

namespace homeostat::io::amdsmi {

namespace {

constexpr std::array meanings = {
    StatusMeaning{success, "SUCCESS", "The library answered."},
    StatusMeaning{invalid, "INVAL", "The library does not know this question or this GPU."},
    StatusMeaning{not_supported, "NOT_SUPPORTED", "This GPU does not offer the figure."},
    StatusMeaning{not_yet_implemented, "NOT_YET_IMPLEMENTED", "This version of the library does not have the figure."},
    StatusMeaning{fail_load_module, "FAIL_LOAD_MODULE", "A library that amdsmi needs is missing: install ROCm whole."},
    StatusMeaning{fail_load_symbol, "FAIL_LOAD_SYMBOL",
                  "A library that amdsmi needs is too old: install one ROCm whole."},
    StatusMeaning{drm_error, "DRM_ERROR", "libdrm could not ask the driver: make /dev/dri visible to the agent."},
    StatusMeaning{api_failed, "API_FAILED", "The driver failed: see the kernel log."},
    StatusMeaning{timeout, "TIMEOUT", "The driver gave up waiting for the GPU."},
    StatusMeaning{retry, "RETRY", "The driver is busy; it is asked again."},
    StatusMeaning{
        no_permission, "NO_PERM",
        "The answer is refused to this user: run the agent as root with /dev/kfd and /dev/dri visible to it."},
    StatusMeaning{interrupted, "INTERRUPT", "The call was interrupted; it is made again."},
    StatusMeaning{input_output, "IO", "The driver could not read from the GPU: see the kernel log."},
    StatusMeaning{file_error, "FILE_ERROR", "A file of the driver cannot be read: mount the host's /sys."},
    StatusMeaning{out_of_resources, "OUT_OF_RESOURCES", "The library ran out of memory."},
    StatusMeaning{internal_exception, "INTERNAL_EXCEPTION",
                  "The library failed within: see whether it fits the driver."},
    StatusMeaning{out_of_bounds, "INPUT_OUT_OF_BOUNDS", "The library refuses the question's range."},
    StatusMeaning{init_error, "INIT_ERROR",
                  "The library could not start: make /dev/kfd, /dev/dri and the host's /sys visible."},
    StatusMeaning{directory_not_found, "DIRECTORY_NOT_FOUND", "The driver does not have the figure's folder."},
    StatusMeaning{busy, "BUSY", "Another program is asking the GPU; it is asked again."},
    StatusMeaning{not_found, "NOT_FOUND", "The library does not find the GPU: the driver may have been loaded anew."},
    StatusMeaning{not_init, "NOT_INIT", "The library has not started; the next look starts it."},
    StatusMeaning{no_slot, "NO_SLOT", "The library has no free slot."},
    StatusMeaning{driver_not_loaded, "DRIVER_NOT_LOADED",
                  "The amdgpu driver is not loaded: load it (modprobe amdgpu)."},
    StatusMeaning{no_data, "NO_DATA", "The driver has no such data yet."},
    StatusMeaning{insufficient_size, "INSUFFICIENT_SIZE", "The answer is longer than the interface says."},
    StatusMeaning{unexpected_size, "UNEXPECTED_SIZE", "The driver gave more or less than the library expects."},
    StatusMeaning{unexpected_data, "UNEXPECTED_DATA", "The driver gave what the library does not understand."},
    StatusMeaning{file_not_found, "FILE_NOT_FOUND", "The driver does not have the figure's file."},
    StatusMeaning{setting_unavailable, "SETTING_UNAVAILABLE", "This GPU does not offer the setting."},
    StatusMeaning{corrupted_eeprom, "CORRUPTED_EEPROM", "The GPU's record of bad pages is damaged: ask the vendor."},
    StatusMeaning{map_error, "MAP_ERROR", "The library failed with a code of its own: see the kernel log."},
    StatusMeaning{unknown_error, "UNKNOWN_ERROR", "The library failed without a reason: see the kernel log."},
};

}  // namespace

std::string sentence(int status) { return status_sentence(meanings, status, "The library"); }

std::string word(int status) { return status_word(meanings, status); }

}  // namespace homeostat::io::amdsmi
