#include "lab/machine.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "io/files.hpp"
#include "io/jwt.hpp"
#include "lab/config.hpp"
#include "lab/control_plane.hpp"
#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::lab;

namespace {
LabConfig lab_in(const std::string& state) {
  LabConfig config;
  config.state = state;
  config.plan = *make_plan(config.ranges);
  return config;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("an order's labels, taints and GPUs reach the kubelet and the devices") {
  auto config = lab_in("/state");
  config.nvml = "/build/lib/nvml/libnvidia-ml.so.1";
  Machine machine;
  machine.order = {"t", "gpu-abcde",     "gpu",
                   2,   {{"zone", "a"}}, {"homeostat.dev/spare=true:NoSchedule", "plain:NoExecute"}};
  machine.number = 17;
  auto kubelet = kubelet_config(config, machine.order);
  CHECK(has(kubelet, R"({key: "homeostat.dev/spare", value: "true", effect: NoSchedule})"));
  CHECK(has(kubelet, R"({key: "plain", value: "", effect: NoExecute})"));
  CHECK(has(kubelet, "cgroupRoot: /lab-gpu-abcde"));
  CHECK(has(cni_config(config, 17), R"("subnet":"10.244.17.0/24")"));

  auto spec = machine_spec(config, machine);
  CHECK(spec.devices.size() == 3);
  CHECK(spec.devices[1].name == "nvidia1");
  auto text = to_json(spec);
  CHECK(has(text, "--node-labels=homeostat.dev/pool=gpu,zone=a"));
  CHECK(has(text, "--node-ip=10.77.0.17"));
  CHECK(has(text, R"("source":"/build/lib/nvml","target":"/usr/lib/homeostat/nvml","readOnly":true)"));
}

TEST_CASE("a machine without NVIDIA's GPUs has none of its devices and no driver of it") {
  auto config = lab_in("/state");
  config.nvml = "/build/lib/nvml/libnvidia-ml.so.1";
  Machine machine;
  machine.order = {"t", "amd-abcde", "amd", 2, {{"lab.homeostat.dev/gpus", "amd"}}, {}};
  machine.number = 18;
  auto spec = machine_spec(config, machine);
  REQUIRE(spec.devices.size() == 1);
  CHECK(spec.devices[0].name == "kfd");
  CHECK_FALSE(has(to_json(spec), "nvml"));
  machine.order.gpus = 0, machine.order.labels.clear();
  spec = machine_spec(config, machine);
  CHECK(spec.devices.empty());
  CHECK_FALSE(has(to_json(spec), "nvml"));
}

TEST_CASE("labs of different instances share no name") {
  auto one = lab_in("/a"), two = lab_in("/b");
  two.instance = "tt";
  CHECK(one.bridge() != two.bridge());
  CHECK(one.netns("m") != two.netns("m"));
  CHECK(one.cgroup("m") != two.cgroup("m"));
}

TEST_CASE("keys are for root alone, kubeconfigs name their user, what is there stays") {
  TestFolder own;
  auto folder = own.path.string();
  auto config = lab_in(folder);
  auto pki = Pki::open(config);
  REQUIRE(pki);
  REQUIRE(io::make_folders(config.path("control-plane")));
  REQUIRE(prepare_control_plane(config, *pki));
  auto before = io::read_file(config.path("kubeconfig"));
  REQUIRE(before);
  CHECK(has(*before, "server: https://10.77.0.2:6443"));
  CHECK(*io::read_file(config.path("control-plane/pki/ca.crt")) == pki->ca_pem());
  for (const char* secret : {"kubeconfig", "control-plane/pki/ca.key", "control-plane/pki/service-accounts.key",
                             "control-plane/kube-scheduler.kubeconfig"}) {
    struct stat info;
    REQUIRE(::stat(config.path(secret).c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
  }
  auto again = Pki::open(config);
  REQUIRE(again);
  CHECK(again->ca_pem() == pki->ca_pem());
  REQUIRE(prepare_control_plane(config, *again));
  CHECK(*io::read_file(config.path("kubeconfig")) == *before);

  auto manifests = bootstrap_manifests(config, *pki, "the-token");
  REQUIRE(manifests);
  CHECK_FALSE(has(*manifests, "the-token"));  // a Secret's data is base64
  CHECK(has(*manifests, io::base64_encode("the-token")));
}

TEST_CASE("a lab's configuration is read as it was written; a folder without one says how to begin") {
  TestFolder own;
  auto folder = own.path.string();
  auto missing = load_config(folder);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().kind == ErrorKind::not_found);
  CHECK(has(missing.error().message, "homeostat-lab up"));
  auto config = lab_in(folder);
  config.instance = "tt", config.ranges.nodes = "10.70.0.0/24", config.images = "/i", config.kubernetes = "/k";
  REQUIRE(save_config(config));
  auto read = load_config(folder);
  REQUIRE(read);
  CHECK(read->bridge() == "tt0");
  CHECK(read->plan.control_plane() == "10.70.0.2");
  CHECK(read->images == "/i");
  REQUIRE(io::write_file(folder + "/lab.json", "{"));
  CHECK(load_config(folder).error().kind == ErrorKind::invalid);
}
