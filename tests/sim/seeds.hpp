// Which seeds the swarm runs: main sets them from --seed=N and --seeds=N before the tests begin.
#pragma once

#include <cstdint>

namespace homeostat::sim {

inline std::uint64_t first_seed = 1;
inline std::uint64_t seeds = 100;

}  // namespace homeostat::sim
