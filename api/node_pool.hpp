// NodePool: machines of one kind, how many work and how many wait as warm spares, and where they come from
// (api/crds/nodepools.yaml). Decoding never fails: what is missing has the schema's default.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>

namespace homeostat::api {

struct ProviderSpec {
  std::string type = "local";  // local, cluster-api, webhook
  std::string endpoint = {};   // "": the Secret says it
  std::string secret_namespace = {}, secret_name = {};
  bool operator==(const ProviderSpec&) const = default;
};

struct NodePool {
  std::string name = {}, uid = {}, resource_version = {};
  std::int64_t generation = 0;
  bool deleting = false;
  int size = 0, spares = 0, gpus_per_node = 0;
  ProviderSpec provider;
  std::map<std::string, std::string> node_labels = {};
  bool healing = true, dry_run = false;
  std::string policy = "default";
};

struct NodePoolStatus {
  int desired = 0, healthy = 0, spare = 0, in_repair = 0;
  std::int64_t observed_generation = 0;
  bool operator==(const NodePoolStatus&) const = default;
};

NodePool decode_node_pool(const boost::json::object& object);
NodePoolStatus decode_node_pool_status(const boost::json::object& object);
// status without conditions: those are kept by kube::set_condition.
boost::json::object encode_node_pool_status(const NodePoolStatus& status);

}  // namespace homeostat::api
