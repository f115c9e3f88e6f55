#include "lab/machine.hpp"

#include <fmt/core.h>

#include "core/names.hpp"
#include "io/files.hpp"
#include "lab/control_plane.hpp"
#include "lab/images.hpp"
#include "lab/kernel_log.hpp"
#include "lab/network.hpp"
#include "lab/random.hpp"
#include "lab/zones.hpp"

namespace homeostat::lab {
namespace {

// Where the machine's folder is seen from inside: short, and the same in each.
constexpr const char* inside = "/run/machine";

std::string node_labels(const MachineOrder& order) {
  auto labels = order.labels;
  if (!order.pool.empty()) labels[std::string(names::pool_label)] = order.pool;
  std::string text;
  for (const auto& [key, value] : labels) text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  return text;
}

Result<void> write_machine_files(const LabConfig& config, const Pki& pki, const Machine& machine) {
  auto folder = config.machine(machine.order.name);
  for (const char* name : {"/kubelet", "/cni/net.d", "/cni/networks/lab", "/pod-logs", "/pki", "/log"})
    if (auto made = io::make_folders(folder + name); !made) return made;
  auto node = "system:node:" + machine.order.name;
  io::CertificateSpec serving;
  serving.common_name = node;
  serving.organizations = {"system:nodes"};
  serving.dns_names = {machine.order.name};
  serving.ips = {config.plan.machine(machine.number)};
  serving.server = true;
  if (auto made = pki.certificate(folder + "/pki/kubelet", serving); !made) return made;
  if (auto made = pki.kubeconfig(config, folder + "/pki/kubelet.kubeconfig", node, "system:nodes"); !made) return made;
  if (auto made = pki.kubeconfig(config, folder + "/pki/kube-proxy.kubeconfig", "system:kube-proxy", ""); !made)
    return made;
  const std::pair<const char*, std::string> files[] = {
      {"/pki/ca.crt", pki.ca_pem()},
      {"/containerd.toml", containerd_config(config)},
      {"/cni/net.d/10-lab.conflist", cni_config(config, machine.number)},
      {"/kubelet.yaml", kubelet_config(config, machine.order)},
      {"/kube-proxy.yaml",
       kube_proxy_config(config, machine.order.name, std::string(inside) + "/pki/kube-proxy.kubeconfig")},
      {"/resolv.conf", "nameserver " + config.plan.dns_service() + "\n"},
  };
  for (const auto& [name, text] : files)
    if (auto written = io::write_file(folder + name, text); !written) return written;
  if (!io::exists(folder + "/machine-id"))
    if (auto written = io::write_file(folder + "/machine-id", random_hex(16) + "\n"); !written) return written;
  return {};
}

}  // namespace

std::string containerd_config(const LabConfig&) {
  std::string in = inside;
  return "version = 2\nroot = \"" + in +
         "/containerd\"\nstate = \"/run/containerd\"\n"
         "disabled_plugins = [\"io.containerd.internal.v1.opt\", \"io.containerd.snapshotter.v1.btrfs\", "
         "\"io.containerd.snapshotter.v1.devmapper\", "
         "\"io.containerd.snapshotter.v1.zfs\", \"io.containerd.snapshotter.v1.aufs\"]\n"
         "[grpc]\n  address = \"/run/containerd/containerd.sock\"\n"
         "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
         "  sandbox_image = \"localhost/pause:1\"\n"
         "  disable_apparmor = true\n"
         // Without CAP_SYS_RESOURCE a lower oom_score_adj cannot be set, and runc would fail every sandbox.
         "  restrict_oom_score_adj = true\n"
         "  disable_tcp_service = true\n"
         "[plugins.\"io.containerd.grpc.v1.cri\".cni]\n"
         "  bin_dir = \"/usr/lib/cni\"\n  conf_dir = \"" +
         in +
         "/cni/net.d\"\n"
         "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n"
         "  runtime_type = \"io.containerd.runc.v2\"\n"
         "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n"
         "  SystemdCgroup = false\n";
}

// ptp and not bridge: between two pods of one machine every packet is routed, so that a Service's address is translated
// back too.
std::string cni_config(const LabConfig& config, int number) {
  return R"({"cniVersion":"0.4.0","name":"lab","plugins":[{"type":"ptp","ipMasq":false,"ipam":{"type":"host-local","dataDir":"/var/lib/cni/networks","ranges":[[{"subnet":")" +
         to_string(config.plan.pods_of(number)) +
         R"("}]],"routes":[{"dst":"0.0.0.0/0"}]}},{"type":"portmap","capabilities":{"portMappings":true}}]})" + "\n";
}

std::string kubelet_config(const LabConfig& config, const MachineOrder& order) {
  std::string in = inside;
  std::string text = R"(apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: )" +
                     in + R"(/pki/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: )" + in +
                     R"(/pki/kubelet.crt
tlsPrivateKeyFile: )" +
                     in + R"(/pki/kubelet.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: )" + config.cgroup(order.name) +
                     R"(
failCgroupV1: false
enforceNodeAllocatable: []
failSwapOn: false
clusterDNS: [)" + config.plan.dns_service() +
                     R"(]
