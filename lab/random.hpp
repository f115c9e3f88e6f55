// Unpredictable texts from the kernel: tokens and identifiers of the lab.
#pragma once

#include <string>

namespace homeostat::lab {

std::string random_hex(int bytes);
std::string random_uuid();  // version 4

}  // namespace homeostat::lab
