#include "lab/control_plane.hpp"

#include <unistd.h>

#include "core/names.hpp"
#include "io/files.hpp"
#include "io/jwt.hpp"

namespace homeostat::lab {
namespace {

constexpr const char* kube_programs[] = {
    "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"};

// Changes are worth a line, reads are not; secrets never with their content.
constexpr const char* audit_policy = R"(apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources:
  - group: coordination.k8s.io
    resources: [leases]
  - group: ""
    resources: [events]
- level: Metadata
)";

std::string corefile(const LabConfig& config) {
  return R"(.:53 {
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig )" +
         config.path("control-plane/coredns.kubeconfig") + R"(
        pods insecure
        ttl 2
    }
    cache 2
}
)";
}

ZoneProgram apiserver(const LabConfig& config) {
  auto pki = config.path("control-plane/pki/");
  auto audit = config.path("audit.log");
  return {"kube-apiserver",
          {config.tool("kube-apiserver"),
           "--advertise-address=" + config.plan.control_plane(),
           "--secure-port=" + std::to_string(api_port),
           "--etcd-servers=http://127.0.0.1:2379",
           "--client-ca-file=" + pki + "ca.crt",
           "--tls-cert-file=" + pki + "apiserver.crt",
           "--tls-private-key-file=" + pki + "apiserver.key",
           "--kubelet-client-certificate=" + pki + "kubelet-client.crt",
           "--kubelet-client-key=" + pki + "kubelet-client.key",
           "--kubelet-certificate-authority=" + pki + "ca.crt",
           "--kubelet-preferred-address-types=InternalIP",
           "--service-account-key-file=" + pki + "service-accounts.pub",
           "--service-account-signing-key-file=" + pki + "service-accounts.key",
           "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
           "--service-cluster-ip-range=" + to_string(config.plan.services),
           "--authorization-mode=Node,RBAC",
           "--enable-admission-plugins=NodeRestriction",
           "--allow-privileged=true",
           "--profiling=false",
           "--audit-policy-file=" + config.path("control-plane/audit-policy.yaml"),
           "--audit-log-path=" + audit,
           "--audit-log-maxsize=50",
           "--audit-log-maxbackup=1"},
          {},
          {}};
}

}  // namespace

Result<void> link_tools(const LabConfig& config) {
  if (auto made = io::make_folders(config.path("bin")); !made) return made;
  auto link = [&](const std::string& to, const std::string& name) -> Result<void> {
    auto at = config.tool(name);
    ::unlink(at.c_str());
    if (::symlink(to.c_str(), at.c_str()) != 0) return fail(ErrorKind::internal, "cannot make the link " + at);
    return {};
  };
  for (const char* name : kube_programs)
    if (auto made = link(config.kubernetes + "/kube", name); !made) return made;
  return link(config.kubernetes + "/coredns", "coredns");
}

std::string kube_proxy_config(const LabConfig& config, std::string_view zone, std::string_view kubeconfig) {
  return "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\nclusterCIDR: " +
         to_string(config.plan.pods) + "\nhostnameOverride: " + std::string(zone) +
         "\nclientConnection:\n  kubeconfig: " + std::string(kubeconfig) +
         "\nconntrack:\n  maxPerCore: 0\n  min: 0\nnftables:\n  minSyncPeriod: 100ms\nhealthzBindAddress: "
         "127.0.0.1:10256\nmetricsBindAddress: 127.0.0.1:10249\n";
}

Result<void> prepare_control_plane(const LabConfig& config, const Pki& pki) {
  auto folder = config.path("control-plane/");
  auto certs = folder + "pki/";
  io::CertificateSpec api;
  api.common_name = "kube-apiserver";
  api.dns_names = {"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
                   "localhost"};
  api.ips = {config.plan.control_plane(), config.plan.kubernetes_service(), "127.0.0.1"};
  api.server = true;
  io::CertificateSpec kubelet_client;
  kubelet_client.common_name = "kube-apiserver-kubelet-client";
  kubelet_client.organizations = {"system:masters"};
  kubelet_client.client = true;
  io::CertificateSpec provider;
  provider.common_name = "homeostat-lab";
  provider.ips = {config.plan.host()};
  provider.server = true;
  for (const auto& [name, spec] : {std::pair<const char*, const io::CertificateSpec&>{"apiserver", api},
                                   {"kubelet-client", kubelet_client},
                                   {"provider", provider}})
    if (auto made = pki.certificate(certs + name, spec); !made) return made;
  if (!io::exists(certs + "service-accounts.key")) {
    auto key = io::make_private_key();
    if (!key) return std::unexpected(key.error());
    auto shown = io::public_key(*key);
    if (!shown) return std::unexpected(shown.error());
    if (auto written = io::write_file(certs + "service-accounts.pub", *shown); !written) return written;
    if (auto written = io::write_file(certs + "service-accounts.key", *key, 0600); !written) return written;
  }
  struct User {
    std::string path;
    const char* name;
    const char* group;
  };
  for (const auto& user : {User{folder + "kube-controller-manager.kubeconfig", "system:kube-controller-manager", ""},
                           User{folder + "kube-scheduler.kubeconfig", "system:kube-scheduler", ""},
                           User{folder + "kube-proxy.kubeconfig", "system:kube-proxy", ""},
                           User{folder + "coredns.kubeconfig", "system:coredns", ""},
                           User{config.path("kubeconfig"), "lab-admin", "system:masters"}})
    if (auto made = pki.kubeconfig(config, user.path, user.name, user.group); !made) return made;
  for (const auto& [path, text] :
       {std::pair<std::string, std::string>{folder + "audit-policy.yaml", audit_policy},
        {folder + "Corefile", corefile(config)},
        {folder + "kube-proxy.yaml", kube_proxy_config(config, control_plane_zone, folder + "kube-proxy.kubeconfig")}})
    if (auto written = io::write_file(path, text); !written) return written;
  return {};
}

