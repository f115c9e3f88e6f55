#include "controller/drill/decide.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace homeostat;
using namespace homeostat::controller;

namespace {

using api::DrillPhase;

constexpr TimePoint now{Duration{1'764'483'000'000}};
const std::string token(32, 'a');

api::Drill ordered(std::string fault = "xid=79", std::string device = "") {
  api::Drill drill;
  drill.name = "d", drill.uid = "u", drill.created_at = now;
  drill.node = "gpu-a", drill.fault = std::move(fault), drill.device = std::move(device);
  return drill;
}

//  NodePool gpu (the lab's, not production): gpu-a with two GPUs, healthy, and three more nodes
DrillWorld lab() {
  DrillWorld world;
  world.node_exists = true;
  world.pool = judge_pool({"gpu", 4, 2, true, false}, "local", "");
  world.policy.max_concurrent = 1;
  api::NodeHealth health;
  health.name = "gpu-a";
  health.status.last_report = now;
  health.status.verdict = "Healthy";
  health.status.devices = {{"0000:3d:00", 1, "GPU-b", "Good", ""}, {"0000:17:00", 0, "GPU-a", "Good", ""}};
  health.status.sensors = {{"nvml", "Good", ""}, {"amd", "Absent", ""}};
  world.health = health;
  return world;
}

api::HealthFinding finding(std::string id, bool drill, std::string repair_class = "replace-node") {
  api::HealthFinding made;
  made.id = std::move(id), made.drill = drill, made.repair_class = std::move(repair_class);
  return made;
}

repair::Record open_repair(std::string name, std::string node, repair::Phase phase = repair::Phase::draining) {
  repair::Record record;
  record.name = std::move(name), record.node = std::move(node), record.pool = "gpu", record.phase = phase;
  return record;
}

DrillDecision decide(const api::Drill& drill, const DrillWorld& world, TimePoint at = now) {
  return decide_drill(drill, world, token, at);
}

api::Drill armed(std::string fault = "xid=79") {
  auto drill = ordered(std::move(fault));
  drill.status = decide(drill, lab()).next;
  REQUIRE(drill.status.phase == DrillPhase::armed);
  return drill;
}

api::Drill seen() {
  auto drill = armed();
  auto world = lab();
  world.health->status.findings = {finding("gpu-xid:79@0000:17:00", true)};
  drill.status = decide(drill, world).next;
  REQUIRE(drill.status.phase == DrillPhase::seen);
  return drill;
}

}  // namespace

