#include <boost/json.hpp>

#include "core/names.hpp"
#include "kube/client.hpp"

namespace homeostat::kube::resources {

namespace {
Resource ours(std::string plural, std::string kind, bool namespaced) {
  return {std::string(names::group), std::string(names::version), std::move(plural), std::move(kind), namespaced};
}
}  // namespace

const Resource nodes{"", "v1", "nodes", "Node", false};
const Resource pods{"", "v1", "pods", "Pod", true};
const Resource services{"", "v1", "services", "Service", true};
const Resource secrets{"", "v1", "secrets", "Secret", true};
const Resource config_maps{"", "v1", "configmaps", "ConfigMap", true};
const Resource namespaces{"", "v1", "namespaces", "Namespace", false};
const Resource events{"", "v1", "events", "Event", true};
const Resource persistent_volumes{"", "v1", "persistentvolumes", "PersistentVolume", false};
const Resource persistent_volume_claims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
const Resource service_accounts{"", "v1", "serviceaccounts", "ServiceAccount", true};
const Resource endpoints{"", "v1", "endpoints", "Endpoints", true};
const Resource deployments{"apps", "v1", "deployments", "Deployment", true};
const Resource stateful_sets{"apps", "v1", "statefulsets", "StatefulSet", true};
const Resource daemon_sets{"apps", "v1", "daemonsets", "DaemonSet", true};
const Resource jobs{"batch", "v1", "jobs", "Job", true};
const Resource leases{"coordination.k8s.io", "v1", "leases", "Lease", true};
const Resource pod_disruption_budgets{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true};
const Resource roles{"rbac.authorization.k8s.io", "v1", "roles", "Role", true};
const Resource role_bindings{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true};
const Resource cluster_roles{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false};
const Resource cluster_role_bindings{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding",
                                     false};
const Resource custom_resource_definitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                           "CustomResourceDefinition", false};
const Resource storage_classes{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};
const Resource priority_classes{"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false};
const Resource network_policies{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true};

const Resource node_pools = ours("nodepools", "NodePool", false);
const Resource slurm_clusters = ours("slurmclusters", "SlurmCluster", true);
const Resource node_healths = ours("nodehealths", "NodeHealth", false);
const Resource health_policies = ours("healthpolicies", "HealthPolicy", false);
const Resource repairs = ours("repairs", "Repair", false);
const Resource drills = ours("drills", "Drill", false);

const Resource* find_kind(std::string_view api_version, std::string_view kind) {
  for (const Resource* resource : all())
    if (resource->kind == kind && resource->api_version() == api_version) return resource;
  return nullptr;
}

const std::vector<const Resource*>& all() {
  static const std::vector<const Resource*> list{&nodes,
                                                 &pods,
                                                 &services,
                                                 &secrets,
                                                 &config_maps,
                                                 &namespaces,
                                                 &events,
                                                 &persistent_volumes,
                                                 &persistent_volume_claims,
                                                 &service_accounts,
                                                 &endpoints,
                                                 &deployments,
                                                 &stateful_sets,
                                                 &daemon_sets,
                                                 &jobs,
                                                 &leases,
                                                 &pod_disruption_budgets,
                                                 &roles,
                                                 &role_bindings,
                                                 &cluster_roles,
                                                 &cluster_role_bindings,
                                                 &custom_resource_definitions,
                                                 &storage_classes,
                                                 &priority_classes,
                                                 &network_policies,
                                                 &node_pools,
                                                 &slurm_clusters,
                                                 &node_healths,
                                                 &health_policies,
                                                 &repairs,
                                                 &drills};
  return list;
}

}  // namespace homeostat::kube::resources
