#include "controller/slurm_cluster/render.hpp"

#include <fmt/core.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "core/names.hpp"
#include "core/slurm/conf.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {
namespace {

using A = boost::json::array;
using O = boost::json::object;
using api::SlurmCluster;
using api::WorkerGroup;

constexpr int ctld_port = 6817, slurmd_port = 6818, rest_port = 6820, ssh_port = 2222;
constexpr int slurmrestd_uid = 402;  // of the image, see images/slurm
// Beyond KillWait: the epilog, and Slurm's own clean-up after the last process.
constexpr int prestop_slack_s = 30, termination_slack_s = 90;
constexpr std::string_view entry = "/usr/lib/homeostat/";

constexpr std::string_view stunnel_conf =
    "foreground = yes\nsyslog = no\npid =\ndebug = warning\n[slurmrestd]\naccept = 6820\nconnect = "
    "/run/slurmrestd/slurmrestd.sock\n"
    "cert = /rest-tls/tls.crt\nkey = /rest-tls/tls.key\nsslVersionMin = TLSv1.2\n";

constexpr std::string_view sshd_config =
    "Port 2222\nHostKey /etc/ssh-hostkeys/ssh_host_ecdsa_key\nAuthorizedKeysFile "
    "/etc/ssh-users/%u\nPasswordAuthentication no\n"
    "KbdInteractiveAuthentication no\nPermitRootLogin no\nUsePAM no\nStrictModes no\nPrintMotd no\nAcceptEnv LANG "
    "LC_*\n"
    "Subsystem sftp internal-sftp\n";

class Renderer {
 public:
  Renderer(const SlurmCluster& cluster, const kube::Object& owner, const KeyStamps& stamps)
      : cluster_(cluster), owner_(kube::owner_reference(kube::resources::slurm_clusters, owner)), stamps_(stamps) {}

  Result<std::vector<RenderedObject>> render();

 private:
  O labels(std::string_view component) const {
    return O{{names::cluster_label, cluster_.name},
             {names::component_label, component},
             {"app.kubernetes.io/managed-by", "homeostat"}};
  }
  // owned=false: outlives the cluster (people's data).
  void add(const kube::Resource& resource, const std::string& name, std::string_view component, O rest,
           bool owned = true);
  void add_config(const slurm::RenderedConf& conf);
  void add_users();
  void add_claims();
  void add_service(const std::string& name, std::string_view component, int port, int target, std::string_view type,
                   bool unready_too);
  void add_controller();
  void add_rest();
  void add_login();
  void add_workers(const WorkerGroup& group);

  O container(std::string_view name, A command, A mounts) const {
    return O{{"name", name},
             {"image", cluster_.image},
             {"imagePullPolicy", "IfNotPresent"},
             {"command", std::move(command)},
             {"volumeMounts", std::move(mounts)}};
  }
  O pod(std::string_view component, const O& annotations, O spec) const;
  static O prefer_no_gpus();
  static O unprivileged(int uid) {
    return O{{"runAsUser", uid},
             {"runAsGroup", uid},
             {"runAsNonRoot", true},
             {"allowPrivilegeEscalation", false},
             {"capabilities", O{{"drop", A{"ALL"}}}}};
  }
  static O tcp_probe(int port, int period_s) {
    return O{{"tcpSocket", O{{"port", port}}}, {"periodSeconds", period_s}};
  }
  static O mount(std::string_view name, std::string_view path) { return O{{"name", name}, {"mountPath", path}}; }
  static O read_only(std::string_view name, std::string_view path) {
    return O{{"name", name}, {"mountPath", path}, {"readOnly", true}};
  }
  static O config_map(std::string_view name, const std::string& map) {
    return O{{"name", name}, {"configMap", O{{"name", map}}}};
  }
  static O secret(std::string_view name, const std::string& of, A items = {}) {
    O source{{"secretName", of}, {"defaultMode", 0400}};
    if (!items.empty()) source["items"] = std::move(items);
    return O{{"name", name}, {"secret", std::move(source)}};
  }
  O users_volume() const {
    A items;
    for (const char* file : {"passwd", "group", "shadow"}) items.push_back(O{{"key", file}, {"path", file}});
    return O{{"name", "users"}, {"configMap", O{{"name", cluster_.name + "-users"}, {"items", std::move(items)}}}};
  }
  O slurm_key_volume() const {
    return secret("keys", cluster_.name + "-keys", A{O{{"key", "slurm.key"}, {"path", "slurm.key"}}});
  }
  void add_shared_storage(A& mounts, A& volumes) const;
  std::string conf_server() const {
    return fmt::format("{}.{}.svc:{}", controller_name(cluster_), cluster_.ns, ctld_port);
  }

