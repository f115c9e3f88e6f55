#include "controller/slurm_cluster/reconciler.hpp"

#include <fmt/core.h>

#include <boost/json/value.hpp>

#include "api/slurm_cluster.hpp"
#include "controller/slurm_cluster/keys.hpp"
#include "controller/slurm_cluster/render.hpp"
#include "controller/slurm_cluster/status.hpp"
#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {
namespace {

constexpr Duration steady_look{600'000};  // certificates age; everything else wakes us by its change

Result<void> apply_objects(kube::Client& client, const api::SlurmCluster& cluster,
                           const std::vector<RenderedObject>& objects) {
  for (const auto& object : objects) {
    const auto applied =
        client.apply(object.resource, cluster.ns, object.name, object.body,
                     {.field_manager = std::string(names::controller_manager), .force = true, .subresource = ""});
    if (!applied)
      return std::unexpected(
          Error{applied.error().kind == ErrorKind::invalid ? ErrorKind::internal : applied.error().kind,
                fmt::format("{} {}: {}", object.resource.kind, object.name, applied.error().message),
                {}});
  }
  return {};
}

// nullopt when it is not there yet. Any other failure is told: a status must not be written from what could not be
// read.
Result<std::optional<kube::Object>> get_part(kube::Client& client, const kube::Resource& resource,
                                             const std::string& ns, const std::string& name) {
  auto found = client.get(resource, ns, name);
  if (found) return std::optional(std::move(*found));
  if (found.error().kind == ErrorKind::not_found) return std::optional<kube::Object>();
  return std::unexpected(found.error());
}

Result<SlurmClusterParts> read_parts(kube::Client& client, const api::SlurmCluster& cluster) {
  SlurmClusterParts parts;
  const auto read = [&](std::optional<kube::Object>& into, const kube::Resource& resource,
                        const std::string& name) -> Result<void> {
    auto found = get_part(client, resource, cluster.ns, name);
    if (!found) return std::unexpected(found.error());
    into = std::move(*found);
    return {};
  };
  if (auto r = read(parts.controller, kube::resources::stateful_sets, controller_name(cluster)); !r)
    return std::unexpected(r.error());
  if (auto r = read(parts.rest, kube::resources::deployments, rest_name(cluster)); !r)
    return std::unexpected(r.error());
  if (auto r = read(parts.login, kube::resources::deployments, login_name(cluster)); !r)
    return std::unexpected(r.error());
  if (auto r = read(parts.login_service, kube::resources::services, login_name(cluster)); !r)
    return std::unexpected(r.error());
  for (const auto& group : cluster.workers) {
    std::optional<kube::Object> workers;
    if (auto r = read(workers, kube::resources::daemon_sets, worker_name(cluster, group)); !r)
      return std::unexpected(r.error());
    if (workers) parts.workers.push_back(std::move(*workers));
  }
  return parts;
}

Result<void> write_status(kube::Client& client, const api::SlurmCluster& cluster, const kube::Object& before,
                          kube::Object status) {
  const auto* old = io::find(before, {"status"});
  if (old && old->is_object() && old->get_object() == status) return {};
  const auto written = client.patch(kube::resources::slurm_clusters, cluster.ns, cluster.name, kube::PatchType::merge,
                                    boost::json::object{{"status", std::move(status)}}, "status");
  if (!written && written.error().kind != ErrorKind::not_found) return std::unexpected(written.error());
  return {};
}

}  // namespace

Result<kube::ReconcileResult> SlurmClusterReconciler::reconcile(const kube::ObjectKey& key, std::stop_token) {
  const auto client = clients_();
  const auto object = client->get(kube::resources::slurm_clusters, key.ns, key.name);
  if (!object) {
    if (object.error().kind == ErrorKind::not_found) return kube::ReconcileResult{};
    return std::unexpected(object.error());
  }
  const auto cluster = api::decode_slurm_cluster(*object);
  if (cluster.deleting) return kube::ReconcileResult{};

  std::string problem;
  const auto stamps = ensure_keys(*client, cluster, *object, random_, clock_.now());
  if (!stamps && stamps.error().kind != ErrorKind::invalid) return std::unexpected(stamps.error());
  const auto rendered = render_slurm_cluster(cluster, *object, stamps ? *stamps : KeyStamps{});
  if (!stamps) {
    problem = stamps.error().message;
  } else if (!rendered) {
    problem = rendered.error().message;  // what runs is left as it is
  } else if (auto applied = apply_objects(*client, cluster, *rendered); !applied) {
    return std::unexpected(applied.error());
  }
  const auto parts = read_parts(*client, cluster);
  if (!parts) return std::unexpected(parts.error());
  if (auto written = write_status(*client, cluster, *object,
                                  slurm_cluster_status(cluster, *object, *parts, problem, clock_.now()));
      !written)
    return std::unexpected(written.error());
  return kube::ReconcileResult{.requeue_after = steady_look};
}

}  // namespace homeostat::controller
