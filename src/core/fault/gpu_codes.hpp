// Every finding of component gpu-nvml. catalog/gpu.tsv explains the same rows to people, one for one (a test holds
// that). Immutable.
#pragma once

#include "core/fault/counter_codes.hpp"

namespace homeostat::fault::gpu_codes {

inline constexpr std::string_view component = "gpu-nvml";

using enum Severity;

inline constexpr CounterCode
    // The GPU as a whole.
    missing{component, "GPU_MISSING", fatal, ""},
    none_there{component, "NO_GPUS", error, ""}, lost{component, "LOST", fatal, "RESTART_BM"},
    needs_reset{component, "RESET_REQUIRED", fatal, "RESET_GPU"}, no_answer{component, "NO_ANSWER", error, ""},
    unreadable{component, "UNREADABLE", warn, ""},
    // What the driver itself asks for: Xid 154's values (a test holds them to catalog/xid.tsv).
    recover_reset{component, "RECOVERY_ACTION", fatal, "RESET_GPU"},
    recover_reboot{component, "RECOVERY_ACTION", fatal, "RESTART_BM"},
    recover_drain_p2p{component, "RECOVERY_ACTION", error, "DRAIN_P2P"},
    recover_drain_reset{component, "RECOVERY_ACTION", fatal, "DRAIN_AND_RESET"},
    recover_imex{component, "RECOVERY_ACTION", error, "RECOVER_IMEX"},
    recover_bus_reset{component, "RECOVERY_ACTION", fatal, "BUS_RESET"},
    recover_unknown{component, "RECOVERY_ACTION", warn, ""},
    // Memory.
    ecc_new{component, "ECC_UNCORRECTED", error, ""}, ecc_old{component, "ECC_UNCORRECTED", warn, ""},
    ecc_corrected{component, "ECC_CORRECTED_RATE", warn, ""}, sram{component, "SRAM_THRESHOLD", error, "RMA"},
    row_failed{component, "ROW_REMAP_FAILED", error, "RMA"},
    row_pending{component, "ROW_REMAP_PENDING", warn, "CORDON"},
    bank_pending{component, "BANK_REMAP_PENDING", warn, "CORDON"},
    row_exhausted{component, "ROW_REMAP_EXHAUSTED", warn, ""}, pages_retired{component, "PAGES_RETIRED", error, "RMA"},
    page_pending{component, "PAGE_RETIREMENT_PENDING", warn, "CORDON"},
    // Heat, power, clocks.
    hw_thermal{component, "THROTTLE_HW_THERMAL", error, "CHECK_COOLING"},
    sw_thermal{component, "THROTTLE_SW_THERMAL", warn, "CHECK_COOLING"},
    power_brake{component, "THROTTLE_POWER_BRAKE", error, ""}, hw_slowdown{component, "THROTTLE_HW", error, ""},
    hot{component, "TEMPERATURE", error, "CHECK_COOLING"},
    memory_hot{component, "MEMORY_TEMPERATURE", error, "CHECK_COOLING"}, slow_clock{component, "SLOW_CLOCK", error, ""},
    // PCI Express.
    narrow{component, "PCIE_WIDTH", error, "CORDON"}, narrow_always{component, "PCIE_WIDTH", warn, ""},
    slow_link{component, "PCIE_GENERATION", error, ""}, replays{component, "PCIE_REPLAYS", warn, ""},
    // NVLink and what is behind it.
    link_down{component, "NVLINK_DOWN", error, "CORDON"}, links_fewer{component, "NVLINK_DOWN", warn, ""},
    link_errors{component, "NVLINK_ERRORS", error, ""}, link_errors_some{component, "NVLINK_ERRORS", warn, ""},
    fabric_waits{component, "FABRIC_NOT_READY", error, "CORDON"},
    fabric_failed{component, "FABRIC_FAILED", error, "CORDON"},
    fabric_degraded{component, "FABRIC_DEGRADED", error, "CORDON"}, mig_waits{component, "MIG_PENDING", info, "IGNORE"};

inline constexpr const CounterCode* all[] = {&missing,
                                             &none_there,
                                             &lost,
                                             &needs_reset,
                                             &no_answer,
                                             &unreadable,
                                             &recover_reset,
                                             &recover_reboot,
                                             &recover_drain_p2p,
                                             &recover_drain_reset,
                                             &recover_imex,
                                             &recover_bus_reset,
                                             &recover_unknown,
                                             &ecc_new,
                                             &ecc_old,
                                             &ecc_corrected,
                                             &sram,
                                             &row_failed,
                                             &row_pending,
                                             &bank_pending,
                                             &row_exhausted,
                                             &pages_retired,
                                             &page_pending,
                                             &hw_thermal,
                                             &sw_thermal,
                                             &power_brake,
                                             &hw_slowdown,
                                             &hot,
                                             &memory_hot,
                                             &slow_clock,
                                             &narrow,
                                             &narrow_always,
                                             &slow_link,
                                             &replays,
                                             &link_down,
                                             &links_fewer,
                                             &link_errors,
                                             &link_errors_some,
                                             &fabric_waits,
                                             &fabric_failed,
                                             &fabric_degraded,
                                             &mig_waits};

}  // namespace homeostat::fault::gpu_codes
