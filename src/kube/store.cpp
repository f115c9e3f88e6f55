#include "kube/store.hpp"

#include <set>

#include "kube/meta.hpp"

namespace homeostat::kube {

ObjectPtr Store::get(const ObjectKey& key) const {
  std::lock_guard lock(mutex_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

std::vector<ObjectPtr> Store::list() const {
  std::lock_guard lock(mutex_);
  std::vector<ObjectPtr> out;
  out.reserve(objects_.size());
  for (const auto& [key, object] : objects_) out.push_back(object);
  return out;
}

size_t Store::size() const {
  std::lock_guard lock(mutex_);
  return objects_.size();
}

StoreChange Store::put(ObjectPtr object) {
  StoreChange change{.key = key_of(*object), .now = object};
  std::lock_guard lock(mutex_);
  change.old = std::exchange(objects_[change.key], std::move(object));
  return change;
}

StoreChange Store::erase(const ObjectKey& key) {
  StoreChange change{.key = key};
  std::lock_guard lock(mutex_);
  if (auto node = objects_.extract(key); !node.empty()) change.old = std::move(node.mapped());
  return change;
}

std::vector<StoreChange> Store::replace_all(std::vector<ObjectPtr> objects) {
  std::map<ObjectKey, ObjectPtr> next;
  for (auto& object : objects) {
    ObjectKey key = key_of(*object);
    next[std::move(key)] = std::move(object);
  }
  std::vector<StoreChange> changes;
  std::lock_guard lock(mutex_);
  for (const auto& [key, old] : objects_) {
    const auto found = next.find(key);
    // Another uid under the same name: the old one was deleted and a new one made while nobody looked.
    if (found == next.end() || uid_of(*found->second) != uid_of(*old)) changes.push_back({key, old, nullptr});
  }
  for (const auto& [key, now] : next) {
    const auto found = objects_.find(key);
    if (found == objects_.end() || uid_of(*found->second) != uid_of(*now))
      changes.push_back({key, nullptr, now});
    else if (resource_version_of(*found->second) != resource_version_of(*now))
      changes.push_back({key, found->second, now});
  }
  objects_ = std::move(next);
  return changes;
}

}  // namespace homeostat::kube
