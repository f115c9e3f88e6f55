// What a SlurmCluster is made of: names, labels and limits that others rely on.
#include "controller/slurm_cluster/render.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

using namespace homeostat;
using namespace homeostat::controller;

namespace {

api::SlurmCluster demo() {
  api::SlurmCluster cluster;
  cluster.name = "demo";
  cluster.ns = "slurm";
  cluster.image = "localhost/homeostat-slurm:24.11";
  cluster.authorized_keys = {"ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"};
  cluster.workers = {{.name = "gpu",
                      .pool = "gpu",
                      .gpus_per_node = 2,
                      .devices = api::WorkerDevices::host_path,
                      .features = {"h100"}},
                     {.name = "cpu", .pool = "cpu"}};
  cluster.partitions = {{.name = "train", .workers = {"gpu"}, .is_default = true}};
  cluster.storage = {{.name = "home", .mount_path = "/home", .volume = {.size = "10Gi", .storage_class = "shared"}}};
  return cluster;
}

kube::Object owner() {
  auto object = kube::new_object(kube::resources::slurm_clusters, "slurm", "demo");
  object["metadata"].as_object()["uid"] = "uid-1";
  return object;
}

std::vector<RenderedObject> rendered(const api::SlurmCluster& cluster, const KeyStamps& stamps = {}) {
  auto objects = render_slurm_cluster(cluster, owner(), stamps);
  REQUIRE(objects.has_value());
  return *std::move(objects);
}

const kube::Object& find(const std::vector<RenderedObject>& objects, std::string_view kind, std::string_view name) {
  const auto at = std::find_if(objects.begin(), objects.end(),
                               [&](const auto& o) { return o.resource.kind == kind && o.name == name; });
  REQUIRE(at != objects.end());
  return at->body;
}

const kube::Object& pod_spec(const kube::Object& body) { return io::object_at(body, {"spec", "template", "spec"}); }

}  // namespace

