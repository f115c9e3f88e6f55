// Keeps a Store equal to what the API server has, and tells subscribers of each change as it arrives. One thread and
// one connection per informer. Survives lost connections, compaction (410), half-open watches and restarts of the
// server. Subscribers are called on the informer's thread, in order, without any lock held, and must return quickly.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "io/clock.hpp"
#include "kube/client.hpp"
#include "kube/object_key.hpp"
#include "kube/store.hpp"

namespace homeostat::kube {

struct InformerOptions {
  std::string ns = {};  // "" for all
  std::string label_selector = {};
  std::string field_selector = {};
  Duration resync{3'600'000};  // every object is told again about this often; 0: never
};

class Informer {
 public:
  using Subscriber = std::function<void(const ObjectKey& key, const ObjectPtr& old, const ObjectPtr& now)>;

  // clock and random outlive the informer.
  Informer(ClientFactory clients, Resource resource, InformerOptions options, io::Clock& clock, io::Random& random);

  const Resource& resource() const { return resource_; }
  Store& store() { return store_; }
  const Store& store() const { return store_; }

  // Before run().
  void subscribe(Subscriber subscriber);

  // True once the first list is in the store and was told to the subscribers.
  bool synced() const;
  bool wait_synced(Duration timeout, std::stop_token stop = {});

  // Blocks until stop is requested. Call it on a thread of its own.
  void run(std::stop_token stop);

  // One consistent list into the store, on the caller's thread, instead of run(): for the simulation and for one-shot
  // tools.
  Result<void> relist();

 private:
  void act_list(class Reflector& reflector, Client& client, const std::string& resource_version);
  void act_watch(class Reflector& reflector, Client& client, const std::string& resource_version,
                 std::chrono::seconds timeout, std::stop_token stop);
  void adopt(std::vector<Object> items);
  void tell(const StoreChange& change);
  void resync_when_due();
  void mark_synced();

  ClientFactory clients_;
  Resource resource_;
  InformerOptions options_;
  io::Clock& clock_;
  io::Random& random_;
  Store store_;
  std::vector<Subscriber> subscribers_;
  Duration next_resync_{0};
  mutable std::mutex mutex_;
  std::condition_variable_any synced_changed_;
  bool synced_ = false;
};

}  // namespace homeostat::kube
