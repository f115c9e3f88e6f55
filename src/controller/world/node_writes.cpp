#include "controller/world/node_writes.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

// The kubelet writes its node every few seconds, so a conflict is common and means only: read again.
constexpr int max_conflicts = 5;

kube::Object with_label(std::string_view label, boost::json::value value) {
  return {{"metadata", {{"labels", {{label, std::move(value)}}}}}};
}

kube::Object with_annotation(std::string_view annotation, std::string_view value) {
  return {{"metadata", {{"annotations", {{annotation, value}}}}}};
}

boost::json::array taints_without(const kube::Object& node, std::string_view key) {
  boost::json::array kept;
  for (const auto& taint : io::array_at(node, {"spec", "taints"}))
    if (io::string_at(taint, {"key"}) != key) kept.push_back(taint);
  return kept;
}

}  // namespace

Result<void> change_node(kube::Client& client, std::string_view name, std::string_view uid,
                         const std::function<Result<std::optional<kube::Object>>(const kube::Object&)>& change) {
  for (int attempt = 0; attempt < max_conflicts; ++attempt) {
    auto node = client.get(kube::resources::nodes, "", name);
    if (!node) return std::unexpected(node.error());
    if (kube::uid_of(*node) != uid)
      return fail(ErrorKind::conflict, "node " + std::string(name) + " is another one now");
    auto patch = change(*node);
    if (!patch) return std::unexpected(patch.error());
    if (!*patch) return {};
    io::set_at(**patch, {"metadata", "resourceVersion"}, boost::json::value(kube::resource_version_of(*node)));
    auto written = client.patch(kube::resources::nodes, "", name, kube::PatchType::merge, **patch);
    if (written) return {};
    if (written.error().kind != ErrorKind::conflict) return std::unexpected(written.error());
  }
  return fail(ErrorKind::conflict, "node " + std::string(name) + " changed each time that it was to be written");
}

Result<void> promote_node(kube::Client& client, std::string_view name, std::string_view uid, std::string_view workers,
                          std::string_view promoted_for) {
  return change_node(client, name, uid, [&](const kube::Object& node) -> Result<std::optional<kube::Object>> {
    boost::json::array kept = taints_without(node, names::spare_taint);
    bool spare = kept.size() != io::array_at(node, {"spec", "taints"}).size();
    std::string owner = kube::annotation_of(node, names::promoted_for_annotation);
    if (!spare && owner != promoted_for)
      return fail(ErrorKind::conflict, "node " + std::string(name) + " was promoted by someone else");
    bool labelled = workers.empty() || kube::label_of(node, names::workers_label) == workers;
    if (!spare && labelled) return std::nullopt;
    kube::Object patch = with_annotation(names::promoted_for_annotation, promoted_for);
    if (!workers.empty()) io::set_at(patch, {"metadata", "labels", names::workers_label}, boost::json::value(workers));
    io::set_at(patch, {"spec", "taints"}, std::move(kept));
    return patch;
  });
}

Result<void> cordon_node(kube::Client& client, std::string_view name, std::string_view uid, std::string_view repair) {
  return change_node(client, name, uid, [&](const kube::Object& node) -> Result<std::optional<kube::Object>> {
    // A cordon that someone else made stays theirs.
    if (io::bool_at(node, {"spec", "unschedulable"})) return std::nullopt;
    kube::Object patch = with_annotation(names::cordoned_by_annotation, repair);
    patch["spec"] = {{"unschedulable", true}};
    return patch;
  });
}

Result<void> remove_workers_label(kube::Client& client, std::string_view name, std::string_view uid) {
  return change_node(client, name, uid, [&](const kube::Object& node) -> Result<std::optional<kube::Object>> {
    if (!kube::has_label(node, names::workers_label)) return std::nullopt;
    return with_label(names::workers_label, nullptr);
  });
}

Result<void> set_workers_label(kube::Client& client, std::string_view name, std::string_view uid,
                               std::string_view workers) {
  return change_node(client, name, uid, [&](const kube::Object& node) -> Result<std::optional<kube::Object>> {
    if (kube::label_of(node, names::workers_label) == workers) return std::nullopt;
    return with_label(names::workers_label, boost::json::value(workers));
  });
}

Result<void> annotate_machine_token(kube::Client& client, std::string_view name, std::string_view uid,
                                    std::string_view token) {
  return change_node(client, name, uid, [&](const kube::Object& node) -> Result<std::optional<kube::Object>> {
    if (kube::annotation_of(node, names::machine_token_annotation) == token) return std::nullopt;
    return with_annotation(names::machine_token_annotation, token);
  });
}

}  // namespace homeostat::controller