ZoneSpec control_plane_spec(const LabConfig& config) {
  ZoneSpec spec;
  auto folder = config.path("control-plane");
  auto pki = folder + "/pki/";
  auto identity = [&folder](std::string_view name) {
    auto file = folder + "/" + std::string(name) + ".kubeconfig";
    return std::vector<std::string>{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file,
                                    "--authorization-kubeconfig=" + file, "--leader-elect=false",
                                    "--bind-address=127.0.0.1"};
  };
  spec.name = control_plane_zone;
  spec.netns = config.netns(control_plane_zone);
  spec.cgroup = config.cgroup(control_plane_zone);
  spec.record = config.record(control_plane_zone);
  spec.folder = folder;
  spec.programs = {
      {"etcd",
       {"/usr/bin/etcd", "--name=lab", "--data-dir=" + folder + "/etcd", "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=lab=http://127.0.0.1:2380",
        "--log-level=warn", "--auto-compaction-mode=periodic", "--auto-compaction-retention=30m"}},
      apiserver(config)};
  ZoneProgram manager{"kube-controller-manager", {config.tool("kube-controller-manager")}};
  for (const auto& flag : identity("kube-controller-manager")) manager.argv.push_back(flag);
  for (const auto& flag : {"--use-service-account-credentials=true", "--allocate-node-cidrs=false"})
    manager.argv.emplace_back(flag);
  manager.argv.push_back("--root-ca-file=" + pki + "ca.crt");
  manager.argv.push_back("--service-account-private-key-file=" + pki + "service-accounts.key");
  manager.argv.push_back("--cluster-signing-cert-file=" + pki + "ca.crt");
  manager.argv.push_back("--cluster-signing-key-file=" + pki + "ca.key");
  ZoneProgram scheduler{"kube-scheduler", {config.tool("kube-scheduler")}};
  for (const auto& flag : identity("kube-scheduler")) scheduler.argv.push_back(flag);
  spec.programs.push_back(std::move(manager));
  spec.programs.push_back(std::move(scheduler));
  spec.programs.push_back({"coredns", {config.tool("coredns"), "-conf", folder + "/Corefile"}});
  spec.programs.push_back({"kube-proxy", {config.tool("kube-proxy"), "--config=" + folder + "/kube-proxy.yaml"}});
  return spec;
}

Result<std::string> bootstrap_manifests(const LabConfig& config, const Pki& pki, std::string_view provider_token) {
  std::string ns(names::system_namespace);
  return R"(apiVersion: v1
kind: Namespace
metadata: {name: )" +
         ns + R"(}
---
apiVersion: v1
kind: Secret
metadata: {name: homeostat-lab-provider, namespace: )" +
         ns + R"(}
type: Opaque
data:
  endpoint: )" +
         io::base64_encode("https://" + config.plan.host() + ":" + std::to_string(provider_port)) + R"(
  token: )" +
         io::base64_encode(provider_token) + R"(
  ca.crt: )" +
         io::base64_encode(pki.ca_pem()) + R"(
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:coredns}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: system:coredns}
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: )" +
         config.plan.dns_service() + R"(
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kube-dns-lab
  namespace: kube-system
  labels: {kubernetes.io/service-name: kube-dns, endpointslice.kubernetes.io/managed-by: homeostat-lab}
addressType: IPv4
endpoints:
- {addresses: [)" +
         config.plan.control_plane() + R"(], conditions: {ready: true}}
ports:
- {name: dns, port: 53, protocol: UDP}
- {name: dns-tcp, port: 53, protocol: TCP}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: homeostat-lab-shared}
provisioner: homeostat.dev/lab
reclaimPolicy: Retain
volumeBindingMode: Immediate
)";
}

}  // namespace homeostat::lab
