#include "api/slurm_cluster.hpp"

#include <algorithm>
#include <boost/json/array.hpp>

#include "io/json.hpp"

namespace homeostat::api {
namespace {

using boost::json::object;

std::vector<std::string> texts_at(const object& from, io::JsonPath path) {
  std::vector<std::string> out;
  for (const auto& item : io::array_at(from, path))
    if (item.is_string()) out.emplace_back(item.get_string());
  return out;
}

int count_at(const object& from, io::JsonPath path, int fallback, int most) {
  return static_cast<int>(std::clamp<std::int64_t>(io::int_at(from, path, fallback), 0, most));
}

VolumeSpec volume_at(const object& from, std::string_view fallback_size) {
  return {io::string_at(from, {"size"}, fallback_size), io::string_at(from, {"storageClassName"})};
}

WorkerGroup decode_group(const object& from) {
  WorkerGroup group;
  group.name = io::string_at(from, {"name"});
  group.pool = io::string_at(from, {"pool"});
  group.gpus_per_node = count_at(from, {"gpusPerNode"}, 0, 64);
  group.devices = io::string_at(from, {"devices"}) == "hostPath" ? WorkerDevices::host_path : WorkerDevices::runtime;
  group.features = texts_at(from, {"features"});
  return group;
}

template <class Decode>
auto decode_all(const object& from, io::JsonPath path, Decode decode) {
  std::vector<decltype(decode(from))> out;
  for (const auto& item : io::array_at(from, path))
    if (item.is_object()) out.push_back(decode(item.get_object()));
  return out;
}

}  // namespace

SlurmCluster decode_slurm_cluster(const object& from) {
  SlurmCluster cluster;
  cluster.name = io::string_at(from, {"metadata", "name"});
  cluster.ns = io::string_at(from, {"metadata", "namespace"});
  cluster.uid = io::string_at(from, {"metadata", "uid"});
  cluster.resource_version = io::string_at(from, {"metadata", "resourceVersion"});
  cluster.generation = io::int_at(from, {"metadata", "generation"});
  cluster.deleting = !io::string_at(from, {"metadata", "deletionTimestamp"}).empty();
  cluster.image = io::string_at(from, {"spec", "image"});
  cluster.kill_wait_s = count_at(from, {"spec", "killWait_s"}, 120, 3600);
  cluster.controller_storage = volume_at(io::object_at(from, {"spec", "controller", "storage"}), "1Gi");
  cluster.login_replicas = count_at(from, {"spec", "login", "replicas"}, 1, 16);
  cluster.login_service_type = io::string_at(from, {"spec", "login", "serviceType"}, "LoadBalancer");
  cluster.authorized_keys = texts_at(from, {"spec", "login", "authorizedKeys"});
  cluster.workers = decode_all(from, {"spec", "workers"}, decode_group);
  cluster.partitions = decode_all(from, {"spec", "partitions"}, [](const object& item) {
    return PartitionSpec{io::string_at(item, {"name"}), texts_at(item, {"workers"}), io::bool_at(item, {"default"}),
                         io::string_at(item, {"maxTime"})};
  });
  cluster.storage = decode_all(from, {"spec", "storage"}, [](const object& item) {
    return SharedStorage{io::string_at(item, {"name"}), io::string_at(item, {"mountPath"}), volume_at(item, "10Gi")};
  });
  cluster.config = texts_at(from, {"spec", "config"});
  return cluster;
}

std::string workers_label_value(const SlurmCluster& cluster, const WorkerGroup& group) {
  return cluster.ns + "." + cluster.name + "." + group.name;
}

}  // namespace homeostat::api
