// Which Slurm jobs run on the node, from the cgroups that Slurm makes for them (…/job_4711). Bounded, and cheap enough
// for every scrape.
#pragma once

#include <string>
#include <vector>

namespace homeostat::agent {

// Below a folder of cgroups ("/sys/fs/cgroup"), sorted; at most 64. Looks at no more than 512 folders, 8 deep.
std::vector<std::string> jobs_under(const std::string& cgroups);

}  // namespace homeostat::agent