  const SlurmCluster& cluster_;
  O owner_;
  const KeyStamps& stamps_;
  std::string conf_hash_;
  std::vector<RenderedObject> out_;
};

void Renderer::add(const kube::Resource& resource, const std::string& name, std::string_view component, O rest,
                   bool owned) {
  kube::Object body = kube::new_object(resource, cluster_.ns, name);
  auto& metadata = body["metadata"].as_object();
  metadata["labels"] = labels(component);
  if (owned) metadata["ownerReferences"] = A{owner_};
  for (auto& [key, value] : rest) body[key] = std::move(value);
  out_.push_back({resource, name, std::move(body)});
}

void Renderer::add_config(const slurm::RenderedConf& conf) {
  O data;
  std::string all;
  for (const auto& [file, text] : conf.files()) {
    data[file] = text;
    all.append(file).append("\n").append(text);
  }
  conf_hash_ = kube::short_hash(all);
  data["stunnel.conf"] = stunnel_conf;
  data["sshd_config"] = sshd_config;
  add(kube::resources::config_maps, cluster_.name + "-config", "config", O{{"data", std::move(data)}});
}

// The user of the first form: one account that the authorized keys open.
void Renderer::add_users() {
  std::string keys;
  for (const auto& key : cluster_.authorized_keys) keys += key + "\n";
  add(kube::resources::config_maps, cluster_.name + "-users", "config",
      O{{"data", O{{"passwd", "researcher:x:1000:1000::/home/researcher:/bin/bash\n"},
                   {"group", "researcher:x:1000:\n"},
                   {"shadow", "researcher:*:19000:0:99999:7:::\n"},
                   {"keys-researcher", keys}}}});
}

O claim_spec(const api::VolumeSpec& volume, std::string_view mode) {
  O spec{{"accessModes", A{mode}}, {"resources", O{{"requests", O{{"storage", volume.size}}}}}};
  if (!volume.storage_class.empty()) spec["storageClassName"] = volume.storage_class;
  return spec;
}

void Renderer::add_claims() {
  for (const auto& storage : cluster_.storage)
    add(kube::resources::persistent_volume_claims, cluster_.name + "-" + storage.name, "storage",
        O{{"spec", claim_spec(storage.volume, "ReadWriteMany")}}, false);
}

void Renderer::add_shared_storage(A& mounts, A& volumes) const {
  for (const auto& storage : cluster_.storage) {
    mounts.push_back(mount("storage-" + storage.name, storage.mount_path));
    volumes.push_back(O{{"name", "storage-" + storage.name},
                        {"persistentVolumeClaim", O{{"claimName", cluster_.name + "-" + storage.name}}}});
  }
}

void Renderer::add_service(const std::string& name, std::string_view component, int port, int target,
                           std::string_view type, bool unready_too) {
  O spec{{"type", type},
         {"selector", labels(component)},
         {"ports", A{O{{"name", component}, {"port", port}, {"targetPort", target}, {"protocol", "TCP"}}}}};
  spec["selector"].as_object().erase("app.kubernetes.io/managed-by");
  if (unready_too) spec["publishNotReadyAddresses"] = true;
  add(kube::resources::services, name, component, O{{"spec", std::move(spec)}});
}

// What heals the GPU machines should not live on them.
O Renderer::prefer_no_gpus() {
  const O absent{{"key", names::pool_label}, {"operator", "DoesNotExist"}};
  const O preference{{"weight", 100}, {"preference", O{{"matchExpressions", A{absent}}}}};
  return O{{"nodeAffinity", O{{"preferredDuringSchedulingIgnoredDuringExecution", A{preference}}}}};
}

O Renderer::pod(std::string_view component, const O& annotations, O spec) const {
  spec["enableServiceLinks"] = false;
  // srun tells slurmctld its pod's name, which no DNS has. Without this, a resolver that cannot forward answers "try
  // again" for it, and slurmctld, which asks five times, stands still for 10 s with its locks held. Names without a dot
  // are then not asked for as such.
  spec["dnsConfig"] = O{{"options", A{O{{"name", "no-tld-query"}}}}};
  spec["automountServiceAccountToken"] = false;
  O metadata{{"labels", labels(component)}};
  if (!annotations.empty()) metadata["annotations"] = annotations;
  return O{{"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

O selector_of(const SlurmCluster& cluster, std::string_view component) {
  return O{{"matchLabels", O{{names::cluster_label, cluster.name}, {names::component_label, component}}}};
}

A tini(std::initializer_list<std::string> command) {
  A out{"/usr/bin/tini", "--"};
  for (const auto& word : command) out.emplace_back(word);
  return out;
}

void Renderer::add_controller() {
  add_service(controller_name(cluster_), "controller", ctld_port, ctld_port, "ClusterIP", true);
  O main = container("slurmctld", tini({std::string(entry) + "slurmctld"}),
                     A{read_only("config", "/config"), read_only("keys", "/keys"),
                       read_only("users", "/var/lib/extrausers"), mount("state", "/var/spool/slurmctld")});
  main["ports"] = A{O{{"name", "slurmctld"}, {"containerPort", ctld_port}, {"protocol", "TCP"}}};
  main["readinessProbe"] = tcp_probe(ctld_port, 2);
  main["resources"] = O{{"requests", O{{"cpu", "100m"}, {"memory", "64Mi"}}}};
  O spec{{"terminationGracePeriodSeconds", 20},
         {"affinity", prefer_no_gpus()},
         {"containers", A{std::move(main)}},
         {"volumes",
          A{config_map("config", cluster_.name + "-config"), secret("keys", cluster_.name + "-keys"), users_volume()}}};
  // slurmctld reads its files once: another configuration starts it anew. Running jobs live on.
  const O annotations{{"homeostat.dev/config-hash", conf_hash_}};
  const O claim{{"metadata", O{{"name", "state"}}}, {"spec", claim_spec(cluster_.controller_storage, "ReadWriteOnce")}};
  add(kube::resources::stateful_sets, controller_name(cluster_), "controller",
      O{{"spec", O{{"serviceName", controller_name(cluster_)},
                   {"replicas", 1},
                   {"selector", selector_of(cluster_, "controller")},
                   {"template", pod("controller", annotations, std::move(spec))},
                   {"volumeClaimTemplates", A{claim}}}}});
}

void Renderer::add_rest() {
  add_service(rest_name(cluster_), "rest", rest_port, rest_port, "ClusterIP", false);
  O init = container("config", A{std::string(entry) + "slurmrestd-init"},
                     A{read_only("config", "/config"), read_only("keys", "/keys"), mount("etc-slurm", "/etc-slurm")});
  O main = container(
      "slurmrestd",
      tini({"slurmrestd", "-a", "rest_auth/jwt", "-s", "openapi/slurmctld", "unix:/run/slurmrestd/slurmrestd.sock"}),
      A{read_only("etc-slurm", "/etc/slurm"), read_only("users", "/var/lib/extrausers"),
        mount("run", "/run/slurmrestd")});
  main["env"] = A{O{{"name", "SLURM_JWT"}, {"value", "daemon"}},
                  O{{"name", "SLURMRESTD_SECURITY"}, {"value", "disable_unshare_sysv,disable_unshare_files"}}};
  main["securityContext"] = unprivileged(slurmrestd_uid);
  main["resources"] = O{{"requests", O{{"cpu", "50m"}, {"memory", "32Mi"}}}};
  O tls = container("tls", tini({"stunnel", "/config/stunnel.conf"}),
                    A{read_only("config", "/config"), read_only("tls", "/rest-tls"), mount("run", "/run/slurmrestd")});
  tls["securityContext"] = unprivileged(slurmrestd_uid);
  tls["ports"] = A{O{{"name", "rest"}, {"containerPort", rest_port}, {"protocol", "TCP"}}};
  tls["readinessProbe"] =
      O{{"exec", O{{"command", A{"test", "-S", "/run/slurmrestd/slurmrestd.sock"}}}}, {"periodSeconds", 2}};
  tls["resources"] = O{{"requests", O{{"cpu", "20m"}, {"memory", "16Mi"}}}};
  O tls_volume = secret("tls", cluster_.name + "-rest-tls",
                        A{O{{"key", "tls.crt"}, {"path", "tls.crt"}}, O{{"key", "tls.key"}, {"path", "tls.key"}}});
  O spec{{"terminationGracePeriodSeconds", 5},
         {"affinity", prefer_no_gpus()},
         {"securityContext", O{{"fsGroup", slurmrestd_uid}}},
         {"initContainers", A{std::move(init)}},
         {"containers", A{std::move(main), std::move(tls)}},
         {"volumes",
          A{config_map("config", cluster_.name + "-config"), slurm_key_volume(), std::move(tls_volume), users_volume(),
            O{{"name", "etc-slurm"}, {"emptyDir", O{{"medium", "Memory"}}}}, O{{"name", "run"}, {"emptyDir", O{}}}}}};
  const O annotations{{"homeostat.dev/config-hash", conf_hash_},
                      {"homeostat.dev/tls-not-after", stamps_.tls_not_after}};
  add(kube::resources::deployments, rest_name(cluster_), "rest",
      O{{"spec", O{{"replicas", 1},
                   {"selector", selector_of(cluster_, "rest")},
                   {"template", pod("rest", annotations, std::move(spec))}}}});
}

void Renderer::add_login() {
  add_service(login_name(cluster_), "login", 22, ssh_port, cluster_.login_service_type, false);
  A mounts{read_only("config", "/config"), read_only("keys", "/keys"), read_only("hostkeys", "/hostkeys"),
           read_only("users", "/var/lib/extrausers"), read_only("ssh-users", "/etc/ssh-users")};
  A volumes{config_map("config", cluster_.name + "-config"), slurm_key_volume(),
            secret("hostkeys", cluster_.name + "-login-hostkeys"), users_volume(),
            O{{"name", "ssh-users"},
              {"configMap", O{{"name", cluster_.name + "-users"},
                              {"items", A{O{{"key", "keys-researcher"}, {"path", "researcher"}}}}}}}};
  add_shared_storage(mounts, volumes);
  O main = container("login", tini({std::string(entry) + "login"}), std::move(mounts));
  main["env"] = A{O{{"name", "CONF_SERVER"}, {"value", conf_server()}}};
  main["ports"] = A{O{{"name", "ssh"}, {"containerPort", ssh_port}, {"protocol", "TCP"}}};
  main["readinessProbe"] = tcp_probe(ssh_port, 5);
  main["resources"] = O{{"requests", O{{"cpu", "50m"}, {"memory", "64Mi"}}}};
  O spec{{"terminationGracePeriodSeconds", 5},
         {"affinity", prefer_no_gpus()},
         {"containers", A{std::move(main)}},
         {"volumes", std::move(volumes)}};
  add(kube::resources::deployments, login_name(cluster_), "login",
      O{{"spec", O{{"replicas", cluster_.login_replicas},
                   {"selector", selector_of(cluster_, "login")},
                   {"template", pod("login", {}, std::move(spec))}}}});
}

void Renderer::add_workers(const WorkerGroup& group) {
  A mounts{read_only("keys", "/keys"), read_only("users", "/var/lib/extrausers")};
  A volumes{slurm_key_volume(), users_volume()};
  add_shared_storage(mounts, volumes);
  // Where jobs tell how fast they step, for the machine's agent (docs/users/step-times.md).
  mounts.push_back(mount("steps", "/run/homeostat/steps"));
  volumes.push_back(
      O{{"name", "steps"}, {"hostPath", O{{"path", "/run/homeostat/steps"}, {"type", "DirectoryOrCreate"}}}});
  O resources{{"requests", O{{"cpu", "100m"}, {"memory", "128Mi"}}}};
  if (group.devices == api::WorkerDevices::host_path) {
    for (int i = 0; i < group.gpus_per_node; ++i) {
      const auto path = fmt::format("/dev/nvidia{}", i);
      mounts.push_back(mount(fmt::format("gpu{}", i), path));
      volumes.push_back(O{{"name", fmt::format("gpu{}", i)}, {"hostPath", O{{"path", path}, {"type", "CharDevice"}}}});
    }
  } else if (group.gpus_per_node > 0) {
    resources["limits"] = O{{"nvidia.com/gpu", group.gpus_per_node}};
  }
  std::string node_conf = "Feature=" + group.name;
  for (const auto& feature : group.features) node_conf += "," + feature;
  if (group.gpus_per_node > 0) node_conf += fmt::format(" Gres=gpu:{}", group.gpus_per_node);

  O main = container("slurmd", tini({std::string(entry) + "slurmd"}), std::move(mounts));
  main["env"] = A{O{{"name", "NODE_NAME"}, {"valueFrom", O{{"fieldRef", O{{"fieldPath", "spec.nodeName"}}}}}},
                  O{{"name", "CONF_SERVER"}, {"value", conf_server()}}, O{{"name", "NODE_CONF"}, {"value", node_conf}},
                  O{{"name", "GRACE_S"}, {"value", std::to_string(cluster_.kill_wait_s + prestop_slack_s)}}};
  main["ports"] = A{O{{"name", "slurmd"}, {"containerPort", slurmd_port}, {"protocol", "TCP"}}};
  main["lifecycle"] = O{{"preStop", O{{"exec", O{{"command", A{std::string(entry) + "slurmd-prestop"}}}}}}};
  main["readinessProbe"] = O{{"exec", O{{"command", A{"pgrep", "-x", "slurmd"}}}}, {"periodSeconds", 5}};
  main["resources"] = std::move(resources);
  O spec{{"nodeSelector", O{{names::workers_label, api::workers_label_value(cluster_, group)}}},
         {"terminationGracePeriodSeconds", cluster_.kill_wait_s + termination_slack_s},
         {"containers", A{std::move(main)}},
         {"volumes", std::move(volumes)}};
  O selector = selector_of(cluster_, "worker");
  selector["matchLabels"].as_object()[names::worker_group_label] = group.name;
  O pods = pod("worker", {}, std::move(spec));
  pods["metadata"].as_object()["labels"].as_object()[names::worker_group_label] = group.name;
  // OnDelete: a worker is drained in Slurm before its pod is renewed; an upgrade never kills a job.
  add(kube::resources::daemon_sets, worker_name(cluster_, group), "worker",
      O{{"spec", O{{"selector", std::move(selector)},
                   {"updateStrategy", O{{"type", "OnDelete"}}},
                   {"template", std::move(pods)}}}});
}

Result<std::vector<RenderedObject>> Renderer::render() {
  slurm::ConfSpec spec;
  spec.cluster_name = cluster_.name;
  spec.controller_host = controller_name(cluster_) + "-0";
  spec.controller_address = fmt::format("{}.{}.svc", controller_name(cluster_), cluster_.ns);
  for (const auto& group : cluster_.workers) spec.workers.push_back({group.name, group.gpus_per_node});
  for (const auto& partition : cluster_.partitions)
    spec.partitions.push_back({partition.name, partition.workers, partition.is_default, partition.max_time});
  spec.user_lines = cluster_.config;
  spec.kill_wait_s = cluster_.kill_wait_s;
  spec.cgroups = false;  // the pods are unprivileged: their cgroups are read-only
  const auto conf = slurm::render_conf(spec);
  if (!conf) return std::unexpected(conf.error());
  add_config(*conf);
  add_users();
  add_claims();
  add_controller();
  add_rest();
  add_login();
  for (const auto& group : cluster_.workers) add_workers(group);
  return std::move(out_);
}

}  // namespace

std::string controller_name(const SlurmCluster& cluster) { return cluster.name + "-controller"; }
std::string rest_name(const SlurmCluster& cluster) { return cluster.name + "-rest"; }
std::string login_name(const SlurmCluster& cluster) { return cluster.name + "-login"; }
std::string worker_name(const SlurmCluster& cluster, const WorkerGroup& group) {
  return cluster.name + "-worker-" + group.name;
}

Result<std::vector<RenderedObject>> render_slurm_cluster(const SlurmCluster& cluster, const kube::Object& owner,
                                                         const KeyStamps& stamps) {
  return Renderer(cluster, owner, stamps).render();
}

}  // namespace homeostat::controller
