#include "lab/cluster_loops.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>

#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::lab;
namespace json = boost::json;

namespace {
json::object object(const char* text) { return json::parse(text).as_object(); }
json::object service(const std::string& name, const char* type, const std::string& address = {},
                     const std::string& wish = {}) {
  auto o = object(R"({"metadata":{"namespace":"n"},"spec":{}})");
  io::set_at(o, {"metadata", "name"}, json::string(name));
  io::set_at(o, {"spec", "type"}, type);
  if (!wish.empty()) io::set_at(o, {"spec", "loadBalancerIP"}, json::string(wish));
  if (!address.empty())
    io::set_at(o, {"status", "loadBalancer", "ingress"}, json::array{json::object{{"ip", address}}});
  return o;
}
}  // namespace

//  a: LoadBalancer, none      -> the lowest free (.1 is b's)    b: has .1 -> stays     c: ClusterIP -> not ours
//  d: wishes .7 -> .7         e: wishes .1, taken -> next free                          f: an address of elsewhere -> a
//  new one
TEST_CASE("each Service of type LoadBalancer gets one address of the range and keeps it") {
  auto range = *parse_cidr("10.98.0.0/24");
  auto given =
      assign_balancers({service("a", "LoadBalancer"), service("b", "LoadBalancer", "10.98.0.1"),
                        service("c", "ClusterIP"), service("d", "LoadBalancer", "", "10.98.0.7"),
                        service("e", "LoadBalancer", "", "10.98.0.1"), service("f", "LoadBalancer", "192.0.2.1")},
                       range);
  REQUIRE(given.size() == 4);
  CHECK(given[0].service == "a");
  CHECK(given[0].address == "10.98.0.2");
  CHECK(given[1].address == "10.98.0.7");
  CHECK(given[2].address == "10.98.0.3");
  CHECK(given[3].address == "10.98.0.4");

  auto foreign = service("g", "LoadBalancer");
  io::set_at(foreign, {"spec", "loadBalancerClass"}, "other");
  CHECK(assign_balancers({foreign}, range).empty());
  std::vector<json::object> many;
  many.reserve(300);
  for (int i = 0; i < 300; ++i) many.push_back(service("s" + std::to_string(i), "LoadBalancer"));
  CHECK(assign_balancers(many, range).size() == 254);
}

TEST_CASE("a waiting claim of the shared class gets a volume that only it can bind") {
  auto claim = object(
      R"({"metadata":{"namespace":"n","name":"home","uid":"0123456789"},"spec":{"storageClassName":"homeostat-lab-shared",
                          "accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"5Gi"}}}})");
  auto volumes = volumes_for({claim});
  REQUIRE(volumes.size() == 1);
  CHECK(volumes[0].folder == "n.home.01234567");
  const auto& o = volumes[0].object;
  CHECK(io::string_at(o, {"metadata", "name"}) == "lab-0123456789");
  CHECK(io::string_at(o, {"spec", "claimRef", "uid"}) == "0123456789");
  CHECK(io::string_at(o, {"spec", "capacity", "storage"}) == "5Gi");
  CHECK(io::string_at(o, {"spec", "hostPath", "path"}) == "/srv/homeostat/shared/n.home.01234567");

  auto bound = claim, other = claim, leaving = claim;
  io::set_at(bound, {"spec", "volumeName"}, "x");
  io::set_at(other, {"spec", "storageClassName"}, "fast");
  io::set_at(leaving, {"metadata", "deletionTimestamp"}, "2026-11-30T07:00:00Z");
  CHECK(volumes_for({bound, other, leaving}).empty());
}

TEST_CASE("nodes show the GPUs of their machines") {
  Machine gpu, plain;
  gpu.order.name = "gpu-1", gpu.order.gpus = 8;
  plain.order.name = "system-1";
  auto node = object(R"({"metadata":{"name":"gpu-1"},"status":{"capacity":{"cpu":"2"}}})");
  auto shown = object(R"({"metadata":{"name":"gpu-1"},"status":{"capacity":{"nvidia.com/gpu":"8"}}})");
  auto system = object(R"({"metadata":{"name":"system-1"}})"), foreign = object(R"({"metadata":{"name":"other"}})");
  auto missing = missing_gpus({node, system, foreign}, {gpu, plain});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].node == "gpu-1");
  CHECK(missing[0].gpus == 8);
  CHECK(missing[0].resource == "nvidia.com/gpu");
  gpu.order.labels["lab.homeostat.dev/gpus"] = "amd";
  missing = missing_gpus({shown}, {gpu});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].resource == "amd.com/gpu");
  gpu.order.labels.clear();
  CHECK(missing_gpus({shown}, {gpu, plain}).empty());
}
