// Which rules a pool's nodes are healed under: the NodePool and its HealthPolicy, read live.
#pragma once

#include <optional>
#include <string_view>

#include "api/health_policy.hpp"
#include "api/node_pool.hpp"
#include "kube/client.hpp"

namespace homeostat::controller {

struct Rules {
  std::optional<api::NodePool> pool = {};  // nullopt: there is no such NodePool
  api::HealthPolicy policy;                // defaults when the pool names one that is not there
};

Result<Rules> read_rules(kube::Client& client, std::string_view pool);

}  // namespace homeostat::controller
