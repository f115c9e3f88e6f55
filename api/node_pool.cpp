#include "api/node_pool.hpp"

#include <algorithm>

#include "io/json.hpp"

namespace homeostat::api {

namespace {

int count_at(const boost::json::object& object, io::JsonPath path) {
  return static_cast<int>(std::clamp<std::int64_t>(io::int_at(object, path), 0, 100'000));
}

}  // namespace

NodePool decode_node_pool(const boost::json::object& object) {
  NodePool pool;
  pool.name = io::string_at(object, {"metadata", "name"});
  pool.uid = io::string_at(object, {"metadata", "uid"});
  pool.resource_version = io::string_at(object, {"metadata", "resourceVersion"});
  pool.generation = io::int_at(object, {"metadata", "generation"});
  pool.deleting = !io::string_at(object, {"metadata", "deletionTimestamp"}).empty();
  pool.size = count_at(object, {"spec", "size"});
  pool.spares = count_at(object, {"spec", "spares"});
  pool.gpus_per_node = count_at(object, {"spec", "gpusPerNode"});
  pool.provider.type = io::string_at(object, {"spec", "provider", "type"}, "local");
  pool.provider.endpoint = io::string_at(object, {"spec", "provider", "local", "endpoint"});
  pool.provider.secret_namespace =
      io::string_at(object, {"spec", "provider", "local", "credentialsSecretRef", "namespace"});
  pool.provider.secret_name = io::string_at(object, {"spec", "provider", "local", "credentialsSecretRef", "name"});
  for (const auto& [key, value] : io::object_at(object, {"spec", "nodeLabels"}))
    if (value.is_string()) pool.node_labels.emplace(key, value.get_string());
  pool.healing = io::bool_at(object, {"spec", "healing", "enabled"}, true);
  pool.dry_run = io::bool_at(object, {"spec", "healing", "dryRun"});
  pool.policy = io::string_at(object, {"spec", "healing", "policy"}, "default");
  return pool;
}

NodePoolStatus decode_node_pool_status(const boost::json::object& object) {
  return {count_at(object, {"status", "desired"}), count_at(object, {"status", "healthy"}),
          count_at(object, {"status", "spare"}), count_at(object, {"status", "inRepair"}),
          io::int_at(object, {"status", "observedGeneration"})};
}

boost::json::object encode_node_pool_status(const NodePoolStatus& status) {
  return {{"desired", status.desired},
          {"healthy", status.healthy},
          {"spare", status.spare},
          {"inRepair", status.in_repair},
          {"observedGeneration", status.observed_generation}};
}

}  // namespace homeostat::api
