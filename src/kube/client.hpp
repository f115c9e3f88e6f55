// The Kubernetes API as typed verbs over JSON objects. One Client per thread (it owns one keep-alive connection).
#pragma once

#include <boost/json/fwd.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::kube {

// A kind of object and where the API server keeps it. namespaced=false: the `ns` argument of every call is ignored.
struct Resource {
  std::string group = {};  // "" for the core group
  std::string version = {};
  std::string plural = {};
  std::string kind = {};
  bool namespaced = true;

  std::string api_version() const { return group.empty() ? version : group + "/" + version; }
  auto operator<=>(const Resource&) const = default;
};

// The kinds that Homeostat speaks.
namespace resources {
extern const Resource nodes, pods, services, secrets, config_maps, namespaces, events, persistent_volumes,
    persistent_volume_claims, service_accounts, endpoints, deployments, stateful_sets, daemon_sets, jobs, leases,
    pod_disruption_budgets, roles, role_bindings, cluster_roles, cluster_role_bindings, custom_resource_definitions,
    storage_classes, priority_classes, network_policies, node_pools, slurm_clusters, node_healths, health_policies,
    repairs, drills;
// All of the above, and the one that a manifest's apiVersion and kind name (nullptr: not one of them).
const std::vector<const Resource*>& all();
const Resource* find_kind(std::string_view api_version, std::string_view kind);
}  // namespace resources

using Object = boost::json::object;

struct ObjectList {
  std::vector<Object> items = {};
  std::string resource_version = {};
};

struct ListOptions {
  std::string label_selector = {};
  std::string field_selector = {};
  std::string resource_version = {};  // "": the newest, through quorum; "0": whatever the cache holds
};

enum class PatchType { merge, strategic_merge, json };

struct ApplyOptions {
  std::string field_manager = {};  // required
  bool force = false;              // only for fields that are defined as ours
  std::string subresource = {};    // "" or "status"
};

struct DeleteOptions {
  std::string uid = {};               // precondition; "" for none
  std::string resource_version = {};  // precondition; "" for none
  std::string propagation = "Background";
  std::optional<int> grace_s = {};
};

// One event of a watch, with the whole object. A bookmark carries only metadata.resourceVersion.
enum class WatchEventType { added, modified, deleted, bookmark, error };
struct WatchEvent {
  WatchEventType type = WatchEventType::error;
  Object object = {};
};

struct WatchOptions {
  std::string label_selector = {};
  std::string field_selector = {};
  std::string resource_version = {};
  std::chrono::seconds timeout{300};  // the server ends the watch after this; the client gives up a little later
};

// Errors carry the API server's own message. Reads are bounded and consistent unless ListOptions says otherwise.
class Client {
 public:
  virtual ~Client() = default;

  virtual Result<Object> get(const Resource&, std::string_view ns, std::string_view name) = 0;
  // All pages, of one namespace ("" for all).
  virtual Result<ObjectList> list(const Resource&, std::string_view ns, const ListOptions&) = 0;
  // The watch's end without error is normal: resume at the last resourceVersion. on_event returns false to end it.
  // An ERROR event of the server is returned as the call's error (gone, throttled, ...), never handed over.
  virtual Result<void> watch(const Resource&, std::string_view ns, const WatchOptions&,
                             const std::function<bool(WatchEvent&&)>& on_event, std::stop_token) = 0;

  virtual Result<Object> create(const Resource&, std::string_view ns, const Object& body) = 0;
  // PUT: body carries metadata.resourceVersion for compare-and-swap. subresource: "" or "status".
  virtual Result<Object> replace(const Resource&, std::string_view ns, std::string_view name, const Object& body,
                                 std::string_view subresource = {}) = 0;
  // Server-side apply; metadata.resourceVersion in the body makes it a compare-and-swap.
  virtual Result<Object> apply(const Resource&, std::string_view ns, std::string_view name, const Object& body,
                               const ApplyOptions&) = 0;
  // body: an object for the merge types, an array for json.
  virtual Result<Object> patch(const Resource&, std::string_view ns, std::string_view name, PatchType,
                               const boost::json::value& body, std::string_view subresource = {}) = 0;
  // An object that is already gone is success.
  virtual Result<void> remove(const Resource&, std::string_view ns, std::string_view name, const DeleteOptions&) = 0;
  // Error kind disruption_budget: a PodDisruptionBudget refuses; throttled: the API server is busy; a gone pod is
  // success.
  virtual Result<void> evict(std::string_view ns, std::string_view pod, std::string_view uid) = 0;
  // Any other path, e.g. "/version" or a pod's log; the body as it came.
  virtual Result<std::string> raw_get(std::string_view path) = 0;
};

using ClientFactory = std::function<std::unique_ptr<Client>()>;

}  // namespace homeostat::kube
