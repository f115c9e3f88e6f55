// The Kubernetes objects of one SlurmCluster, as a pure function of its spec: the same spec gives the same objects, so
// applying them again changes nothing. Secrets are not made here (keys.hpp): only their names are used.
#pragma once

#include <string>
#include <vector>

#include "api/slurm_cluster.hpp"
#include "core/result.hpp"
#include "kube/client.hpp"

namespace homeostat::controller {

struct RenderedObject {
  kube::Resource resource;
  std::string name;
  kube::Object body;
};

// What the Secrets hold by now: a change of either starts the pods anew that read it only once.
struct KeyStamps {
  std::string tls_not_after = {};
};

// In the order in which they are applied. invalid: the spec's slurm.conf lines or partitions are refused; the message
// has each reason.
Result<std::vector<RenderedObject>> render_slurm_cluster(const api::SlurmCluster& cluster, const kube::Object& owner,
                                                         const KeyStamps& stamps);

std::string controller_name(const api::SlurmCluster& cluster);
std::string rest_name(const api::SlurmCluster& cluster);
std::string login_name(const api::SlurmCluster& cluster);
std::string worker_name(const api::SlurmCluster& cluster, const api::WorkerGroup& group);

}  // namespace homeostat::controller
