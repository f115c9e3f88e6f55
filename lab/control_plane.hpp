// The control plane as a zone: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, CoreDNS and a kube-proxy
// that gives the host a way to services.
#pragma once

#include <string>

#include "core/result.hpp"
#include "lab/config.hpp"
#include "lab/pki.hpp"
#include "lab/zone_spec.hpp"

namespace homeostat::lab {

// <state>/bin: the six Kubernetes programs as links to the one binary, and coredns.
Result<void> link_tools(const LabConfig& config);
// Certificates, kubeconfigs (also the person's, <state>/kubeconfig) and configuration files; what is there stays.
Result<void> prepare_control_plane(const LabConfig& config, const Pki& pki);
ZoneSpec control_plane_spec(const LabConfig& config);
// The objects that every cluster of the lab begins with, as manifests for `kubectl apply`.
Result<std::string> bootstrap_manifests(const LabConfig& config, const Pki& pki, std::string_view provider_token);

// kube-proxy's configuration for the zone of that name.
std::string kube_proxy_config(const LabConfig& config, std::string_view zone, std::string_view kubeconfig);

}  // namespace homeostat::lab
