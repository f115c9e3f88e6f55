// Reads the link and the seven registers of Xid 74 (NVLink 1 to 4): what each set bit means, and whether all of them
// are milder than the code alone says.
#pragma once

#include <string_view>

#include "core/fault/finding.hpp"

namespace homeostat::fault {

// `detail` is what stands behind the process; `finding` already holds what the catalogue says of Xid 74.
void decode_nvlink_registers(std::string_view detail, Finding& finding);

}  // namespace homeostat::fault
