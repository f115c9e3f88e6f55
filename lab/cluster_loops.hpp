// What a cloud would add to the cluster: addresses for Services of type LoadBalancer, volumes for claims of the shared
// class, and the GPUs that a node has. The decisions are pure; the loop observes, decides and acts once a second, and a
// failed round is simply followed by the next.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/config.hpp"
#include "lab/machine_book.hpp"

namespace homeostat::lab {

inline constexpr std::string_view shared_storage_class = "homeostat-lab-shared";

struct BalancerAddress {
  std::string ns, service, address;
};
// For each Service of type LoadBalancer that has no address of the range: the one it asks for, else the lowest free
// one. A range that is used up leaves the rest waiting.
std::vector<BalancerAddress> assign_balancers(const std::vector<boost::json::object>& services, Cidr range);

struct SharedVolume {
  std::string folder;          // its name below the shared folder
  boost::json::object object;  // the PersistentVolume
};
// For each claim of the shared class that is Pending and has no volume.
std::vector<SharedVolume> volumes_for(const std::vector<boost::json::object>& claims);

struct NodeGpus {
  std::string node;
  std::string resource;  // as the vendor's device plugin names it
  int gpus = 0;
};
// Nodes whose capacity does not show yet what their machine has.
std::vector<NodeGpus> missing_gpus(const std::vector<boost::json::object>& nodes, const std::vector<Machine>& machines);

// Until stop.
void cluster_loop(const LabConfig& config, const std::function<std::vector<Machine>()>& machines, std::stop_token stop);

}  // namespace homeostat::lab
