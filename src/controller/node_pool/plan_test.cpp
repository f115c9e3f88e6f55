#include "controller/node_pool/plan.hpp"

#include <doctest/doctest.h>

using namespace homeostat::controller;

namespace {

PoolNode works(const std::string& name) { return {name, "u-" + name, "ns.c.g", "t-" + name, false, true, true, false}; }
PoolNode waits(const std::string& name) { return {name, "u-" + name, "", "t-" + name, true, true, true, false}; }
PoolMachine machine(const std::string& name) { return {name, "t-" + name, false}; }

PoolWorld pool() {
  PoolWorld world;
  world.name = "gpu", world.uid = "12345678-aaaa";
  world.size = 2, world.spares = 1;
  world.workers = "ns.c.g";
  world.machines.emplace();
  return world;
}

PoolWorld whole_pool() {
  PoolWorld world = pool();
  world.nodes = {works("a"), works("b"), waits("s")};
  world.machines = {machine("a"), machine("b"), machine("s")};
  return world;
}

}  // namespace

// What there is                                   | orders | promotions
TEST_CASE("a pool grows to its size and its spares, and not beyond") {
  PoolWorld world = whole_pool();
  size_t orders = 0, promotions = 0;
  SUBCASE("a b | s: whole") {}
  SUBCASE("nothing") { world = pool(), orders = 3; }
  SUBCASE("three machines on their way") { world.nodes.clear(); }
  SUBCASE("three spares that just came: two are promoted") {
    world.nodes = {waits("a"), waits("b"), waits("s")};
    promotions = 2;
  }
  SUBCASE("three spares that are not fit yet: nobody is promoted") {
    world.nodes = {waits("a"), waits("b"), waits("s")};
    for (auto& node : world.nodes) node.fit = false;
  }
  SUBCASE("size was raised: the spare works, a new one is ordered") { world.size = 3, orders = 1, promotions = 1; }
  SUBCASE("size was lowered: nothing is taken away") { world.size = 1; }
  SUBCASE("the provider is silent: nothing is ordered") { world = pool(), world.machines.reset(); }
  SUBCASE("the machine of a NotReady node is surely gone: another is ordered and the spare works") {
    world.nodes[0].ready = world.nodes[0].fit = false;
    world.machines = {machine("b"), machine("s")};
    orders = 1, promotions = 1;
  }
  SUBCASE("a NotReady node whose machine is there is waited for") { world.nodes[0].ready = world.nodes[0].fit = false; }
  SUBCASE("a was just found sick: its repair brings in the spare and orders") { world.repairs = {{"a", "", ""}}; }
  SUBCASE("the repair has claimed the spare") { world.repairs = {{"a", "s", ""}}; }
  SUBCASE("the repair has promoted the spare") { world.repairs = {{"a", "s", ""}}, world.nodes[2] = works("s"); }
  SUBCASE("the sick machine is gone, the new one ordered") {
    world.repairs = {{"a", "s", "n"}};
    world.nodes = {works("b"), works("s")};
    world.machines = {machine("b"), machine("s"), machine("n")};
  }
  SUBCASE("the new one has come, the repair is still open") {
    world.repairs = {{"a", "s", "n"}};
    world.nodes = {works("b"), works("s"), waits("n")};
    world.machines = {machine("b"), machine("s"), machine("n")};
  }
  SUBCASE("the repair is blocked: the sick one stays, nothing is ordered twice") {
    world.repairs = {{"a", "s", ""}};
    world.nodes[2] = works("s");
  }
  SUBCASE("a failed machine does not count") {
    world.nodes.pop_back(), world.machines->at(2).leaving = true, orders = 1;
  }
  PoolPlan plan = plan_pool(world);
  CHECK(plan.orders.size() == orders);
  CHECK(plan.promotions.size() == promotions);
  CHECK_FALSE(plan.message.empty());
  for (const auto& promotion : plan.promotions) CHECK(promotion.value == "ns.c.g");
}

TEST_CASE("an order whose answer was lost is made again under the same token") {
  PoolWorld world = pool();
  PoolPlan first = plan_pool(world);
  PoolPlan again = plan_pool(world);
  REQUIRE(first.orders.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(first.orders[i].token == again.orders[i].token);
  CHECK(first.orders[0].token == "gpu-12345678-1");
  // The first is there now: the others keep their tokens.
  world.machines = {{first.orders[0].name, first.orders[0].token, false}};
  PoolPlan next = plan_pool(world);
  REQUIRE(next.orders.size() == 2);
  CHECK(next.orders[0].token == first.orders[1].token);
}

TEST_CASE("nodes get their machine's token, and their workers label once a SlurmCluster uses the pool") {
  PoolWorld world = whole_pool();
  world.nodes[0].machine_token.clear();
  world.nodes[1].workers.clear();
  PoolPlan plan = plan_pool(world);
  REQUIRE(plan.tokens.size() == 1);
  CHECK(plan.tokens[0].value == "t-a");
  REQUIRE(plan.labels.size() == 1);
  CHECK(plan.labels[0].node == "b");
  CHECK(plan.whole);
  world.repairs = {{"b", "s", ""}};
  CHECK(plan_pool(world).labels.empty());  // the fence of a repair stays
}

TEST_CASE("a big order is made in bites") {
  PoolWorld world = pool();
  world.size = 100;
  CHECK(plan_pool(world).orders.size() == 8);
}
