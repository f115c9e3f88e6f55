// Which PCI ports lie above each accelerator and network card, from where sysfs has their folders. Reads links and the
// class of each device; no driver is asked.
#pragma once

#include <string>

#include "core/fault/cause.hpp"

namespace homeostat::agent {

// sys: usually "/sys". Empty where there is no PCI. At most 4,096 devices are looked at.
fault::Topology read_topology(const std::string& sys);

}  // namespace homeostat::agent
