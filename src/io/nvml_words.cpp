#include <array>

#include "io/library_words.hpp"
#include "io/nvml_abi.hpp"

namespace homeostat::io::nvml {

namespace {

constexpr std::array meanings = {
    StatusMeaning{success, "SUCCESS", "The driver answered."},
    StatusMeaning{uninitialized, "UNINITIALIZED",
                  "The library has lost its session with the driver; the next look opens one."},
    StatusMeaning{invalid_argument, "INVALID_ARGUMENT", "The driver does not know this question or this GPU."},
    StatusMeaning{not_supported, "NOT_SUPPORTED", "This GPU does not offer the figure."},
    StatusMeaning{
        no_permission, "NO_PERMISSION",
        "The driver refuses the answer to this user: run the agent as root with the GPU devices visible to it."},
    StatusMeaning{not_found, "NOT_FOUND", "The driver does not find what was asked for."},
    StatusMeaning{insufficient_size, "INSUFFICIENT_SIZE", "The driver's answer is longer than its interface says."},
    StatusMeaning{insufficient_power, "INSUFFICIENT_POWER",
                  "The GPU's external power cables are not properly attached: check the cabling."},
    StatusMeaning{
        driver_not_loaded, "DRIVER_NOT_LOADED",
        "The NVIDIA driver is not loaded: load it (modprobe nvidia) or see the kernel log for why it failed."},
    StatusMeaning{timeout, "TIMEOUT", "The driver gave up waiting for the GPU."},
    StatusMeaning{irq_issue, "IRQ_ISSUE", "The driver has a problem with an interrupt of the GPU: see the kernel log."},
    StatusMeaning{library_not_found, "LIBRARY_NOT_FOUND",
                  "A library of the driver is missing: install the driver's user-space part whole."},
    StatusMeaning{function_not_found, "FUNCTION_NOT_FOUND", "This version of the library does not have the function."},
    StatusMeaning{corrupted_inforom, "CORRUPTED_INFOROM",
                  "The GPU's InfoROM is corrupted: its error history cannot be trusted; ask the vendor."},
    StatusMeaning{gpu_is_lost, "GPU_IS_LOST", "The GPU has fallen off the bus or is otherwise unreachable."},
    StatusMeaning{reset_required, "RESET_REQUIRED", "The GPU must be reset before it answers again."},
    StatusMeaning{operating_system, "OPERATING_SYSTEM",
                  "The operating system blocked the request: look for a cgroup or an LSM that hides the GPU devices."},
    StatusMeaning{
        lib_rm_version_mismatch, "LIB_RM_VERSION_MISMATCH",
        "The loaded driver and the installed library differ in version, as after an update without a reboot: reload "
        "the driver or reboot the node."},
    StatusMeaning{in_use, "IN_USE", "The GPU is held by another operation, such as a reset, and cannot be asked now."},
    StatusMeaning{memory, "MEMORY", "The library ran out of memory."},
    StatusMeaning{no_data, "NO_DATA", "The driver has no such data yet."},
    StatusMeaning{vgpu_ecc_not_supported, "VGPU_ECC_NOT_SUPPORTED", "The virtual GPU does not offer error counts."},
    StatusMeaning{insufficient_resources, "INSUFFICIENT_RESOURCES",
                  "The driver ran out of a resource other than memory."},
    StatusMeaning{argument_version_mismatch, "ARGUMENT_VERSION_MISMATCH",
                  "The library knows another version of the answer's layout."},
    StatusMeaning{deprecated, "DEPRECATED", "The library no longer answers this question."},
    StatusMeaning{not_ready, "NOT_READY", "The driver is not ready for this question yet."},
    StatusMeaning{gpu_not_found, "GPU_NOT_FOUND", "No GPU was found."},
    StatusMeaning{invalid_state, "INVALID_STATE", "The GPU is in a state in which it cannot be asked."},
    StatusMeaning{unknown, "UNKNOWN", "The driver failed without a reason: see the kernel log."},
};

}  // namespace

std::string sentence(int code) { return status_sentence(meanings, code, "The driver"); }

std::string word(int code) { return status_word(meanings, code); }

}  // namespace homeostat::io::nvml
