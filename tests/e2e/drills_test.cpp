// Faults on purpose, as a person orders them: seen by the agent's own way, marked as drills, answered as the policy
// says, gone when cleared. What a process writes into the kernel's log is none of it.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>

#include "api/node_health.hpp"
#include "core/fault/kernel_line.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"
#include "world.hpp"

using namespace homeostat;
using namespace homeostat::e2e;

namespace {

constexpr Duration soon{30'000};

api::NodeHealth health_of(const std::string& node) {
  return api::decode_node_health(must(World::get().client().get(kube::resources::node_healths, "", node)));
}

// Working nodes, not the spare.
std::vector<std::string> working_nodes() {
  auto& world = World::get();
  auto machines = world.machines();
  std::erase(machines, world.node_name_of_spare());
  return machines;
}
std::string working_node() { return working_nodes().at(0); }

std::optional<api::HealthFinding> finding_of(const std::string& node, std::string_view id) {
  for (auto& finding : health_of(node).status.findings)
    if (finding.id == id) return std::move(finding);
  return std::nullopt;
}

// Until the node shows the finding, which is marked as a drill and answered with that class.
void check_shows(const std::string& node, const std::string& id, std::string_view repair_class, Duration limit = soon) {
  std::optional<api::HealthFinding> finding;
  World::get().wait(node + " shows " + id, limit, [&] { return (finding = finding_of(node, id)).has_value(); });
  CHECK_MESSAGE(finding->drill, id);
  CHECK_MESSAGE(finding->repair_class == repair_class, id);
}

api::SensorHealth sensor_of(const std::string& node, std::string_view name) {
  for (const auto& sensor : health_of(node).status.sensors)
    if (sensor.name == name) return sensor;
  return {};
}

void check_good(const World::Answer& answer) { CHECK_MESSAGE(answer.code == 0, answer.out << answer.err); }

void wait_healthy(const std::string& node, Duration limit = soon) {
  World::get().wait(node + " is healthy", limit, [&] { return health_of(node).status.verdict == "Healthy"; });
}

// The hardware is sound again: nothing is left of any drill.
void clear(const std::string& node) {
  check_good(World::get().homeostat({"inject", node, "clear"}, Duration(120'000)));
  wait_healthy(node);
  CHECK(health_of(node).status.findings.empty());
}

bool has_repair(const std::string& node) { return must(cli::repair_of(World::get().context(), node)).has_value(); }

// A line that a process of the machine writes into the kernel's log, which looks like the driver's.
void forge_xid(const std::string& node) {
  const auto path = World::get().places().state + "/machines/" + node + "/run/kmsg";
  auto log = must(io::read_file(path, 256U << 20));
  log.pop_back();  // the last newline
  const auto last = fault::parse_kmsg_record(std::string_view(log).substr(log.rfind('\n') + 1));
  REQUIRE(last.has_value());
  must(io::append_file(path, fmt::format("12,{},{},-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n",
                                         last->sequence + 1, last->uptime_us + 1)));
}

void wait_forgery_counted(const std::string& node, std::int64_t before) {
  World::get().wait("the forgery is counted", soon, [&] { return health_of(node).status.forgeries == before + 1; });
}

// A second pool of the lab, whose machines have AMD GPUs, while a case needs it.
class AmdPool {
 public:
  AmdPool() {
    auto& world = World::get();
    const auto made = world.kubectl({"apply", "-f", world.places().sources + "/examples/amd-pool.yaml"});
    REQUIRE_MESSAGE(made.code == 0, made.err);
  }
  ~AmdPool() {
    auto& world = World::get();
    world.kubectl({"delete", "nodepool", "amd", "--wait=false"});
    for (const auto& machine : world.machines("amd")) {
      world.lab({"machine", "delete", machine});
      world.kubectl({"delete", "node", machine, "--wait=false"});
    }
  }
  AmdPool(const AmdPool&) = delete;
  AmdPool& operator=(const AmdPool&) = delete;

  // Its one node, once it is healthy.
  std::string node() const {
    auto& world = World::get();
    std::string name;
    world.wait("the AMD pool's machine is there and healthy", Duration(90'000), [&] {
      for (const auto& machine : world.machines("amd")) {
        const auto health = world.client().get(kube::resources::node_healths, "", machine);
        if (health && api::decode_node_health(*health).status.verdict == "Healthy") name = machine;
      }
      return !name.empty();
    });
    return name;
  }
};

// The two AMD GPUs are the node's only ones, and nobody misses NVIDIA's driver there.
void check_amd_node(const std::string& node) {
  CHECK(sensor_of(node, "amd").state == "Good");
  CHECK(sensor_of(node, "nvml").state == "Absent");
  const auto status = health_of(node).status;
  CHECK(status.expected_gpus == 2);
  CHECK(status.devices.size() == 2);
}

//  amd=ue            -> fatal, a reset is asked for, nothing is replaced before somebody could have made it
//  amd=reset-failed  -> the machine is replaced, as a drill in every record
void check_amd_drills(const AmdPool& pool) {
  auto& world = World::get();
  const auto node = pool.node();
  check_amd_node(node);
  const auto refused = world.homeostat({"inject", node, "xid=79"});
  CHECK(refused.code == 4);
  CHECK_MESSAGE(refused.err.find("has AMD GPUs") != std::string::npos, refused.err);
  check_good(world.homeostat({"inject", node, "amd=ue", "--no-wait"}));
  check_shows(node, "amd-ras:RAS_UE/umc@0000:c1:00", "reset");
  CHECK(health_of(node).status.verdict == "Unhealthy");
  clear(node);
  CHECK_FALSE(has_repair(node));

  const auto listener = must(cli::NotificationListener::start(world.context()));
  auto drill = world.homeostat_meanwhile({"inject", node, "amd=reset-failed", "device=1"});
  check_shows(node, "amd-gpu:RESET_FAILED@0000:c3:00", "replace-node");
  check_good(drill.get());
  std::optional<repair::Record> record;
  world.wait("the AMD machine is replaced", Duration(120'000), [&] {
    record = must(cli::repair_of(world.context(), node));
    return record && record->phase == repair::Phase::done;
  });
  CHECK(record->fault.drill);
  CHECK(world.client().get(kube::resources::nodes, "", node).error().kind == ErrorKind::not_found);
  const auto notices = listener->notices();
  CHECK_FALSE(notices.empty());
  for (const auto& notice : notices) {
    const auto body = must(io::parse_json_object(notice.body, "the webhook"));
    CHECK(io::bool_at(body, {"fault", "drill"}));
    CHECK(io::string_at(body, {"text"}).starts_with("DRILL:"));
  }
  const auto next = pool.node();
  CHECK(next != node);
  check_amd_node(next);
}

//  ecc=correctable        -> watched          ecc=row-remap-pending  -> told: no new jobs, repair after this one
void check_ecc_drills(const std::string& node) {
  auto& world = World::get();
  check_good(world.homeostat({"inject", node, "ecc=correctable"}));
  check_shows(node, "gpu-xid:92@0000:17:00", "watch");
  CHECK(health_of(node).status.verdict != "Unhealthy");
  clear(node);
  check_good(world.homeostat({"inject", node, "ecc=row-remap-pending", "device=1"}));
  check_shows(node, "gpu-xid:63@0000:3d:00", "drain-after-job");
  clear(node);
  CHECK_FALSE(has_repair(node));
}

// While NVIDIA's library answers no more: Unknown with the reason, and the kernel's log and the ports are watched on.
void check_hang(const std::string& node) {
  auto& world = World::get();
  const auto status = health_of(node).status;
  CHECK(status.verdict == "Unknown");
  CHECK(status.findings.empty());
  CHECK(sensor_of(node, "nvml").state == "Failed");
  CHECK(sensor_of(node, "nvml").message.find("has not answered for") != std::string::npos);
  CHECK(status.message.find("nvml") != std::string::npos);
  for (const auto& sensor : status.sensors)
    CHECK_MESSAGE((sensor.name == "nvml") == (sensor.state == "Failed"), sensor.name << " is " << sensor.state);
  forge_xid(node);
  const auto flap = world.lab({"inject", node, "link=flap"});
  CHECK_MESSAGE(flap.code == 0, flap.err);
  wait_forgery_counted(node, status.forgeries);
  world.wait("the flapping port is seen", soon,
             [&] { return finding_of(node, "infiniband:LINK_FLAPPING@0000:41:00.0").has_value(); });
  CHECK(sensor_of(node, "nvml").state == "Failed");
  clear(node);
  CHECK_FALSE(has_repair(node));
}

}  // namespace

//  inject link=flap | seen, marked, nothing repaired | clear | healthy, and it stays so
TEST_CASE("a drill is seen on the way of a real fault, marked in the record, and gone when it is cleared") {
  auto& world = World::get();
  world.wait_until_whole();
  const auto node = working_node();
  check_good(world.homeostat({"inject", node, "link=flap"}, Duration(180'000)));
  check_shows(node, "infiniband:LINK_FLAPPING@0000:41:00.0", "drain-after-job");
  CHECK(health_of(node).status.verdict == "Degraded");
  CHECK_FALSE(has_repair(node));
  clear(node);
  world.context().clock().sleep(Duration(8'000), {});  // longer than a sensor's interval: nothing comes back
  CHECK(health_of(node).status.findings.empty());
}

//  working node 1   thermal ─────────────────────── seen after a minute │ clear
//  working node 2   ecc=correctable │ clear │ ecc=row-remap-pending │ clear
//  the spare        hang ──────────── other sensors go on │ clear
//  an AMD machine   (comes up) ────── amd=ue │ clear │ amd=reset-failed │ replaced
TEST_CASE("ECC errors, heat, a driver that hangs and AMD's errors are each seen by their own sensor and answered") {
  auto& world = World::get();
  world.wait_until_whole();
  const AmdPool amd;
  const auto working = working_nodes();
  const auto spare = world.node_name_of_spare();
  REQUIRE(working.size() == 2);
  auto hang = world.homeostat_meanwhile({"inject", spare, "hang"});
  check_good(world.homeostat({"inject", working[0], "thermal", "--no-wait"}));
  check_ecc_drills(working[1]);
  check_good(hang.get());
  check_hang(spare);
  check_amd_drills(amd);
  check_shows(working[0], "gpu-nvml:THROTTLE_HW_THERMAL@0000:17:00", "watch", Duration(90'000));
  clear(working[0]);
  CHECK_FALSE(has_repair(working[0]));
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
  CHECK(health_of(node).status.findings.empty());
}

//  facility user: "NVRM: Xid … 79"   -> counted, no finding, the node works on
TEST_CASE("what a process writes into the kernel's log is a forgery: counted, and no fault") {
  auto& world = World::get();
  world.wait_until_whole();
  const auto node = working_node();
  const auto before = health_of(node).status.forgeries;
  forge_xid(node);
  wait_forgery_counted(node, before);
  CHECK(health_of(node).status.findings.empty());
  CHECK(health_of(node).status.verdict == "Healthy");
}
