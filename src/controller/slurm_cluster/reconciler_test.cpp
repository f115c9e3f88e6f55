// The operator against an API server in memory: keys once, objects as the spec says, nothing written when nothing
// changed.
#include "controller/slurm_cluster/reconciler.hpp"

#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include "io/fake_clock.hpp"
#include "io/json.hpp"
#include "kube/conditions.hpp"
#include "kube/fake_api_server.hpp"
#include "kube/meta.hpp"
#include "tests/test_clock.hpp"

using namespace homeostat;
using namespace homeostat::controller;

namespace {

struct World {
  io::FakeClock clock;
  io::FakeRandom random;
  kube::FakeApiServer server{clock};
  kube::ClientFactory clients = server.client_factory(random);
  SlurmClusterReconciler reconciler{clients, clock, random};
  const kube::ObjectKey key{"slurm", "demo"};

  World() {
    auto object = kube::new_object(kube::resources::slurm_clusters, "slurm", "demo");
    object["spec"] = boost::json::parse(
        R"({"image": "slurm:1", "killWait_s": 120, "login": {"replicas": 1, "authorizedKeys": ["ssh-ed25519 AAAA x"]},
      "workers": [{"name": "gpu", "pool": "gpu", "gpusPerNode": 2}], "partitions": [{"name": "train", "workers": ["gpu"], "default": true}],
      "storage": [{"name": "home", "mountPath": "/home", "size": "1Gi"}]})");
    server.put(kube::resources::slurm_clusters, object);
  }
  Result<kube::ReconcileResult> reconcile() { return reconciler.reconcile(key, {}); }
  kube::Object cluster() { return *server.find(kube::resources::slurm_clusters, "slurm", "demo"); }
  kube::Object secret(const char* name) {
    auto found = server.find(kube::resources::secrets, "slurm", name);
    REQUIRE(found.has_value());
    return *found;
  }
  void set_config(const char* line) {
    auto object = cluster();
    object["spec"].as_object()["config"] = boost::json::array{line};
    server.put(kube::resources::slurm_clusters, object);
  }
  // What the controllers and the load balancer of a real cluster would write.
  void all_pods_run() {
    auto set = [&](const kube::Resource& resource, const char* name, boost::json::object status) {
      auto object = server.find(resource, "slurm", name);
      REQUIRE(object.has_value());
      status["observedGeneration"] = kube::generation_of(*object);
      (*object)["status"] = std::move(status);
      server.put(resource, *object);
    };
    const boost::json::object replicas{{"replicas", 1}, {"readyReplicas", 1}, {"updatedReplicas", 1}};
    set(kube::resources::stateful_sets, "demo-controller", replicas);
    set(kube::resources::deployments, "demo-rest", replicas);
    set(kube::resources::deployments, "demo-login", replicas);
    set(kube::resources::daemon_sets, "demo-worker-gpu", {{"numberReady", 2}, {"desiredNumberScheduled", 3}});
    auto service = *server.find(kube::resources::services, "slurm", "demo-login");
    service["status"] = boost::json::parse(R"({"loadBalancer": {"ingress": [{"ip": "10.98.0.1"}]}})");
    server.put(kube::resources::services, service);
  }
};

}  // namespace

TEST_CASE("a SlurmCluster becomes its objects, waits with a reason, and is Ready when its pods are") {
  World w;
  REQUIRE(w.reconcile().has_value());
  CHECK(kube::condition_status(w.cluster(), "Ready") == "False");
  CHECK(io::string_at(*kube::find_condition(w.cluster(), "Ready"), {"message"}).find("slurmctld") != std::string::npos);
  w.all_pods_run();
  REQUIRE(w.reconcile().has_value());
  CHECK(kube::condition_status(w.cluster(), "Ready") == "True");
  CHECK(io::string_at(w.cluster(), {"status", "loginAddress"}) == "10.98.0.1");
  CHECK(io::int_at(w.cluster(), {"status", "readyWorkers"}) == 2);
  CHECK(io::int_at(w.cluster(), {"status", "observedGeneration"}) == kube::generation_of(w.cluster()));
}

TEST_CASE("what is as it should be is not written again") {
  World w;
  REQUIRE(w.reconcile().has_value());
  w.all_pods_run();
  REQUIRE(w.reconcile().has_value());
  w.clock.time += std::chrono::minutes{10};
  const auto version = w.server.resource_version();
  REQUIRE(w.reconcile().has_value());
  CHECK(w.server.resource_version() == version);
}

