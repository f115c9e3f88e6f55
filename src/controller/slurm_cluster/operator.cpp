#include "controller/slurm_cluster/operator.hpp"

#include <thread>
#include <vector>

#include "core/names.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {
namespace {

// Only what a SlurmCluster owns.
kube::InformerOptions owned() {
  kube::InformerOptions options;
  options.label_selector = std::string(names::cluster_label);
  return options;
}

// An object of ours concerns the cluster that its label names, in its own namespace.
std::vector<kube::ObjectKey> cluster_of(const kube::ObjectKey& key, const kube::ObjectPtr& old,
                                        const kube::ObjectPtr& now) {
  const auto& object = now ? now : old;
  if (!object) return {};
  return {{key.ns, kube::label_of(*object, names::cluster_label)}};
}

// Our own status writes must not wake us: only another spec does.
std::vector<kube::ObjectKey> if_spec_changed(const kube::ObjectKey& key, const kube::ObjectPtr& old,
                                             const kube::ObjectPtr& now) {
  if (old && now && kube::generation_of(*old) == kube::generation_of(*now) &&
      kube::is_deleting(*old) == kube::is_deleting(*now))
    return {};
  return {key};
}

}  // namespace

SlurmClusterOperator::SlurmClusterOperator(const kube::ClientFactory& clients, io::Clock& clock, io::Random& random)
    : reconciler_(clients, clock, random),
      clusters_(clients, kube::resources::slurm_clusters, {}, clock, random),
      stateful_sets_(clients, kube::resources::stateful_sets, owned(), clock, random),
      deployments_(clients, kube::resources::deployments, owned(), clock, random),
      daemon_sets_(clients, kube::resources::daemon_sets, owned(), clock, random),
      services_(clients, kube::resources::services, owned(), clock, random),
      controller_("slurm_cluster", reconciler_, clock, random) {
  controller_.watch(clusters_, if_spec_changed);
  for (kube::Informer* informer : {&stateful_sets_, &deployments_, &daemon_sets_, &services_})
    controller_.watch(*informer, cluster_of);
}

void SlurmClusterOperator::run(std::stop_token stop) {
  std::vector<std::jthread> threads;
  for (kube::Informer* informer : {&clusters_, &stateful_sets_, &deployments_, &daemon_sets_, &services_})
    threads.emplace_back([informer, stop] { informer->run(stop); });
  controller_.run(stop);
}

}  // namespace homeostat::controller
