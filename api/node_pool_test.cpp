#include "api/node_pool.hpp"

#include <doctest/doctest.h>

#include "io/json.hpp"

using namespace homeostat;

TEST_CASE("a NodePool reads as it was written") {
  auto object = io::parse_json_object(
      R"({"metadata":{"name":"gpu","uid":"u","generation":3},"spec":{"size":2,"spares":1,"gpusPerNode":8,
    "provider":{"type":"local","local":{"credentialsSecretRef":{"namespace":"s","name":"n"}}},"nodeLabels":{"a":"b"},
    "healing":{"enabled":false,"policy":"strict","dryRun":true}}})");
  REQUIRE(object);
  auto pool = api::decode_node_pool(*object);
  CHECK(pool.name == "gpu");
  CHECK(pool.generation == 3);
  CHECK(pool.size == 2);
  CHECK(pool.spares == 1);
  CHECK(pool.gpus_per_node == 8);
  CHECK(pool.provider == api::ProviderSpec{"local", "", "s", "n"});
  CHECK(pool.node_labels.at("a") == "b");
  CHECK_FALSE(pool.healing);
  CHECK(pool.dry_run);
  CHECK(pool.policy == "strict");
}

TEST_CASE("an empty NodePool has the defaults, nonsense does no harm") {
  auto pool = api::decode_node_pool({});
  CHECK(pool.healing);
  CHECK(pool.policy == "default");
  CHECK(api::decode_node_pool(boost::json::object{{"spec", {{"size", -5}}}}).size == 0);
  CHECK(api::decode_node_pool(boost::json::object{{"spec", 7}}).size == 0);
}

TEST_CASE("a NodePool's status survives writing and reading") {
  api::NodePoolStatus status{3, 2, 1, 1, 7};
  CHECK(api::decode_node_pool_status({{"status", api::encode_node_pool_status(status)}}) == status);
}