TEST_CASE("keys are made once and survive every later look; their bytes are in no ConfigMap and no status") {
  World w;
  REQUIRE(w.reconcile().has_value());
  const auto keys = w.secret("demo-keys"), hosts = w.secret("demo-login-hostkeys");
  const auto slurm_key = io::string_at(keys, {"data", "slurm.key"});
  CHECK(slurm_key.size() >= 64);
  CHECK(io::string_at(keys, {"data", "jwt.key"}).size() >= 43);
  CHECK_FALSE(io::string_at(hosts, {"data", "ssh_host_ecdsa_key"}).empty());
  w.set_config("PriorityType=priority/multifactor");
  w.clock.time += std::chrono::hours{24 * 400};
  REQUIRE(w.reconcile().has_value());
  CHECK(w.secret("demo-keys") == keys);
  CHECK(w.secret("demo-login-hostkeys") == hosts);
  for (const auto& map : w.server.all(kube::resources::config_maps))
    CHECK(io::to_text(map).find(slurm_key) == std::string::npos);
  CHECK(io::to_text(w.cluster()).find(slurm_key) == std::string::npos);
}

TEST_CASE("the REST certificate is renewed well before its end, and not before that") {
  World w;
  REQUIRE(w.reconcile().has_value());
  const auto first = w.secret("demo-rest-tls");
  w.clock.time += std::chrono::hours{24 * 300};
  REQUIRE(w.reconcile().has_value());
  CHECK(w.secret("demo-rest-tls") == first);
  w.clock.time += std::chrono::hours{24 * 50};
  REQUIRE(w.reconcile().has_value());
  const auto second = w.secret("demo-rest-tls");
  for (const char* key : {"ca.crt", "tls.crt", "tls.key"})
    CHECK(io::string_at(second, {"data", key}) != io::string_at(first, {"data", key}));
}

TEST_CASE("a Secret that lost a key is told, never overwritten") {
  World w;
  REQUIRE(w.reconcile().has_value());
  auto keys = w.secret("demo-keys");
  keys["data"].as_object().erase("jwt.key");
  w.server.put(kube::resources::secrets, keys);
  const auto damaged = w.secret("demo-keys");
  REQUIRE(w.reconcile().has_value());
  CHECK(w.secret("demo-keys") == damaged);
  CHECK(kube::condition_status(w.cluster(), "Ready") == "False");
  CHECK(io::string_at(*kube::find_condition(w.cluster(), "Ready"), {"message"}).find("jwt.key") != std::string::npos);
}

TEST_CASE("a refused line is told in the status, and what runs is left as it is") {
  World w;
  REQUIRE(w.reconcile().has_value());
  w.all_pods_run();
  REQUIRE(w.reconcile().has_value());
  const auto before = w.server.find(kube::resources::config_maps, "slurm", "demo-config");
  w.set_config("ReturnToService=2");
  REQUIRE(w.reconcile().has_value());
  CHECK(w.server.find(kube::resources::config_maps, "slurm", "demo-config") == before);
  const auto cluster = w.cluster();
  const auto* ready = kube::find_condition(cluster, "Ready");
  REQUIRE(ready != nullptr);
  CHECK(io::string_at(*ready, {"reason"}) == "SpecRefused");
  CHECK(io::string_at(*ready, {"message"}).find("ReturnToService=2") != std::string::npos);
}

TEST_CASE("cut off after any write and begun again, the outcome is the same and the keys are the first ones") {
  World whole;
  REQUIRE(whole.reconcile().has_value());
  const auto writes = whole.server.mutations().size();
  REQUIRE(writes > 10);
  for (size_t cut = 0; cut < writes; ++cut) {
    World w;
    size_t seen = 0;
    w.server.set_fault_hook([&](const kube::FakeApiServer::Call& call) {
      if (!kube::FakeApiServer::is_mutation(call)) return kube::FakeApiServer::Fault::none;
      return seen++ == cut ? kube::FakeApiServer::Fault::lost_reply : kube::FakeApiServer::Fault::none;
    });
    (void)w.reconcile();
    w.server.set_fault_hook(nullptr);
    const auto keys = w.server.find(kube::resources::secrets, "slurm", "demo-keys");
    CAPTURE(cut);
    REQUIRE(w.reconcile().has_value());
    if (keys) CHECK(w.secret("demo-keys") == *keys);
    for (const auto* resource : {&kube::resources::secrets, &kube::resources::services, &kube::resources::deployments,
                                 &kube::resources::daemon_sets, &kube::resources::stateful_sets,
                                 &kube::resources::config_maps, &kube::resources::persistent_volume_claims})
      CHECK(w.server.all(*resource).size() == whole.server.all(*resource).size());
  }
}

TEST_CASE("a cluster that is gone or going is left alone") {
  World w;
  auto object = w.cluster();
  object["metadata"].as_object()["deletionTimestamp"] = "2026-11-30T00:00:00Z";
  w.server.put(kube::resources::slurm_clusters, object);
  REQUIRE(w.reconcile().has_value());
  CHECK(w.server.all(kube::resources::secrets).empty());
  CHECK(w.reconciler.reconcile({"slurm", "none"}, {}).has_value());
}
