// Every finding that the sysfs sensors can make. catalog/counters.tsv explains the same rows to people, one for one (a
// test holds that), so that what the code does and what `explain` says cannot part. Immutable.
#pragma once

#include <string>
#include <string_view>

#include "core/fault/finding.hpp"

namespace homeostat::fault {

struct CounterCode {
  std::string_view component, code;
  Severity severity = Severity::none;
  std::string_view action;  // catalog/actions.tsv; "" leaves the class to the severity
};

namespace counter_codes {

using enum Severity;

inline constexpr CounterCode
    // InfiniBand and RoCE ports.
    ib_down{"infiniband", "LINK_DOWN", warn, ""},
    ib_down_lasting{"infiniband", "LINK_DOWN", error, "CORDON"},
    ib_not_active{"infiniband", "LINK_NOT_ACTIVE", warn, ""},
    ib_not_active_lasting{"infiniband", "LINK_NOT_ACTIVE", error, "CORDON"},
    ib_flapping{"infiniband", "LINK_FLAPPING", error, "CORDON"}, ib_rate{"infiniband", "RATE_REDUCED", error, "CORDON"},
    ib_recovery{"infiniband", "LINK_RECOVERY", warn, ""},
    ib_symbols{"infiniband", "SYMBOL_ERRORS", warn, "CHECK_MECHANICALS"},
    ib_rcv{"infiniband", "RECEIVE_ERRORS", warn, "CHECK_MECHANICALS"},
    ib_integrity{"infiniband", "LINK_INTEGRITY", warn, "CHECK_MECHANICALS"},
    ib_overrun{"infiniband", "BUFFER_OVERRUN", warn, ""}, ib_vanishing{"infiniband", "DEVICE_GONE", warn, ""},
    ib_gone{"infiniband", "DEVICE_GONE", fatal, "REPLACE_VM"}, ib_unreadable{"infiniband", "NO_ANSWER", error, ""},
    // Ethernet ports.
    eth_down{"ethernet", "LINK_DOWN", warn, ""}, eth_down_lasting{"ethernet", "LINK_DOWN", error, "CORDON"},
    eth_flapping_minor{"ethernet", "LINK_FLAPPING", warn, ""},
    eth_flapping{"ethernet", "LINK_FLAPPING", error, "CORDON"}, eth_speed_minor{"ethernet", "SPEED_REDUCED", warn, ""},
    eth_speed{"ethernet", "SPEED_REDUCED", error, "CORDON"},
    eth_duplex{"ethernet", "HALF_DUPLEX", warn, "CHECK_MECHANICALS"},
    eth_errors{"ethernet", "RECEIVE_ERRORS", warn, "CHECK_MECHANICALS"},
    eth_vanishing{"ethernet", "DEVICE_GONE", warn, ""}, eth_gone{"ethernet", "DEVICE_GONE", fatal, "REPLACE_VM"},
    eth_unreadable{"ethernet", "NO_ANSWER", error, ""},
    // PCI Express.
    pcie_correctable{"pcie-counters", "AER_CORRECTABLE", warn, ""},
    pcie_correctable_storm{"pcie-counters", "AER_CORRECTABLE", error, ""},
    pcie_nonfatal{"pcie-counters", "AER_NONFATAL", warn, ""},
    pcie_nonfatal_often{"pcie-counters", "AER_NONFATAL", error, "CORDON"},
    pcie_fatal{"pcie-counters", "AER_FATAL", error, "CORDON"},
    pcie_width{"pcie-counters", "WIDTH_REDUCED", error, "CORDON"},
    pcie_width_since_boot{"pcie-counters", "WIDTH_REDUCED", warn, "CHECK_MECHANICALS"},
    pcie_speed{"pcie-counters", "SPEED_REDUCED", error, "CORDON"},
    pcie_speed_since_boot{"pcie-counters", "SPEED_REDUCED", warn, "CHECK_MECHANICALS"},
    pcie_unreadable{"pcie-counters", "NO_ANSWER", warn, ""},
    // Memory.
    memory_ce{"memory-counters", "CORRECTED_RATE", warn, ""},
    memory_ue{"memory-counters", "UNCORRECTED", error, "CORDON"},
    memory_unreadable{"memory-counters", "NO_ANSWER", warn, ""},
    // Disks and filesystems.
    nvme_busy{"disk-counters", "NVME_NOT_LIVE", warn, ""},
    nvme_stuck{"disk-counters", "NVME_NOT_LIVE", error, "CORDON"},
    nvme_dead{"disk-counters", "NVME_DEAD", fatal, "REPLACE_VM"},
    nvme_gone{"disk-counters", "NVME_GONE", error, "CORDON"},
    disk_stalled{"disk-counters", "IO_STALLED", error, "CORDON"},
    disk_read_only{"disk-counters", "READ_ONLY", error, "CORDON"}, disk_fs_old{"disk-counters", "FS_ERRORS", warn, ""},
    disk_fs_new{"disk-counters", "FS_ERRORS", error, "CORDON"}, disk_raid{"disk-counters", "RAID_DEGRADED", warn, ""},
    disk_unreadable{"disk-counters", "NO_ANSWER", warn, ""},
    // AMD GPUs.
    amd_missing{"amd-counters", "GPU_MISSING", fatal, "RESTART_BM"},
    amd_lost{"amd-counters", "GPU_LOST", fatal, "RESTART_BM"}, amd_unreadable{"amd-counters", "NO_ANSWER", error, ""},
    amd_ue{"amd-counters", "RAS_UE", fatal, "RESET_GPU"}, amd_ue_old{"amd-counters", "RAS_UE", warn, ""},
    amd_de{"amd-counters", "RAS_DE", warn, ""}, amd_ce{"amd-counters", "RAS_CE", warn, ""},
    amd_pages{"amd-counters", "BAD_PAGES", warn, ""},
    amd_pages_failed{"amd-counters", "BAD_PAGE_UNRESERVED", error, "RESET_GPU"},
    amd_pages_full{"amd-counters", "BAD_PAGE_THRESHOLD", error, "RMA"},
    amd_ecc_off{"amd-counters", "ECC_OFF", warn, ""}, amd_mixed{"amd-counters", "PARTITION_MIXED", info, ""},
    amd_xgmi{"amd-counters", "XGMI_ERROR", warn, ""}, amd_xgmi_down{"amd-counters", "XGMI_LINK_DOWN", error, "CORDON"},
    amd_throttled{"amd-counters", "THERMAL_THROTTLE", warn, "CHECK_COOLING"},
    amd_hot{"amd-counters", "TEMPERATURE", error, "CHECK_COOLING"}, amd_replay{"amd-counters", "PCIE_REPLAY", warn, ""};

inline constexpr const CounterCode* all[] = {&ib_down,
                                             &ib_down_lasting,
                                             &ib_not_active,
                                             &ib_not_active_lasting,
                                             &ib_flapping,
                                             &ib_rate,
                                             &ib_recovery,
                                             &ib_symbols,
                                             &ib_rcv,
                                             &ib_integrity,
                                             &ib_overrun,
                                             &ib_vanishing,
                                             &ib_gone,
                                             &ib_unreadable,
                                             &eth_down,
                                             &eth_down_lasting,
                                             &eth_flapping_minor,
                                             &eth_flapping,
                                             &eth_speed_minor,
                                             &eth_speed,
                                             &eth_duplex,
                                             &eth_errors,
                                             &eth_vanishing,
                                             &eth_gone,
                                             &eth_unreadable,
                                             &pcie_correctable,
                                             &pcie_correctable_storm,
                                             &pcie_nonfatal,
                                             &pcie_nonfatal_often,
                                             &pcie_fatal,
                                             &pcie_width,
                                             &pcie_width_since_boot,
                                             &pcie_speed,
                                             &pcie_speed_since_boot,
                                             &pcie_unreadable,
                                             &memory_ce,
                                             &memory_ue,
                                             &memory_unreadable,
                                             &nvme_busy,
                                             &nvme_stuck,
                                             &nvme_dead,
                                             &nvme_gone,
                                             &disk_stalled,
                                             &disk_read_only,
                                             &disk_fs_old,
                                             &disk_fs_new,
                                             &disk_raid,
                                             &disk_unreadable,
                                             &amd_missing,
                                             &amd_lost,
                                             &amd_unreadable,
                                             &amd_ue,
                                             &amd_ue_old,
                                             &amd_de,
                                             &amd_ce,
                                             &amd_pages,
                                             &amd_pages_failed,
                                             &amd_pages_full,
                                             &amd_ecc_off,
                                             &amd_mixed,
                                             &amd_xgmi,
                                             &amd_xgmi_down,
                                             &amd_throttled,
                                             &amd_hot,
                                             &amd_replay};

}  // namespace counter_codes

// `part` tells apart what shares a device: the code becomes "LINK_DOWN/2" (a policy rule for LINK_DOWN covers it).
Finding counter_finding(const CounterCode& code, std::string_view device, std::string title,
                        std::string_view part = "");

}  // namespace homeostat::fault