clusterDomain: cluster.local
resolvConf: )" + in + R"(/resolv.conf
podLogsDir: /var/log/pods
volumePluginDir: /var/lib/kubelet/volume-plugins
healthzBindAddress: 127.0.0.1
maxPods: 60
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
registerNode: true
# Restarts of a container are tried soon again: whoever kills a process in the lab wants to see what happens next.
featureGates: {KubeletCrashLoopBackOffMax: true}
crashLoopBackOff: {maxContainerRestartPeriod: 2s}
)";
  if (order.taints.empty()) return text;
  text += "registerWithTaints:\n";
  for (const auto& taint : order.taints) {
    auto colon = taint.rfind(':');
    auto pair = taint.substr(0, colon);
    auto equals = pair.find('=');
    text += "- {key: \"" + pair.substr(0, equals) + "\", value: \"" +
            (equals == std::string::npos ? "" : pair.substr(equals + 1)) + "\", effect: " + taint.substr(colon + 1) +
            "}\n";
  }
  return text;
}

ZoneSpec machine_spec(const LabConfig& config, const Machine& machine) {
  using Kind = ZoneMount::Kind;
  const auto& name = machine.order.name;
  auto folder = config.machine(name);
  std::string in = inside;
  ZoneSpec spec;
  spec.name = name;
  spec.netns = config.netns(name);
  spec.cgroup = config.cgroup(name);
  spec.record = config.record(name);
  spec.folder = folder;
  spec.own_dev = true;
  spec.mounts = {{Kind::tmpfs, "", "/run", false},
                 {Kind::bind, folder, in, false},
                 {Kind::bind, folder + "/run", "/run/homeostat", false},
                 {Kind::tmpfs, "", "/srv", false},
                 {Kind::bind, config.path("shared"), "/srv/homeostat/shared", false},
                 {Kind::tmpfs, "", "/var/log", false},
                 {Kind::bind, folder + "/pod-logs", "/var/log/pods", false},
                 {Kind::bind, folder + "/kubelet", "/var/lib/kubelet", false},
                 {Kind::bind, folder + "/cni", "/var/lib/cni", false},
                 {Kind::bind, folder + "/run/boot_id", "/proc/sys/kernel/random/boot_id", true}};
  if (io::exists("/etc/machine-id"))
    spec.mounts.push_back({Kind::bind, folder + "/machine-id", "/etc/machine-id", true});
  // Where no NVIDIA GPU is, no driver of NVIDIA is installed: the agent finds its library as on a real machine.
  const bool amd = has_amd_gpus(machine.order);
  if (!config.nvml.empty() && machine.order.gpus > 0 && !amd)
    spec.mounts.push_back({Kind::bind, config.nvml.substr(0, config.nvml.rfind('/')), "/usr/lib/homeostat/nvml", true});
  // Device 1:3 is /dev/null: what a fake GPU has to do.
  if (amd) {
    spec.devices.push_back({"kfd", 1, 3});
  } else {
    for (int i = 0; i < machine.order.gpus; ++i) spec.devices.push_back({"nvidia" + std::to_string(i), 1, 3});
    if (machine.order.gpus > 0) spec.devices.push_back({"nvidiactl", 1, 3});
  }
  std::string socket = "/run/containerd/containerd.sock";
  spec.programs = {
      {"containerd", {"/usr/bin/containerd", "--config", in + "/containerd.toml"}},
      {"kubelet",
       {config.tool("kubelet"), "--config=" + in + "/kubelet.yaml", "--kubeconfig=" + in + "/pki/kubelet.kubeconfig",
        "--hostname-override=" + name, "--node-ip=" + config.plan.machine(machine.number),
        "--root-dir=/var/lib/kubelet", "--cert-dir=" + in + "/pki", "--node-labels=" + node_labels(machine.order)},
       {},
       socket},
      {"kube-proxy", {config.tool("kube-proxy"), "--config=" + in + "/kube-proxy.yaml"}}};
  return spec;
}

bool machine_runs(const LabConfig& config, std::string_view name) {
  auto record = read_record(config.record(name));
  return record && alive(*record);
}

Result<void> make_machine(const LabConfig& config, const Pki& pki, const Machine& machine,
                          const std::string& template_root) {
  const auto& name = machine.order.name;
  if (machine_runs(config, name)) return {};
  auto folder = config.machine(name);
  if (auto killed = kill_zone(config.record(name)); !killed) return killed;
  if (auto written = write_machine_files(config, pki, machine); !written) return written;
  if (!io::exists(folder + "/containerd")) {
    auto part = folder + "/containerd.part";  // renamed when whole: a half clone is never used
    if (auto removed = io::remove_tree(part); !removed) return removed;
    if (auto cloned = clone_root(template_root, part); !cloned) return cloned;
    if (::rename(part.c_str(), (folder + "/containerd").c_str()) != 0)
      return fail(ErrorKind::internal, "cannot rename " + part);
  }
  if (auto begun = begin_boot(folder + "/run", {machine.order.gpus, has_amd_gpus(machine.order)}); !begun) return begun;
  remove_cgroup(config.cgroup(name));
  if (auto made = make_cgroup(config.cgroup(name) + "/system"); !made) return made;
  if (auto connected = connect_zone(config, name, machine.number); !connected) return connected;
  return start_zone(config.program, machine_spec(config, machine));
}

Result<void> fence_machine(const LabConfig& config, std::string_view name) { return kill_zone(config.record(name)); }

Result<void> clean_up_machine(const LabConfig& config, const Machine& machine) {
  disconnect_zone(config, machine.order.name, machine.number);
  remove_cgroup(config.cgroup(machine.order.name));
  return io::remove_tree(config.machine(machine.order.name));
}

}  // namespace homeostat::lab
