// What an informer knows: a map from key to the last object seen. Stale by nature: decide from it, but GET live before
// anything that cannot be undone, and never conclude from it alone that an object is absent. Safe from any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kube/client.hpp"
#include "kube/object_key.hpp"

namespace homeostat::kube {

using ObjectPtr = std::shared_ptr<const Object>;

// added: old is null; deleted: now is null; a resync or relist without change: old == now.
struct StoreChange {
  ObjectKey key = {};
  ObjectPtr old = {};
  ObjectPtr now = {};
};

class Store {
 public:
  ObjectPtr get(const ObjectKey& key) const;  // nullptr when unknown
  std::vector<ObjectPtr> list() const;        // in the order of their keys
  size_t size() const;

  // For the informer and for tests.
  StoreChange put(ObjectPtr object);
  StoreChange erase(const ObjectKey& key);
  // The whole content at once; returns what differs (by uid and resourceVersion), deletions first.
  std::vector<StoreChange> replace_all(std::vector<ObjectPtr> objects);

 private:
  mutable std::mutex mutex_;
  std::map<ObjectKey, ObjectPtr> objects_;
};

}  // namespace homeostat::kube
