// What a person meets first: bringing it up twice, specs that are refused with a sentence, and the login node.
#include <filesystem>
#include <sstream>

#include "cli/manifests.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "io/jwt.hpp"
#include "kube/meta.hpp"
#include "world.hpp"

using namespace homeostat;
using namespace homeostat::e2e;

TEST_CASE("a second up while it is up changes nothing and says so") {
  World::get();
  const auto before = World::get().machines();
  const auto again = World::get().homeostat({"up"}, Duration(120'000));
  CHECK_MESSAGE(again.code == 0, again.err);
  CHECK(again.out.find("already") != std::string::npos);
  CHECK(World::get().machines() == before);
}

namespace {

struct BadSpec {
  const char* yaml;
  const char* sentence;  // a part of what the API server answers
};

// Each is refused by the API server itself, with a sentence that says what to write instead.
constexpr BadSpec bad_specs[] = {
    {"{kind: NodePool, metadata: {name: bad}, spec: {size: -1, provider: {type: local, local: {credentialsSecretRef: "
     "{namespace: a, name: b}}}}}",
     "size is how many machines work: write 0 to 10000"},
    {"{kind: NodePool, metadata: {name: bad}, spec: {size: 1, spares: 2000, provider: {type: local, local: "
     "{credentialsSecretRef: {namespace: a, name: b}}}}}",
     "spares is how many machines wait"},
    {"{kind: NodePool, metadata: {name: bad}, spec: {size: 1, provider: {type: local}}}",
     "so write provider.local with credentialsSecretRef"},
    {"{kind: NodePool, metadata: {name: bad}, spec: {size: 1, provider: {type: ec2}}}",
     "provider.type must be local, cluster-api or webhook"},
    {"{kind: NodePool, metadata: {name: 9bad}, spec: {size: 1, provider: {type: webhook}}}",
     "the name of a NodePool begins its machines' names"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {grace_s: 7200}}",
     "grace_s must lie between 0 and 3600 seconds; write e.g. grace_s: 120"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {budget: {maxPercent: 0}}}",
     "maxPercent must lie between 1 and 100"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {optOutLabel: a=b}}",
     "optOutLabel must be the key of a label without a value"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {rules: [{class: replace-node}]}}",
     "a rule must say which faults it is for"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {notify: [{webhook: {url: ftp://x}}]}}",
     "url must begin with https://"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {conditions: [{type: '*', component: a, code: b}]}}",
     "type must name another detector's condition"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {conditions: [{type: A, status: 'true', component: a, code: "
     "b}]}}",
     "status must be \"True\", \"False\" or \"Unknown\""},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {conditions: [{type: A, component: a, code: b, class: "
     "restart-job}]}}",
     "class must be replace-node, reset, drain-after-job, watch or ignore"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {nodeSilence_s: 5}}",
     "nodeSilence_s must lie between 60 and 86400 seconds"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {resetFallback: reset}}", "resetFallback must be replace-node"},
    {"{kind: HealthPolicy, metadata: {name: bad}, spec: {breaker: {maxNodes: 0}}}",
     "breaker.maxNodes must lie between 1 and 10000"},
    {"{kind: NodeHealth, metadata: {name: bad}, spec: {x: 1}}", "a NodeHealth has no spec"},
    {"{kind: SlurmCluster, metadata: {name: bad, namespace: slurm}, spec: {image: x, killWait_s: 1, workers: [{name: "
     "gpu, pool: gpu}], partitions: [{name: p, workers: [gpu]}]}}",
     "killWait_s is the grace"},
    {"{kind: SlurmCluster, metadata: {name: bad, namespace: slurm}, spec: {image: x, workers: [{name: gpu, pool: "
     "gpu}], partitions: [{name: p, workers: [cpu]}]}}",
     "a partition names workers that are not in spec.workers"},
    {"{kind: SlurmCluster, metadata: {name: bad, namespace: slurm}, spec: {image: x, workers: [{name: gpu, pool: "
     "gpu}], partitions: [{name: p, workers: [gpu]}], config: ['ReturnToService=2']}}",
     "ReturnToService=2 would undo a DOWN"},
};

}  // namespace

TEST_CASE("bad specs are refused by the API server with a sentence that says what to write") {
  auto& world = World::get();
  for (const auto& bad : bad_specs) {
    CAPTURE(bad.yaml);
    auto objects =
        must(cli::parse_manifests("{apiVersion: homeostat.dev/v1alpha1, " + std::string(bad.yaml).substr(1), "case"));
    REQUIRE(objects.size() == 1);
    const auto resource = must(cli::resource_of(objects[0]));
    const auto ns = kube::namespace_of(objects[0]);
    const auto made = world.client().create(resource, ns, objects[0]);
    CHECK_FALSE(made);
    if (made)
      must(world.client().remove(resource, ns, kube::name_of(objects[0]), {}));
    else
      CHECK_MESSAGE(made.error().message.find(bad.sentence) != std::string::npos, made.error().message);
  }
}

TEST_CASE("a researcher logs in with a key and finds an ordinary Slurm") {
  auto& world = World::get();
  CHECK(world.ssh("sinfo -h -o %P").find("gpu*") != std::string::npos);
  std::istringstream hosts(world.ssh("srun -N2 --ntasks-per-node=1 printenv SLURMD_NODENAME"));
  std::string a, b;
  hosts >> a >> b;
  CHECK(a.starts_with("gpu-"));
  CHECK(b.starts_with("gpu-"));
  CHECK(a != b);
  CHECK(world.ssh("scontrol show config | grep -i '^KillWait'").find("120 sec") != std::string::npos);
}

//  the suite that FakeSlurm passes, against the lab's slurmrestd behind its TLS front; a node goes DRAIN, DOWN and back
TEST_CASE("the Slurm client keeps its promises to the real slurmrestd") {
  auto& world = World::get();
  world.wait_until_whole();
  const auto secret = [&](const std::string& name, const std::string& key) {
    const auto object = must(world.client().get(kube::resources::secrets, "slurm", name));
    const auto path = world.places().state + "/e2e-" + key;
    must(io::write_file(path, io::base64_decode(io::string_at(object, {"data", key})).value_or(""), 0600));
    return path;
  };
  const auto key = secret("demo-keys", "jwt.key"), ca = secret("demo-rest-tls", "ca.crt");
  const auto address =
      io::string_at(must(world.client().get(kube::resources::services, "slurm", "demo-rest")), {"spec", "clusterIP"});
  const auto workers =
      world.kubectl({"get", "nodes", "-l", "homeostat.dev/workers", "-o", "jsonpath={.items[0].metadata.name}"}).out;
  const auto program = std::filesystem::path(world.places().programs).parent_path() / "tests" / "slurm_test";
  const auto done = must(io::run(
      {"nsenter", "--net=/run/netns/" + world.instance() + "-control-plane", "env",
       "HOMEOSTAT_SLURMREST_URL=https://" + address + ":6820", "HOMEOSTAT_SLURMREST_SERVER_NAME=demo-rest.slurm.svc",
       "HOMEOSTAT_SLURMREST_KEY=" + key, "HOMEOSTAT_SLURMREST_CA=" + ca, "HOMEOSTAT_SLURMREST_NODE=" + workers,
       program.string(), "-tc=contract: a real slurmrestd"},
      {.timeout = Duration(180'000)}));
  CHECK_MESSAGE(done.status.ok(), done.out << done.err);
  CHECK_MESSAGE(done.out.find("1 passed") != std::string::npos, done.out);
  must(io::remove_tree(key));
  must(io::remove_tree(ca));
}

TEST_CASE("the Kubernetes client keeps its promises to the real API server") {
  auto& world = World::get();
  const auto program = std::filesystem::path(world.places().programs).parent_path() / "tests" / "kube_conformance_test";
  const auto done =
      must(io::run({"env", "HOMEOSTAT_CONFORMANCE_KUBECONFIG=" + world.places().kubeconfig(), program.string()},
                   {.timeout = Duration(180'000)}));
  CHECK_MESSAGE(done.status.ok(), done.out << done.err);
}
