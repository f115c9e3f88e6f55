// The first process of a zone: `homeostat-lab zone-init SPEC`. It enters the zone's namespaces, starts the zone's
// programs, restarts those that end, keeps their logs within bounds and reaps orphans. Killing it makes the kernel kill
// everything in the zone.
#pragma once

#include <string>

namespace homeostat::lab {

// Returns, in the calling process, 0 as soon as the zone's first process runs and its record is written; the zone goes
// on by itself.
int zone_init_main(const std::string& spec_path);

}  // namespace homeostat::lab
