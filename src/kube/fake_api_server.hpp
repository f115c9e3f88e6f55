// An API server in memory, reached as an io::HttpTransport, so that the real Client, Informer and Controller run
// against it. It keeps the semantics that a client must get right: resourceVersions, paging, watches with bookmarks and
// compaction, status subresource, patches, server-side apply with managed fields, generations, finalizers, owner
// garbage collection, evictions under PodDisruptionBudgets, preconditions. Hooks inject faults and record every
// mutation. Safe from any thread; outlives its transports.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "io/clock.hpp"
#include "io/http.hpp"
#include "kube/client.hpp"
#include "kube/connect.hpp"

namespace homeostat::kube {

class FakeApiServer {
 public:
  // One request as the hooks see it.
  struct Call {
    std::string verb = {};  // get list watch create update patch apply delete evict
    Resource resource = {};
    std::string ns = {};
    std::string name = {};
    std::string subresource = {};
    std::string manager = {};  // fieldManager, else the first word of the User-Agent up to its '/'
    std::string user_agent = {};
    std::string body = {};
  };
  static bool is_mutation(const Call& call);

  enum class Fault {
    none,
    unreachable,   // no effect; the client gets `unreachable`
    lost_request,  // no effect; the client gets `unknown_outcome`
    lost_reply,    // it takes effect; the client gets `unknown_outcome`
    conflict,      // no effect; 409 Conflict
    server_error,  // no effect; 500
    throttled,     // no effect; 429 with Retry-After: 1
    stale_list,    // a list or get answers from the state before the last mutation of its kind
  };
  using FaultHook = std::function<Fault(const Call&)>;
  // May change the new object (null old: create; null now: delete) or refuse with a sentence (answered as 422 Invalid).
  using AdmissionHook = std::function<Result<void>(const Call&, const Object* old, Object* now)>;

  struct Mutation {
    TimePoint at{};
    std::string verb = {};  // create update apply patch delete evict
    Resource resource = {};
    std::string ns = {};
    std::string name = {};
    std::string subresource = {};
    std::string manager = {};
    std::string uid = {};
    std::string resource_version = {};
  };

  // Knows kube::resources. clock outlives the server. watch_cache: how many events can be replayed.
  explicit FakeApiServer(io::Clock& clock, size_t watch_cache = 4096);
  ~FakeApiServer();
  FakeApiServer(const FakeApiServer&) = delete;
  FakeApiServer& operator=(const FakeApiServer&) = delete;

  void register_resource(const Resource& resource, bool status_subresource = true);

  TransportMaker transport_maker();
  io::TransportFactory transport_factory();
  ClusterConfig cluster_config() const;
  // Clients without rate limit, for tests.
  ClientFactory client_factory(io::Random& random, std::string user_agent = "test");

  void set_fault_hook(FaultHook hook);          // called without the server's lock
  void set_admission_hook(AdmissionHook hook);  // called under the server's lock: it must not call the server
  // Called after each mutation has taken effect, without the server's lock, before the reply goes out: crash points.
  void set_mutation_hook(std::function<void(const Mutation&)> hook);
  std::vector<Mutation> mutations() const;
  void clear_mutations();

  // The world beside the client: direct access without faults, hooks or preconditions. put() creates or replaces the
  // whole object.
  std::optional<Object> find(const Resource& resource, std::string_view ns, std::string_view name) const;
  std::vector<Object> all(const Resource& resource) const;
  Object put(const Resource& resource, Object object);
  bool erase(const Resource& resource, std::string_view ns, std::string_view name);  // at once, finalizers or not

  // Pods bound to a node then stay, terminating, until they are deleted with grace 0 or erased, as they do until a
  // kubelet has stopped them. Off at first: a deleted pod is gone at once.
  void set_graceful_pods(bool graceful);

  void compact();         // older resourceVersions and continue tokens are answered with 410
  void send_bookmarks();  // to all watches that asked for them
  void close_watches();   // ends them without an error
  size_t open_watches() const;
  std::string resource_version() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace homeostat::kube
