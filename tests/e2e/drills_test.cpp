// Faults on purpose, as a person orders them: seen by the agent's own way, marked as drills, gone when cleared. What a
// process writes into the kernel's log is none of it.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "core/fault/kernel_line.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "world.hpp"

using namespace homeostat;
using namespace homeostat::e2e;

namespace {

kube::Object health_of(const std::string& node) {
  return must(World::get().client().get(kube::resources::node_healths, "", node));
}

// A working node, not the spare.
std::string working_node() {
  auto& world = World::get();
  const auto machines = world.machines();
  const auto spare = world.node_name_of_spare();
  return *std::find_if(machines.begin(), machines.end(), [&](const auto& name) { return name != spare; });
}

// Says whether the node shows the finding, and that it is marked as a drill.
bool shows_drill(const std::string& node, const std::string& id) {
  const auto health = health_of(node);
  for (const auto& finding : io::array_at(health, {"status", "findings"}))
    if (io::string_at(finding, {"id"}) == id) {
      CHECK(io::bool_at(finding, {"drill"}));
      return true;
    }
  return false;
}

}  // namespace

//  inject link=flap | seen, marked, nothing repaired | clear | healthy, and it stays so
TEST_CASE("a drill is seen on the way of a real fault, marked in the record, and gone when it is cleared") {
  auto& world = World::get();
  world.wait_until_whole();
  const auto node = working_node();
  const auto flap = world.homeostat({"inject", node, "link=flap"}, Duration(180'000));
  CHECK_MESSAGE(flap.code == 0, flap.out << flap.err);
  CHECK(shows_drill(node, "infiniband:LINK_FLAPPING@0000:41:00.0"));
  CHECK(io::string_at(health_of(node), {"status", "verdict"}) == "Degraded");
  CHECK_FALSE(must(cli::repair_of(world.context(), node)).has_value());

  const auto clear = world.homeostat({"inject", node, "clear"}, Duration(120'000));
  CHECK_MESSAGE(clear.code == 0, clear.out << clear.err);
  world.wait("the node is healthy again", Duration(30'000),
             [&] { return io::string_at(health_of(node), {"status", "verdict"}) == "Healthy"; });
  world.context().clock().sleep(Duration(8'000), {});  // longer than a sensor's interval: nothing comes back
  CHECK(io::array_at(health_of(node), {"status", "findings"}).empty());
}

TEST_CASE("a drill on a production pool is refused with a sentence until it is asked for by name") {
  auto& world = World::get();
  world.wait_until_whole();
  const auto node = working_node(), pool = "nodepool/" + world.context().names().pool;
  REQUIRE(world.kubectl({"label", pool, "homeostat.dev/production=true"}).code == 0);
  const auto refused = world.homeostat({"inject", node, "xid=79"}, Duration(60'000));
  REQUIRE(world.kubectl({"label", pool, "homeostat.dev/production-"}).code == 0);
  CHECK(refused.code == 4);
  CHECK_MESSAGE(refused.err.find("--production") != std::string::npos, refused.err);
  CHECK(io::array_at(health_of(node), {"status", "findings"}).empty());
}

//  facility user: "NVRM: Xid … 79"   -> counted, no finding, the node works on
TEST_CASE("what a process writes into the kernel's log is a forgery: counted, and no fault") {
  auto& world = World::get();
  world.wait_until_whole();
  const auto node = working_node();
  const auto before = io::int_at(health_of(node), {"status", "forgeries"}, 0);
  const auto path = world.places().state + "/machines/" + node + "/run/kmsg";
  auto log = must(io::read_file(path, 256U << 20));
  log.pop_back();  // the last newline
  const auto last = fault::parse_kmsg_record(std::string_view(log).substr(log.rfind('\n') + 1));
  REQUIRE(last.has_value());
  must(io::append_file(path, fmt::format("12,{},{},-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n",
                                         last->sequence + 1, last->uptime_us + 1)));
  world.wait("the forgery is counted", Duration(30'000),
             [&] { return io::int_at(health_of(node), {"status", "forgeries"}, 0) == before + 1; });
  CHECK(io::array_at(health_of(node), {"status", "findings"}).empty());
  CHECK(io::string_at(health_of(node), {"status", "verdict"}) == "Healthy");
}
