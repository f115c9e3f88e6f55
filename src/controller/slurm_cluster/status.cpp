#include "controller/slurm_cluster/status.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "io/json.hpp"
#include "kube/conditions.hpp"

namespace homeostat::controller {
namespace {

std::int64_t ready_replicas(const std::optional<kube::Object>& object) {
  return object ? io::int_at(*object, {"status", "readyReplicas"}) : 0;
}

std::string login_address(const std::optional<kube::Object>& service) {
  if (!service) return {};
  const auto& ingress = io::array_at(*service, {"status", "loadBalancer", "ingress"});
  if (!ingress.empty()) {
    const auto ip = io::string_at(ingress.front(), {"ip"});
    return ip.empty() ? io::string_at(ingress.front(), {"hostname"}) : ip;
  }
  const bool waits_for_balancer = io::string_at(*service, {"spec", "type"}) == "LoadBalancer";
  return waits_for_balancer ? std::string() : io::string_at(*service, {"spec", "clusterIP"});
}

}  // namespace

std::string not_ready_because(const api::SlurmCluster& cluster, const SlurmClusterParts& parts) {
  if (ready_replicas(parts.controller) < 1) return "waiting for slurmctld: see `kubectl get pods` in this namespace";
  if (ready_replicas(parts.rest) < 1) return "waiting for slurmrestd";
  if (cluster.login_replicas > 0 && ready_replicas(parts.login) < 1) return "waiting for a login node";
  if (cluster.login_replicas > 0 && login_address(parts.login_service).empty())
    return "waiting for the login service's address";
  return {};
}

kube::Object slurm_cluster_status(const api::SlurmCluster& cluster, const kube::Object& before,
                                  const SlurmClusterParts& parts, const std::string& problem, TimePoint now) {
  std::int64_t ready_workers = 0;
  for (const auto& workers : parts.workers) ready_workers += io::int_at(workers, {"status", "numberReady"});
  const std::string waiting = problem.empty() ? not_ready_because(cluster, parts) : problem;

  kube::Condition ready;
  ready.type = "Ready";
  ready.status = waiting.empty() ? "True" : "False";
  ready.reason = waiting.empty() ? "Running" : (problem.empty() ? "Starting" : "SpecRefused");
  ready.message = waiting.empty() ? "slurmctld, slurmrestd and login answer" : waiting;
  ready.observed_generation = cluster.generation;
  boost::json::array conditions = io::array_at(before, {"status", "conditions"});
  kube::set_condition(conditions, ready, now);
  return {{"observedGeneration", cluster.generation},
          {"readyWorkers", ready_workers},
          {"loginAddress", login_address(parts.login_service)},
          {"conditions", std::move(conditions)}};
}

}  // namespace homeostat::controller
