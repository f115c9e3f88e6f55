// Decodes the line of NVLink5 errors, Xid 144 to 150:
//   <unit> <Fatal|Nonfatal> XC<0|1> i<0|1> Link <n> (<intrInfo> <errorStatus> <debug words>)
#pragma once

#include "core/fault/finding.hpp"

namespace homeostat::fault {

// `detail`: what follows "144, " and the process's name. Fills code, severity, action, injected and title of a finding
// whose code already is the Xid's number; what cannot be decoded stays a warning.
void decode_nvlink5(std::string_view detail, Finding& finding);

}  // namespace homeostat::fault
