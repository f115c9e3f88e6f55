// What every Kubernetes object carries: accessors over metadata, owner references, finalizers and the API's two time
// formats. A missing field reads as empty. Pure functions.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/time.hpp"
#include "kube/client.hpp"
#include "kube/object_key.hpp"

namespace homeostat::kube {

std::string name_of(const Object& object);
std::string namespace_of(const Object& object);
ObjectKey key_of(const Object& object);
std::string uid_of(const Object& object);
std::string resource_version_of(const Object& object);
std::int64_t generation_of(const Object& object);
bool is_deleting(const Object& object);                                        // has a deletionTimestamp
std::string label_of(const Object& object, std::string_view label);            // "" when absent
std::string annotation_of(const Object& object, std::string_view annotation);  // "" when absent
bool has_label(const Object& object, std::string_view label);
bool has_finalizer(const Object& object, std::string_view finalizer);

// apiVersion, kind and metadata{name, namespace}: what every body begins with.
Object new_object(const Resource& resource, std::string_view ns, std::string_view name);

// An entry of metadata.ownerReferences. The owner must be in the same namespace or cluster-scoped.
Object owner_reference(const Resource& resource, const Object& owner, bool controller = true);
bool is_owned_by(const Object& object, std::string_view owner_uid);
// The uid of the owner marked controller=true; "" when there is none.
std::string controller_uid_of(const Object& object);
ObjectKey controller_key_of(const Object& object,
                            std::string_view owner_kind);  // empty name when there is none of that kind

// metav1.Time (whole seconds) and metav1.MicroTime (six decimals, which Lease and Event demand).
std::string meta_time(TimePoint time);
std::string micro_time(TimePoint time);

// Deterministic lower-case hexadecimal hash of a text (64-bit FNV-1a, 16 digits): for names, never for security.
std::string short_hash(std::string_view text);

// Removing a finalizer that may have moved: a JSON patch of test + remove. Empty array when it is not there.
boost::json::array remove_finalizer_patch(const Object& object, std::string_view finalizer);

}  // namespace homeostat::kube
