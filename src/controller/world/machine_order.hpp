// How a pool's machine is ordered, by whom it may be: the same order for the same token, whoever asks. Pure.
#pragma once

#include <string>

#include "api/node_pool.hpp"
#include "core/names.hpp"
#include "provider/provider.hpp"

namespace homeostat::controller {

// Every machine begins as a spare; promotion takes the taint off. The provider itself labels it with its pool.
inline provider::MachineOrder machine_order(const api::NodePool& pool, const std::string& token,
                                            const std::string& name) {
  return {token,
          name,
          pool.name,
          pool.gpus_per_node,
          pool.node_labels,
          {std::string(names::spare_taint) + "=true:NoSchedule"}};
}

}  // namespace homeostat::controller
