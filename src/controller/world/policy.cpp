#include "controller/world/policy.hpp"

namespace homeostat::controller {

Result<Rules> read_rules(kube::Client& client, std::string_view pool) {
  Rules rules;
  std::string policy_name = "default";
  if (!pool.empty()) {
    auto object = client.get(kube::resources::node_pools, "", pool);
    if (object)
      rules.pool = api::decode_node_pool(*object), policy_name = rules.pool->policy;
    else if (object.error().kind != ErrorKind::not_found)
      return std::unexpected(object.error());
  }
  auto policy = client.get(kube::resources::health_policies, "", policy_name);
  if (policy)
    rules.policy = api::decode_health_policy(*policy);
  else if (policy.error().kind != ErrorKind::not_found)
    return std::unexpected(policy.error());
  return rules;
}

}  // namespace homeostat::controller
