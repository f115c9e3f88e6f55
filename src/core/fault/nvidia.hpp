// NVIDIA's own line formats: Xid (GPU driver), SXid (NVSwitch driver), the fabric manager's log.
#pragma once

#include <optional>

#include "core/fault/finding.hpp"

namespace homeostat::fault {

// "NVRM: Xid (PCI:0000:05:00 GPU-I:01 GPU-CI:02): 79, pid=…, name=…, text" in all its historic forms. nullopt: not such
// a line.
std::optional<Finding> parse_xid(std::string_view text);
// "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
std::optional<Finding> parse_sxid(std::string_view text);
// "[ERROR] [tid 1] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id
// 3 port 61"
std::optional<Finding> parse_fabric_manager(std::string_view text);

}  // namespace homeostat::fault
