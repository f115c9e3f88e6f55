// Slurm's host lists: "gpu-[1-3,7],login1" and back to the single names. Bounded, so that a mad list costs nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace homeostat::slurm {

// In the list's order; widths are kept ("n[08-10]" is n08 n09 n10). invalid: unbalanced brackets, a range that runs
// backward, or more than max_hosts names.
Result<std::vector<std::string>> expand_hostlist(std::string_view text, size_t max_hosts = 65'536);

}  // namespace homeostat::slurm