TEST_CASE("a drill on a healthy node of the lab is armed for a minute, for exactly its lines") {
  const auto decision = decide(ordered(), lab());
  const auto& status = decision.next;
  CHECK(status.phase == DrillPhase::armed);
  CHECK(status.token == token);
  CHECK(status.armed_at == now);
  CHECK(status.expires_at == now + Duration(60'000));
  CHECK(status.device == "0000:17:00");  // the first GPU by index, not by the order in the report
  CHECK(status.findings.front() == "gpu-xid:79@0000:17:00");
  REQUIRE(status.lines.size() > 2);
  CHECK(status.lines[0].text == "NVRM: GPU at PCI:0000:17:00: GPU-a");
  CHECK(status.message.find(token) == std::string::npos);
  CHECK(decision.look_again);
}

//  the world -> why the drill is refused
TEST_CASE("what stands in the way of a drill is said, with what to do") {
  struct Case {
    std::string_view says;
    std::function<void(api::Drill&, DrillWorld&)> change;
  };
  const Case cases[] = {
      {"no node gpu-a", [](auto&, auto& w) { w.node_exists = false; }},
      {"Write which fault", [](auto& d, auto&) { d.fault = "rm -rf"; }},
      {"GPU's index", [](auto& d, auto&) { d.device = "../x"; }},
      {"inject gpu-a xid=79 --production", [](auto&, auto& w) { w.pool->production = true; }},
      {"is in no NodePool, so nobody has said",
       [](auto&, auto& w) { w.pool.reset(), w.health->drills_by_kernel_log = true; }},
      {"Start the agent with --drill-by-kmsg", [](auto&, auto& w) { w.pool.reset(); }},
      {"in no NodePool of the lab", [](auto&, auto& w) { w.pool->fake_hardware = false; }},
      {"is being repaired (rep-1", [](auto&, auto& w) { w.repairs = {open_repair("rep-1", "gpu-a")}; }},
      {"The budget allows 1", [](auto&, auto& w) { w.repairs = {open_repair("rep-1", "gpu-b")}; }},
      {"No agent has reported", [](auto&, auto& w) { w.health.reset(); }},
      {"has not reported since", [](auto&, auto& w) { w.health->status.last_report = now - Duration(61'000); }},
      {"no device 2", [](auto& d, auto&) { d.device = "2"; }},
      {"no device 0000:ff:00", [](auto& d, auto&) { d.device = "0000:ff:00"; }},
      {"has NVIDIA GPUs", [](auto& d, auto&) { d.fault = "amd=ue"; }},
      {"has AMD GPUs",
       [](auto&, auto& w) { w.health->status.sensors = {{"nvml", "Absent", ""}, {"amd", "Good", ""}}; }},
      {"sees no GPU", [](auto&, auto& w) { w.health->status.devices.clear(); }},
      {"already shows gpu-xid:79@0000:17:00",
       [](auto&, auto& w) { w.health->status.findings = {finding("gpu-xid:79@0000:17:00", false)}; }},
      {"only the lab's fake hardware",
       [](auto& d, auto& w) {
         d.fault = "thermal", w.pool->fake_hardware = false, w.health->drills_by_kernel_log = true;
       }},
      {"Drill e (xid=13) is not over",
       [](auto&, auto& w) {
         auto other = ordered("xid=13");
         other.name = "e", other.status.phase = DrillPhase::seen;
         w.others = {other};
       }},
  };
  for (const auto& row : cases) {
    auto drill = ordered();
    auto world = lab();
    row.change(drill, world);
    const auto status = decide(drill, world).next;
    CHECK_MESSAGE(status.phase == DrillPhase::refused, row.says);
    CHECK_MESSAGE(status.message.find(row.says) != std::string::npos, status.message);
    CHECK(status.message.ends_with("."));
    CHECK(status.token.empty());
    CHECK(status.lines.empty());
    CHECK(status.finished_at == now);
  }
}

TEST_CASE("what is over does not stand in the way") {
  auto world = lab();
  auto other = ordered("xid=13");
  other.name = "e", other.status.phase = DrillPhase::done;
  world.others = {other};
  world.repairs = {open_repair("rep-1", "gpu-a", repair::Phase::done)};
  CHECK(decide(ordered(), world).next.phase == DrillPhase::armed);
}

TEST_CASE("of two drills that are ordered at once the older one is armed") {
  auto older = ordered(), younger = ordered();
  older.name = "z", older.created_at = now - Duration(1);
  auto world = lab();
  world.others = {younger};
  CHECK(decide(older, world).next.phase == DrillPhase::armed);
  world.others = {older};
  CHECK(decide(younger, world).next.phase == DrillPhase::refused);
}

//  provider, label -> production?
TEST_CASE("a pool of real machines is production until it says otherwise; the lab is not until it says so") {
  struct Case {
    std::string_view provider, label;
    bool production;
  };
  constexpr Case cases[] = {
      {"local", "", false},      {"local", "false", false},       {"local", "true", true},
      {"cluster-api", "", true}, {"cluster-api", "false", false}, {"cluster-api", "true", true},
      {"webhook", "", true},     {"webhook", "nonsense", true},   {"local", "nonsense", false},
  };
  for (const auto& [provider, label, production] : cases) {
    const auto pool = judge_pool({}, provider, label);
    CHECK_MESSAGE(pool.production == production, provider);
    CHECK(pool.why.empty() != production);
  }
  auto drill = ordered();
  drill.allow_production = true;
  auto world = lab();
  world.health->drills_by_kernel_log = true;
  world.pool = judge_pool({"prod", 4, 2, true, false}, "cluster-api", "");
  CHECK(decide(drill, world).next.phase == DrillPhase::armed);
  world.pool.reset();
  CHECK(decide(drill, world).next.phase == DrillPhase::armed);
}

TEST_CASE("a device is found by index and by address, with or without function") {
  for (const auto* device : {"1", "0000:3d:00", "0000:3d:00.0"})
    CHECK(decide(ordered("xid=79", device), lab()).next.device == "0000:3d:00");
  CHECK(decide(ordered("sxid=12028", "0000:86:00"), lab()).next.device == "0000:86:00");
  CHECK(decide(ordered("link=flap"), lab()).next.phase == DrillPhase::armed);
  auto amd = lab();
  amd.health->status.sensors = {{"nvml", "Absent", ""}, {"amd", "Good", ""}};
  amd.health->status.devices = {{"0000:c1:00", 0, "", "Good", ""}, {"0000:c3:00", 1, "", "Good", ""}};
  CHECK(decide(ordered("amd=ue"), amd).next.device == "0000:c1:00");
  CHECK(decide(ordered("amd=ue", "0000:c3:00.0"), amd).next.device == "0000:c3:00");
  CHECK(decide(ordered("thermal"), lab()).next.expires_at == now + Duration(180'000));
}

TEST_CASE("an armed drill is seen by its finding, by what follows from it, or expires") {
  const auto drill = armed();
  auto world = lab();
  CHECK(decide(drill, world).next == drill.status);
  CHECK(decide(drill, world, now + Duration(59'999)).next.phase == DrillPhase::armed);
  const auto expired = decide(drill, world, now + Duration(60'000)).next;
  CHECK(expired.phase == DrillPhase::expired);
  CHECK(expired.message.find("never showed gpu-xid:79@0000:17:00") != std::string::npos);
  CHECK(expired.token.empty());
  struct Case {
    std::string id;
    bool drill, seen;
  };
  const Case cases[] = {{"gpu-xid:79@0000:17:00", true, true},        {"gpu-xid:79@0000:17:00", false, true},
                        {"gpu-nvml:GPU_LOST@0000:17:00", true, true}, {"gpu-nvml:HOT@0000:17:00", false, false},
                        {"gpu-xid:79@0000:3d:00", true, false},       {"gpu-xid:13@0000:17:00", true, false}};
  for (const auto& [id, marked, is_seen] : cases) {
    world.health->status.findings = {finding(id, marked)};
    const auto status = decide(drill, world, now + Duration(5)).next;
    CHECK_MESSAGE((status.phase == DrillPhase::seen) == is_seen, id);
    if (is_seen) CHECK(status.seen_at == now + Duration(5));
  }
}

TEST_CASE("a driver that hangs is seen by its sensor, and no repair is the right answer") {
  auto drill = armed("hang");
  auto world = lab();
  world.health->status.sensors = {{"nvml", "Failed", "no answer"}};
  world.health->status.verdict = "Unknown";
  drill.status = decide(drill, world).next;
  REQUIRE(drill.status.phase == DrillPhase::seen);
  const auto done = decide(drill, world, now + Duration(30'000)).next;
  CHECK(done.phase == DrillPhase::done);
  CHECK(done.message.find("its verdict is Unknown") != std::string::npos);
}

TEST_CASE("a drill that was seen follows its repair to the end") {
  const auto drill = seen();
  auto world = lab();
  world.health->status.findings = {finding("gpu-xid:79@0000:17:00", true)};
  auto record = open_repair("rep-1", "gpu-a");
  record.fault.drill = true, record.fault.observed_at = now;
  record.message = "evicting pods";
  world.repairs = {open_repair("rep-0", "gpu-a", repair::Phase::done), record};
  auto status = decide(drill, world, now + Duration(90'000)).next;
  CHECK(status.phase == DrillPhase::seen);
  CHECK(status.repair == "rep-1");
  CHECK(status.message == "Repair rep-1 is in Draining: evicting pods.");
  world.repairs.back().phase = repair::Phase::done;
  world.health.reset();  // the machine is replaced
  world.node_exists = false;
  status = decide(drill, world).next;
  CHECK(status.phase == DrillPhase::done);
  CHECK(status.repair == "rep-1");
}

TEST_CASE("a drill that was seen ends without a repair when the node recovers or none is due, and says why") {
  const auto drill = seen();
  auto world = lab();
  CHECK(decide(drill, world).next.message.find("has recovered") != std::string::npos);
  struct Wait {
    std::string_view repair_class;
    fault::RepairClass fallback;
    Duration until;
  };
  using fault::RepairClass;
  // A reset that nobody can make becomes a replacement after its hold of 60 s.
  const Wait waits[] = {{"replace-node", RepairClass::watch, Duration(30'000)},
                        {"", RepairClass::watch, Duration(30'000)},
                        {"reset", RepairClass::replace_node, Duration(90'000)},
                        {"reset", RepairClass::watch, Duration(10'000)},
                        {"drain-after-job", RepairClass::replace_node, Duration(10'000)},
                        {"watch", RepairClass::replace_node, Duration(10'000)}};
  for (const auto& row : waits) {
    world.policy.reset_fallback = row.fallback;
    world.health->status.findings = {finding("gpu-xid:79@0000:17:00", true, std::string(row.repair_class))};
    const auto before = decide(drill, world, now + row.until - Duration(1)).next;
    CHECK(before.phase == DrillPhase::seen);
    CHECK((before.message.find("for 1m00s before the node is replaced") != std::string::npos) ==
          (row.until == Duration(90'000)));
    CHECK(decide(drill, world, now + row.until).next.phase == DrillPhase::done);
  }
  struct Case {
    std::string_view says;
    std::function<void(DrillWorld&)> change;
  };
  const Case cases[] = {{"is watch.", [](auto&) {}},
                        {"answer to gpu-xid:79@0000:17:00 is watch.",  // and not to what came with it
                         [](auto& w) {
                           auto& findings = w.health->status.findings;
                           findings.insert(findings.begin(), finding("gpu-nvml:GPU_LOST@0000:17:00", true, "watch"));
                         }},
                        {"healing is off in NodePool gpu", [](auto& w) { w.pool->facts.healing = false; }},
                        {"healing.dryRun", [](auto& w) { w.pool->facts.dry_run = true; }},
                        {"in no NodePool", [](auto& w) { w.pool.reset(); }}};
  for (const auto& row : cases) {
    auto changed = world;
    row.change(changed);
    const auto status = decide(drill, changed, now + Duration(30'000)).next;
    CHECK(status.phase == DrillPhase::done);
    CHECK_MESSAGE(status.message.find(row.says) != std::string::npos, status.message);
  }
  world.node_exists = false;
  CHECK(decide(drill, world).next.message.find("the node was gone") != std::string::npos);
}

//  gpu-a: 0000:17:00 and 0000:3d:00   -> a line for each, unless one is named
TEST_CASE("a clear is of all devices of the node, in the words of their driver") {
  const auto lines_of = [](const api::Drill& drill, const DrillWorld& world) {
    std::string text;
    for (const auto& line : decide(drill, world).next.lines) text.append(line.text).append("|");
    return text;
  };
  const auto all = lines_of(ordered("clear"), lab());
  CHECK(all.find("Xid (PCI:0000:17:00): 154") != std::string::npos);
  CHECK(all.find("Xid (PCI:0000:3d:00): 154") != std::string::npos);
  CHECK(lines_of(ordered("clear", "1"), lab()).find("0000:17:00") == std::string::npos);
  auto amd = lab();
  amd.health->status.sensors = {{"nvml", "Absent", ""}, {"amd", "Good", ""}};
  CHECK(lines_of(ordered("clear"), amd) ==
        "amdgpu 0000:17:00.0: amdgpu: GPU reset(1) succeeded!|amdgpu 0000:3d:00.0: amdgpu: GPU reset(1) succeeded!|");
}

TEST_CASE("a clear ends the drills before it and is over when nothing of a drill is left") {
  auto clear = ordered("clear");
  clear.name = "z", clear.created_at = now + Duration(1);
  auto world = lab();
  world.health->status.findings = {finding("gpu-xid:79@0000:17:00", true)};
  world.others = {seen()};
  clear.status = decide(clear, world).next;
  REQUIRE(clear.status.phase == DrillPhase::armed);
  CHECK(decide(clear, world).next.phase == DrillPhase::armed);
  world.health->status.findings.clear();
  CHECK(decide(clear, world, now + Duration(2'999)).next.phase == DrillPhase::armed);  // it has not struck yet, perhaps
  CHECK(decide(clear, world, now + Duration(3'000)).next.phase == DrillPhase::done);
  auto earlier = world;
  earlier.others = {clear};
  CHECK(decide(seen(), earlier).next.phase == DrillPhase::done);
  CHECK(decide(armed(), earlier).next.message == "Ended by z (clear).");
}

TEST_CASE("what is over stays for a day and is then taken away") {
  auto drill = armed();
  drill.status.phase = DrillPhase::done, drill.status.finished_at = now;
  auto decision = decide(drill, {}, now + Duration(1'000));
  CHECK_FALSE(decision.remove);
  CHECK(decision.next == drill.status);
  CHECK(decision.look_again == drill_kept - Duration(1'000));
  CHECK(decide(drill, {}, now + drill_kept).remove);
}
