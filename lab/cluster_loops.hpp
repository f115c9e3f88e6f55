// What a cloud would add to the cluster: addresses for Services of type LoadBalancer, volumes for claims of the shared class, and
// the GPUs that a node has. Each loop observes, decides (pure) and acts, again and again; a failed round is tried anew.
#pragma once

#include <boost/json/fwd.hpp>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/config.hpp"
#include "lab/machine_book.hpp"

namespace homeostat::lab {

inline constexpr std::string_view shared_storage_class = "homeostat-lab-shared";

std::vector<std::function<void(std::stop_token)>> cluster_loops(const LabConfig& config, std::function<std::vector<Machine>()> machines);

}  // namespace homeostat::lab
