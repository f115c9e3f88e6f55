#include "lab/cluster_loops.hpp"

namespace homeostat::lab {

std::vector<std::function<void(std::stop_token)>> cluster_loops(const LabConfig&, std::function<std::vector<Machine>()>) { return {}; }

}  // namespace homeostat::lab
