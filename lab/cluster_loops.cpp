#include "lab/cluster_loops.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "io/clock.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/connect.hpp"

namespace homeostat::lab {
namespace json = boost::json;
namespace {

constexpr auto round_every = Duration(1'000);
constexpr const char* inside_shared = "/srv/homeostat/shared/";

std::string address_of(const json::object& service) {
  const auto& ingress = io::array_at(service, {"status", "loadBalancer", "ingress"});
  return ingress.empty() ? std::string() : io::string_at(ingress.front(), {"ip"});
}

bool ours(const json::object& service) {
  return io::string_at(service, {"spec", "type"}) == "LoadBalancer" &&
         io::string_at(service, {"spec", "loadBalancerClass"}).empty() &&
         io::string_at(service, {"metadata", "deletionTimestamp"}).empty();
}

class Loop {
 public:
  Loop(const LabConfig& config, kube::Client& client) : config_(config), client_(client) {}

  Result<void> round(const std::vector<Machine>& machines) {
    if (auto done = balancers(); !done) return done;
    if (auto done = volumes(); !done) return done;
    return gpus(machines);
  }

 private:
  // From the API server's cache: a round more or less does not matter, and the load does.
  Result<std::vector<json::object>> list(const kube::Resource& resource) {
    kube::ListOptions options;
    options.resource_version = "0";
    auto found = client_.list(resource, "", options);
    if (!found) return std::unexpected(found.error());
    return std::move(found->items);
  }

  Result<void> balancers() {
    auto services = list(kube::resources::services);
    if (!services) return std::unexpected(services.error());
    for (const auto& wish : assign_balancers(*services, config_.plan.balancers)) {
      json::value patch{{"status", {{"loadBalancer", {{"ingress", json::array{json::object{{"ip", wish.address}}}}}}}}};
      auto done =
          client_.patch(kube::resources::services, wish.ns, wish.service, kube::PatchType::merge, patch, "status");
      if (!done && done.error().kind != ErrorKind::not_found) return std::unexpected(done.error());
      if (done)
        io::log_info("address given to a Service",
                     {{"service", wish.ns + "/" + wish.service}, {"address", wish.address}});
    }
    return {};
  }

  Result<void> volumes() {
    auto claims = list(kube::resources::persistent_volume_claims);
    if (!claims) return std::unexpected(claims.error());
    for (const auto& volume : volumes_for(*claims)) {
      auto folder = config_.path("shared/" + volume.folder);
      if (auto made = io::make_folders(folder); !made) return made;
      ::chmod(folder.c_str(), 0777);  // as provisioners do: the pod that gets it decides who owns it
      auto done = client_.create(kube::resources::persistent_volumes, "", volume.object);
      if (!done && done.error().kind != ErrorKind::already_exists) return std::unexpected(done.error());
      if (done) io::log_info("volume made", {{"folder", folder}});
    }
    return {};
  }

  Result<void> gpus(const std::vector<Machine>& machines) {
    auto nodes = list(kube::resources::nodes);
    if (!nodes) return std::unexpected(nodes.error());
    for (const auto& missing : missing_gpus(*nodes, machines)) {
      json::object amount{{missing.resource, std::to_string(missing.gpus)}};
      json::value patch{{"status", {{"capacity", amount}, {"allocatable", amount}}}};
      auto done = client_.patch(kube::resources::nodes, "", missing.node, kube::PatchType::merge, patch, "status");
      if (!done && done.error().kind != ErrorKind::not_found) return std::unexpected(done.error());
    }
    return {};
  }

  const LabConfig& config_;
  kube::Client& client_;
};

}  // namespace

std::vector<BalancerAddress> assign_balancers(const std::vector<json::object>& services, Cidr range) {
  auto inside = [range](const std::string& text) {
    auto address = parse_cidr(text);
    return address && address->bits == 32 && overlap(*address, range);
  };
  std::set<std::string> taken;
  for (const auto& service : services)
    if (ours(service)) taken.insert(address_of(service));
  std::vector<BalancerAddress> result;
  for (const auto& service : services) {
    if (!ours(service) || inside(address_of(service))) continue;
    auto address = io::string_at(service, {"spec", "loadBalancerIP"});
    if (!inside(address) || taken.contains(address)) {
      address.clear();
      for (std::uint32_t last = 1; last < 255 && address.empty(); ++last)
        if (auto candidate = address_text(range.base + last); !taken.contains(candidate)) address = candidate;
    }
    if (address.empty()) break;
    taken.insert(address);
    result.push_back(
        {io::string_at(service, {"metadata", "namespace"}), io::string_at(service, {"metadata", "name"}), address});
  }
  return result;
}

std::vector<SharedVolume> volumes_for(const std::vector<json::object>& claims) {
  std::vector<SharedVolume> result;
  for (const auto& claim : claims) {
    bool wanted = io::string_at(claim, {"spec", "storageClassName"}) == shared_storage_class &&
                  io::string_at(claim, {"spec", "volumeName"}).empty() &&
                  io::string_at(claim, {"metadata", "deletionTimestamp"}).empty();
    auto ns = io::string_at(claim, {"metadata", "namespace"}), name = io::string_at(claim, {"metadata", "name"}),
         uid = io::string_at(claim, {"metadata", "uid"});
    if (!wanted || uid.size() < 8) continue;
    auto folder = fmt::format("{}.{}.{}", ns, name, uid.substr(0, 8));
    result.push_back(
        {folder,
         {{"apiVersion", "v1"},
          {"kind", "PersistentVolume"},
          {"metadata", json::object{{"name", "lab-" + uid}}},
          {"spec",
           json::object{
               {"capacity",
                json::object{{"storage", io::string_at(claim, {"spec", "resources", "requests", "storage"}, "1Gi")}}},
               {"accessModes", io::array_at(claim, {"spec", "accessModes"})},
               {"persistentVolumeReclaimPolicy", "Retain"},
               {"storageClassName", shared_storage_class},
               {"claimRef", json::object{{"apiVersion", "v1"},
                                         {"kind", "PersistentVolumeClaim"},
                                         {"namespace", ns},
                                         {"name", name},
                                         {"uid", uid}}},
               {"hostPath", json::object{{"path", inside_shared + folder}, {"type", "Directory"}}}}}}});
  }
  return result;
}

std::vector<NodeGpus> missing_gpus(const std::vector<json::object>& nodes, const std::vector<Machine>& machines) {
  std::vector<NodeGpus> result;
  for (const auto& node : nodes) {
    auto name = io::string_at(node, {"metadata", "name"});
    auto machine =
        std::find_if(machines.begin(), machines.end(), [&name](const Machine& m) { return m.order.name == name; });
    if (machine == machines.end() || machine->order.gpus == 0 || machine->state == MachineState::deleting) continue;
    const std::string resource = has_amd_gpus(machine->order) ? "amd.com/gpu" : "nvidia.com/gpu";
    auto shown = io::string_at(node, {"status", "capacity", resource});
    if (shown != std::to_string(machine->order.gpus)) result.push_back({name, resource, machine->order.gpus});
  }
  return result;
}

void cluster_loop(const LabConfig& config, const std::function<std::vector<Machine>()>& machines,
                  std::stop_token stop) {
  io::SystemClock clock;
  io::SystemRandom random;
  kube::KubeconfigOptions kubeconfig;
  kubeconfig.paths = {config.path("kubeconfig")};
  auto cluster = kube::load_kubeconfig(kubeconfig);
  if (!cluster)
    return io::log_error("the lab's own kubeconfig cannot be used: no addresses, volumes and GPUs are given",
                         {{"error", cluster.error().message}});
  kube::ClientOptions options;
  options.user_agent = "homeostat-lab/" HOMEOSTAT_VERSION;
  options.stop = stop;
  auto client = kube::make_client(*cluster, nullptr, clock, random, options);
  Loop loop(config, *client);
  std::string last_error;
  while (!stop.stop_requested()) {
    auto done = loop.round(machines());
    auto error = done || stop.stop_requested() ? std::string() : done.error().message;
    if (!error.empty() && error != last_error)
      io::log_warn("a round of addresses, volumes and GPUs failed", {{"error", error}});
    last_error = error;
    clock.sleep(round_every, stop);
  }
}

}  // namespace homeostat::lab
