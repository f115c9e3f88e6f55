#include <array>

#include "io/nvml_abi.hpp"

namespace homeostat::io::nvml {

namespace {

struct Meaning {
  int code;
  const char* word;
  const char* sentence;
};

constexpr std::array meanings = {
    Meaning{success, "SUCCESS", "The driver answered."},
    Meaning{uninitialized, "UNINITIALIZED",
            "The library has lost its session with the driver; the next look opens one."},
    Meaning{invalid_argument, "INVALID_ARGUMENT", "The driver does not know this question or this GPU."},
    Meaning{not_supported, "NOT_SUPPORTED", "This GPU does not offer the figure."},
    Meaning{no_permission, "NO_PERMISSION",
            "The driver refuses the answer to this user: run the agent as root with the GPU devices visible to it."},
    Meaning{not_found, "NOT_FOUND", "The driver does not find what was asked for."},
    Meaning{insufficient_size, "INSUFFICIENT_SIZE", "The driver's answer is longer than its interface says."},
    Meaning{insufficient_power, "INSUFFICIENT_POWER",
            "The GPU's external power cables are not properly attached: check the cabling."},
    Meaning{driver_not_loaded, "DRIVER_NOT_LOADED",
            "The NVIDIA driver is not loaded: load it (modprobe nvidia) or see the kernel log for why it failed."},
    Meaning{timeout, "TIMEOUT", "The driver gave up waiting for the GPU."},
    Meaning{irq_issue, "IRQ_ISSUE", "The driver has a problem with an interrupt of the GPU: see the kernel log."},
    Meaning{library_not_found, "LIBRARY_NOT_FOUND",
            "A library of the driver is missing: install the driver's user-space part whole."},
    Meaning{function_not_found, "FUNCTION_NOT_FOUND", "This version of the library does not have the function."},
    Meaning{corrupted_inforom, "CORRUPTED_INFOROM",
            "The GPU's InfoROM is corrupted: its error history cannot be trusted; ask the vendor."},
    Meaning{gpu_is_lost, "GPU_IS_LOST", "The GPU has fallen off the bus or is otherwise unreachable."},
    Meaning{reset_required, "RESET_REQUIRED", "The GPU must be reset before it answers again."},
    Meaning{operating_system, "OPERATING_SYSTEM",
            "The operating system blocked the request: look for a cgroup or an LSM that hides the GPU devices."},
    Meaning{
        lib_rm_version_mismatch, "LIB_RM_VERSION_MISMATCH",
        "The loaded driver and the installed library differ in version, as after an update without a reboot: reload "
        "the driver or reboot the node."},
    Meaning{in_use, "IN_USE", "The GPU is held by another operation, such as a reset, and cannot be asked now."},
    Meaning{memory, "MEMORY", "The library ran out of memory."},
    Meaning{no_data, "NO_DATA", "The driver has no such data yet."},
    Meaning{vgpu_ecc_not_supported, "VGPU_ECC_NOT_SUPPORTED", "The virtual GPU does not offer error counts."},
    Meaning{insufficient_resources, "INSUFFICIENT_RESOURCES", "The driver ran out of a resource other than memory."},
    Meaning{argument_version_mismatch, "ARGUMENT_VERSION_MISMATCH",
            "The library knows another version of the answer's layout."},
    Meaning{deprecated, "DEPRECATED", "The library no longer answers this question."},
    Meaning{not_ready, "NOT_READY", "The driver is not ready for this question yet."},
    Meaning{gpu_not_found, "GPU_NOT_FOUND", "No GPU was found."},
    Meaning{invalid_state, "INVALID_STATE", "The GPU is in a state in which it cannot be asked."},
    Meaning{unknown, "UNKNOWN", "The driver failed without a reason: see the kernel log."},
};

const Meaning* find(int code) {
  for (const auto& meaning : meanings)
    if (meaning.code == code) return &meaning;
  return nullptr;
}

}  // namespace

std::string sentence(int code) {
  if (const auto* meaning = find(code)) return meaning->sentence;
  return "The driver answered with the unknown code " + std::to_string(code) + ".";
}

std::string word(int code) {
  if (const auto* meaning = find(code)) return meaning->word;
  return std::to_string(code);
}

}  // namespace homeostat::io::nvml
