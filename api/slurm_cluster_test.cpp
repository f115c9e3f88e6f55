#include "api/slurm_cluster.hpp"

#include <doctest/doctest.h>

#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::api;

TEST_CASE("a full spec is read field by field") {
  const auto object =
      io::parse_json_object(R"({"metadata":{"name":"demo","namespace":"slurm","uid":"u","generation":3},"spec":{
      "image":"i:1","killWait_s":90,"controller":{"storage":{"size":"2Gi","storageClassName":"fast"}},
      "login":{"replicas":2,"serviceType":"NodePort","authorizedKeys":["ssh-ed25519 A"]},
      "workers":[{"name":"gpu","pool":"h100","gpusPerNode":8,"devices":"hostPath","features":["ib"]}],
      "partitions":[{"name":"train","workers":["gpu"],"default":true,"maxTime":"1-0"}],
      "storage":[{"name":"home","mountPath":"/home","size":"5Gi","storageClassName":"shared"}],"config":["DebugFlags=Gres"]}})");
  REQUIRE(object.has_value());
  const auto cluster = decode_slurm_cluster(*object);
  CHECK(cluster.generation == 3);
  CHECK(cluster.kill_wait_s == 90);
  CHECK(cluster.controller_storage == VolumeSpec{"2Gi", "fast"});
  CHECK(cluster.login_replicas == 2);
  CHECK(cluster.login_service_type == "NodePort");
  REQUIRE(cluster.workers.size() == 1);
  CHECK(cluster.workers[0] == WorkerGroup{"gpu", "h100", 8, WorkerDevices::host_path, {"ib"}});
  CHECK(cluster.partitions[0] == PartitionSpec{"train", {"gpu"}, true, "1-0"});
  CHECK(cluster.storage[0] == SharedStorage{"home", "/home", {"5Gi", "shared"}});
  CHECK(cluster.config == std::vector<std::string>{"DebugFlags=Gres"});
  CHECK(workers_label_value(cluster, cluster.workers[0]) == "slurm.demo.gpu");
}

TEST_CASE("what is missing, or of another type, has the schema's default") {
  const auto cluster = decode_slurm_cluster({{"spec", {{"killWait_s", "soon"}, {"workers", 7}}}});
  CHECK(cluster.kill_wait_s == 120);
  CHECK(cluster.workers.empty());
  CHECK(cluster.login_replicas == 1);
  CHECK(cluster.login_service_type == "LoadBalancer");
}
