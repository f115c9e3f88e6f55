#include "kube/meta.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "io/json.hpp"

namespace homeostat::kube {

std::string name_of(const Object& object) { return io::string_at(object, {"metadata", "name"}); }
std::string namespace_of(const Object& object) { return io::string_at(object, {"metadata", "namespace"}); }
ObjectKey key_of(const Object& object) { return {namespace_of(object), name_of(object)}; }
std::string uid_of(const Object& object) { return io::string_at(object, {"metadata", "uid"}); }
std::string resource_version_of(const Object& object) { return io::string_at(object, {"metadata", "resourceVersion"}); }
std::int64_t generation_of(const Object& object) { return io::int_at(object, {"metadata", "generation"}); }
bool is_deleting(const Object& object) { return !io::string_at(object, {"metadata", "deletionTimestamp"}).empty(); }
std::string label_of(const Object& object, std::string_view label) {
  return io::string_at(object, {"metadata", "labels", label});
}
std::string annotation_of(const Object& object, std::string_view name) {
  return io::string_at(object, {"metadata", "annotations", name});
}
bool has_label(const Object& object, std::string_view label) {
  return io::find(object, {"metadata", "labels", label}) != nullptr;
}

namespace {
// The position of a finalizer, or the array's size.
size_t finalizer_index(const Object& object, std::string_view finalizer) {
  const auto& list = io::array_at(object, {"metadata", "finalizers"});
  size_t i = 0;
  while (i < list.size() && !(list[i].is_string() && list[i].get_string() == finalizer)) ++i;
  return i;
}
}  // namespace

bool has_finalizer(const Object& object, std::string_view finalizer) {
  return finalizer_index(object, finalizer) < io::array_at(object, {"metadata", "finalizers"}).size();
}

Object new_object(const Resource& resource, std::string_view ns, std::string_view name) {
  boost::json::object metadata{{"name", name}};
  if (resource.namespaced && !ns.empty()) metadata["namespace"] = ns;
  return {{"apiVersion", resource.api_version()}, {"kind", resource.kind}, {"metadata", std::move(metadata)}};
}

Object owner_reference(const Resource& resource, const Object& owner, bool controller) {
  Object out{{"apiVersion", resource.api_version()},
             {"kind", resource.kind},
             {"name", name_of(owner)},
             {"uid", uid_of(owner)}};
  if (controller) out["controller"] = true;
  return out;
}

bool is_owned_by(const Object& object, std::string_view owner_uid) {
  for (const auto& reference : io::array_at(object, {"metadata", "ownerReferences"}))
    if (io::string_at(reference, {"uid"}) == owner_uid) return true;
  return false;
}

namespace {
const boost::json::value* controller_of(const Object& object) {
  for (const auto& reference : io::array_at(object, {"metadata", "ownerReferences"}))
    if (io::bool_at(reference, {"controller"})) return &reference;
  return nullptr;
}
}  // namespace

std::string controller_uid_of(const Object& object) {
  const auto* reference = controller_of(object);
  return reference ? io::string_at(*reference, {"uid"}) : "";
}

ObjectKey controller_key_of(const Object& object, std::string_view owner_kind) {
  const auto* reference = controller_of(object);
  if (reference == nullptr || io::string_at(*reference, {"kind"}) != owner_kind) return {};
  return {namespace_of(object), io::string_at(*reference, {"name"})};
}

std::string meta_time(TimePoint time) {
  std::string text = format_rfc3339(time);  // 2026-11-30T05:49:34.123Z
  return text.substr(0, 19) + "Z";
}

std::string micro_time(TimePoint time) {
  std::string text = format_rfc3339(time);
  return text.substr(0, 23) + "000Z";
}

std::string short_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return fmt::format("{:016x}", hash);
}

boost::json::array remove_finalizer_patch(const Object& object, std::string_view finalizer) {
  if (!has_finalizer(object, finalizer)) return {};
  const std::string path = fmt::format("/metadata/finalizers/{}", finalizer_index(object, finalizer));
  return {{{"op", "test"}, {"path", path}, {"value", finalizer}}, {{"op", "remove"}, {"path", path}}};
}

}  // namespace homeostat::kube
