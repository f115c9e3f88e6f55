// The name of an object within its kind.
#pragma once

#include <compare>
#include <string>

namespace homeostat::kube {

struct ObjectKey {
  std::string ns = {};  // "" for cluster-scoped kinds
  std::string name = {};
  auto operator<=>(const ObjectKey&) const = default;
};

// "ns/name", or "name" without a namespace: for logs.
inline std::string to_string(const ObjectKey& key) { return key.ns.empty() ? key.name : key.ns + "/" + key.name; }

}  // namespace homeostat::kube
