// SlurmCluster: the whole of one Slurm as its platform team describes it (api/crds/slurmclusters.yaml). Decoding never
// fails: what is missing has the schema's default.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace homeostat::api {

struct VolumeSpec {
  std::string size = "1Gi";
  std::string storage_class = {};  // "": the cluster's default
  bool operator==(const VolumeSpec&) const = default;
};

// Where a worker pod's GPUs come from.
enum class WorkerDevices {
  runtime,    // the pod asks for nvidia.com/gpu, and the device plugin or the container runtime hands them over
  host_path,  // the pod mounts /dev/nvidia0…N of its node: the lab
};

struct WorkerGroup {
  std::string name = {}, pool = {};
  int gpus_per_node = 0;
  WorkerDevices devices = WorkerDevices::runtime;
  std::vector<std::string> features = {};
  bool operator==(const WorkerGroup&) const = default;
};

struct PartitionSpec {
  std::string name = {};
  std::vector<std::string> workers = {};
  bool is_default = false;
  std::string max_time = {};
  bool operator==(const PartitionSpec&) const = default;
};

struct SharedStorage {
  std::string name = {}, mount_path = {};
  VolumeSpec volume;
  bool operator==(const SharedStorage&) const = default;
};

struct SlurmCluster {
  std::string name = {}, ns = {}, uid = {}, resource_version = {};
  std::int64_t generation = 0;
  bool deleting = false;
  std::string image = {};
  int kill_wait_s = 120;
  VolumeSpec controller_storage;
  int login_replicas = 1;
  std::string login_service_type = "LoadBalancer";
  std::vector<std::string> authorized_keys = {};
  std::vector<WorkerGroup> workers = {};
  std::vector<PartitionSpec> partitions = {};
  std::vector<SharedStorage> storage = {};
  std::vector<std::string> config = {};
};

SlurmCluster decode_slurm_cluster(const boost::json::object& object);

// "<namespace>.<cluster>.<group>": the value of the node label that switches a worker on.
std::string workers_label_value(const SlurmCluster& cluster, const WorkerGroup& group);

}  // namespace homeostat::api