TEST_CASE("the objects have the names that the contract promises, in an order that can be applied") {
  std::vector<std::string> names;
  for (const auto& object : rendered(demo())) names.push_back(object.resource.kind + "/" + object.name);
  for (const char* name :
       {"ConfigMap/demo-config", "PersistentVolumeClaim/demo-home", "Service/demo-controller",
        "StatefulSet/demo-controller", "Service/demo-rest", "Deployment/demo-rest", "Service/demo-login",
        "Deployment/demo-login", "DaemonSet/demo-worker-gpu", "DaemonSet/demo-worker-cpu"}) {
    CAPTURE(name);
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  CHECK(names.front() == "ConfigMap/demo-config");
}

// The fence waits for pods with these labels to be gone; the node label is the switch.
TEST_CASE("workers: the label is the switch, the pods say what they are, an update never kills a job") {
  const auto objects = rendered(demo());
  const auto& set = find(objects, "DaemonSet", "demo-worker-gpu");
  CHECK(io::string_at(pod_spec(set), {"nodeSelector", names::workers_label}) == "slurm.demo.gpu");
  CHECK(io::string_at(set, {"spec", "updateStrategy", "type"}) == "OnDelete");
  const auto& labels = io::object_at(set, {"spec", "template", "metadata", "labels"});
  CHECK(io::string_at(labels, {names::component_label}) == "worker");
  CHECK(io::string_at(labels, {names::cluster_label}) == "demo");
  for (const auto& [label, value] : io::object_at(set, {"spec", "selector", "matchLabels"}))
    CHECK(labels.at(label) == value);
  CHECK(io::object_at(set, {"spec", "selector"}) !=
        io::object_at(find(objects, "DaemonSet", "demo-worker-cpu"), {"spec", "selector"}));
}

TEST_CASE("workers: the kubelet leaves a job its grace") {
  auto cluster = demo();
  cluster.kill_wait_s = 300;
  const auto objects = rendered(cluster);
  const auto& spec = pod_spec(find(objects, "DaemonSet", "demo-worker-gpu"));
  CHECK(io::int_at(spec, {"terminationGracePeriodSeconds"}) == 390);
  const auto& container = io::array_at(spec, {"containers"}).at(0).as_object();
  CHECK_FALSE(io::array_at(container, {"lifecycle", "preStop", "exec", "command"}).empty());
  CHECK(io::array_at(container, {"command"}).at(0).as_string() == "/usr/bin/tini");
  CHECK(io::string_at(find(objects, "ConfigMap", "demo-config"), {"data", "slurm.conf"}).find("KillWait=300\n") !=
        std::string::npos);
}

TEST_CASE("workers: GPUs come from the node's devices in the lab and from the device plugin elsewhere") {
  auto cluster = demo();
  const auto in_lab = rendered(cluster);
  CHECK(io::to_text(find(in_lab, "DaemonSet", "demo-worker-gpu")).find("/dev/nvidia1") != std::string::npos);
  CHECK(io::to_text(find(in_lab, "DaemonSet", "demo-worker-gpu")).find("nvidia.com/gpu") == std::string::npos);
  CHECK(io::to_text(find(in_lab, "DaemonSet", "demo-worker-cpu")).find("nvidia") == std::string::npos);
  cluster.workers[0].devices = api::WorkerDevices::runtime;
  const auto real = rendered(cluster);
  const auto& container =
      io::array_at(pod_spec(find(real, "DaemonSet", "demo-worker-gpu")), {"containers"}).at(0).as_object();
  CHECK(io::int_at(container, {"resources", "limits", "nvidia.com/gpu"}) == 2);
  CHECK(io::to_text(find(real, "DaemonSet", "demo-worker-gpu")).find("/dev/nvidia") == std::string::npos);
}

TEST_CASE("workers: jobs find the folder in which they tell their steps to the machine's agent") {
  const auto objects = rendered(demo());
  for (const char* name : {"demo-worker-gpu", "demo-worker-cpu"}) {
    CAPTURE(name);
    const auto text = io::to_text(pod_spec(find(objects, "DaemonSet", name)));
    CHECK(text.contains(R"({"name":"steps","mountPath":"/run/homeostat/steps"})"));
    CHECK(text.contains(R"("hostPath":{"path":"/run/homeostat/steps","type":"DirectoryOrCreate"})"));
  }
}

TEST_CASE("no pod is privileged, none gets a Kubernetes token, none resolves names that stall slurmctld") {
  for (const auto& object : rendered(demo())) {
    if (io::find(object.body, {"spec", "template"}) == nullptr) continue;
    CAPTURE(object.name);
    const auto& spec = pod_spec(object.body);
    CHECK(io::to_text(spec).find("\"privileged\":true") == std::string::npos);
    CHECK(io::to_text(spec).find("hostNetwork") == std::string::npos);
    CHECK_FALSE(io::bool_at(spec, {"automountServiceAccountToken"}, true));
    CHECK(io::to_text(io::object_at(spec, {"dnsConfig"})).find("no-tld-query") != std::string::npos);
  }
}

TEST_CASE("ConfigMaps hold public keys at most; people's volumes outlive the cluster, everything else goes with it") {
  for (const auto& object : rendered(demo())) {
    CAPTURE(object.name);
    CHECK(object.resource.kind != "Secret");
    if (object.resource.kind == "ConfigMap") CHECK(io::to_text(object.body).find("PRIVATE KEY") == std::string::npos);
    CHECK(kube::is_owned_by(object.body, "uid-1") == (object.resource.kind != "PersistentVolumeClaim"));
  }
}

TEST_CASE("the same spec gives the same objects; another configuration starts slurmctld anew and no worker") {
  auto cluster = demo();
  const auto before = rendered(cluster), again = rendered(cluster);
  for (size_t i = 0; i < before.size(); ++i) CHECK(before[i].body == again[i].body);
  cluster.config = {"PriorityType=priority/multifactor"};
  const auto after = rendered(cluster);
  CHECK(find(before, "StatefulSet", "demo-controller") != find(after, "StatefulSet", "demo-controller"));
  CHECK(find(before, "DaemonSet", "demo-worker-gpu") == find(after, "DaemonSet", "demo-worker-gpu"));
  CHECK(find(before, "Deployment", "demo-login") == find(after, "Deployment", "demo-login"));
}

TEST_CASE("a renewed certificate starts the REST pod anew and nothing else") {
  const auto before = rendered(demo(), {.tls_not_after = "2027-01-01T00:00:00.000Z"});
  const auto after = rendered(demo(), {.tls_not_after = "2028-01-01T00:00:00.000Z"});
  for (size_t i = 0; i < before.size(); ++i) {
    CAPTURE(before[i].name);
    CHECK((before[i].body == after[i].body) ==
          !(before[i].resource.kind == "Deployment" && before[i].name == "demo-rest"));
  }
}

TEST_CASE("lines and partitions that cannot work are refused with sentences") {
  auto cluster = demo();
  cluster.config = {"ReturnToService=2"};
  cluster.partitions.push_back({.name = "old", .workers = {"gone"}});
  const auto objects = render_slurm_cluster(cluster, owner(), {});
  REQUIRE_FALSE(objects.has_value());
  CHECK(objects.error().kind == ErrorKind::invalid);
  CHECK(objects.error().message.find("ReturnToService=2") != std::string::npos);
  CHECK(objects.error().message.find("\"gone\"") != std::string::npos);
}
