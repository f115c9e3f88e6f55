#include "cli/manifests.hpp"

#include <doctest/doctest.h>

#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::cli;

TEST_CASE("documents, quoted and plain scalars, lists and nested maps") {
  const auto objects = parse_manifests(
      "---\n# a comment alone is no document\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {x: "
      "\"true\", y: '7'}}\n"
      "spec: {count: 7, ratio: 0.5, on: true, off: no, none: null, list: [1, two]}\n---\napiVersion: apps/v1\nkind: "
      "DaemonSet\n"
      "metadata: {name: d, namespace: n}\n",
      "test");
  REQUIRE(objects.has_value());
  REQUIRE(objects->size() == 2);
  const auto& node = objects->front();
  CHECK(io::string_at(node, {"metadata", "labels", "x"}) == "true");
  CHECK(io::string_at(node, {"metadata", "labels", "y"}) == "7");
  CHECK(io::int_at(node, {"spec", "count"}) == 7);
  CHECK(io::double_at(node, {"spec", "ratio"}) == doctest::Approx(0.5));
  CHECK(io::bool_at(node, {"spec", "on"}));
  CHECK(io::string_at(node, {"spec", "off"}) == "no");
  CHECK(io::array_at(node, {"spec", "list"}).size() == 2);
}

TEST_CASE("what is not YAML, or no manifest, is refused with its origin and line") {
  const auto broken = parse_manifests("a: [1\nb: 2\n", "x.yaml");
  REQUIRE_FALSE(broken.has_value());
  CHECK(broken.error().message.find("x.yaml") != std::string::npos);
  CHECK(broken.error().message.find("line") != std::string::npos);
  CHECK_FALSE(parse_manifests("- 1\n- 2\n", "x.yaml").has_value());
  CHECK_FALSE(read_manifests("/nowhere/x.yaml").has_value());
}

TEST_CASE("kinds are found where the API server keeps them") {
  struct Row {
    const char *api_version, *kind, *group, *plural;
    bool namespaced;
  };
  const Row rows[] = {{"v1", "Namespace", "", "namespaces", false},
                      {"apps/v1", "DaemonSet", "apps", "daemonsets", true},
                      {"homeostat.dev/v1alpha1", "HealthPolicy", "homeostat.dev", "healthpolicies", false},
                      {"homeostat.dev/v1alpha1", "NodePool", "homeostat.dev", "nodepools", false},
                      {"homeostat.dev/v1alpha1", "SlurmCluster", "homeostat.dev", "slurmclusters", true},
                      {"scheduling.k8s.io/v1", "PriorityClass", "scheduling.k8s.io", "priorityclasses", false},
                      {"storage.k8s.io/v1", "StorageClass", "storage.k8s.io", "storageclasses", false},
                      {"networking.k8s.io/v1", "NetworkPolicy", "networking.k8s.io", "networkpolicies", true}};
  for (const auto& row : rows) {
    CAPTURE(row.kind);
    const auto resource = resource_of({{"apiVersion", row.api_version}, {"kind", row.kind}});
    REQUIRE(resource.has_value());
    CHECK(resource->group == row.group);
    CHECK(resource->plural == row.plural);
    CHECK(resource->namespaced == row.namespaced);
  }
  CHECK_FALSE(resource_of({{"kind", "Pod"}}).has_value());
}

TEST_CASE("the manifests that we ship are read, every one") {
  const std::string root = HOMEOSTAT_SOURCE_DIR;
  for (const char* path :
       {"/deploy/manifests", "/deploy/lab", "/examples/cluster.yaml", "/examples/amd-pool.yaml", "/api/crds"}) {
    CAPTURE(path);
    const auto objects = read_manifests(root + path);
    REQUIRE(objects.has_value());
    CHECK_FALSE(objects->empty());
    for (const auto& object : *objects) CHECK(resource_of(object).has_value());
  }
}
