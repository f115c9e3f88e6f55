#include "controller/drill/decide.hpp"

#include <algorithm>
#include <span>

#include "core/fault/drill.hpp"
#include "core/names.hpp"

namespace homeostat::controller {

namespace {

using api::Drill;
using api::DrillPhase;
using api::DrillStatus;

constexpr Duration look_while_armed{100}, look_while_seen{1'000};
// A report that is older than this comes from an agent that is not there.
constexpr Duration report_age{60'000};
constexpr Duration clear_time{3'000};
constexpr Duration clock_skew{60'000};  // between a node's clock and ours

bool is_clear(const Drill& drill) { return drill.fault.starts_with("clear"); }

DrillDecision end(DrillStatus status, DrillPhase phase, std::string message, TimePoint now) {
  status.phase = phase;
  status.message = std::move(message);
  status.token.clear();
  status.lines.clear();
  status.finished_at = now;
  return {std::move(status), drill_kept, false};
}

// What stands in the way, as a sentence; "" when nothing does.
std::string production_objection(const Drill& drill, const DrillWorld& world) {
  if (drill.allow_production || (world.pool && !world.pool->production)) return {};
  const std::string order = "homeostat inject " + drill.node + " " + drill.fault + " --production";
  if (!world.pool)
    return "Node " + drill.node + " is in no NodePool, so nobody has said that it may be broken. Write " + order +
           " if it may (it will not be healed).";
  return "NodePool " + world.pool->facts.name + " counts as production: " + world.pool->why + ". Write " + order +
         " to break one of its nodes all the same, or say that drills may strike it: kubectl label nodepool " +
         world.pool->facts.name + " --overwrite " + std::string(names::production_label) + "=false.";
}

bool came_before(const Drill& a, const Drill& b) {
  return std::pair(a.created_at, a.name) < std::pair(b.created_at, b.name);
}

std::string other_drill_objection(const Drill& drill, const DrillWorld& world) {
  if (is_clear(drill)) return {};  // it ends them
  for (const auto& other : world.others) {
    if (!api::is_active(other.status.phase)) continue;
    if (other.status.phase == DrillPhase::pending && !came_before(other, drill)) continue;
    return "Drill " + other.name + " (" + other.fault + ") is not over on node " + drill.node +
           ". Wait for it, or end it with homeostat inject --clear " + drill.node + ".";
  }
  return {};
}

std::string repair_objection(const Drill& drill, const DrillWorld& world) {
  int open = 0, open_in_pool = 0;
  for (const auto& record : world.repairs) {
    if (repair::is_terminal(record.phase)) continue;
    if (record.node == drill.node)
      return "Node " + drill.node + " is being repaired (" + record.name + " is in " +
             std::string(repair::to_string(record.phase)) + "). Wait until it is over.";
    ++open;
    if (world.pool && record.pool == world.pool->facts.name) ++open_in_pool;
  }
  if (!world.pool || is_clear(drill)) return {};
  const int by_percent = std::max(1, (world.pool->facts.nodes * world.policy.max_percent + 99) / 100);
  const int allowed = std::min(world.policy.max_concurrent, by_percent);
  if (open < world.policy.max_concurrent && open_in_pool < allowed) return {};
  return "The budget allows " + std::to_string(allowed) + " repairs at once and " + std::to_string(open) +
         " are open, so this drill would not be healed. Wait for them (homeostat repairs).";
}

std::string silence_objection(const Drill& drill, const DrillWorld& world, TimePoint now) {
  if (!world.health || world.health->status.last_report + report_age >= now) return {};
  return "The agent of node " + drill.node + " has not reported since " +
         format_rfc3339(world.health->status.last_report) + ", so nobody would see the drill. Look at its pod first.";
}

// On a real node the agent strikes and proves that it was ordered; where none does, nothing would ever happen, whatever
// else is allowed.
std::string agent_objection(const Drill& drill, const DrillWorld& world) {
  if (!world.health)
    return "No agent has reported on node " + drill.node +
           " yet, so nobody would see the drill. Is the DaemonSet homeostat-agent running there?";
  if (world.health->drills_by_kernel_log || (world.pool && world.pool->fake_hardware)) return {};
  return "No drill can strike node " + drill.node +
         ": it is in no NodePool of the lab, and its agent writes none into the kernel log. Start the agent with "
         "--drill-by-kmsg, as deploy/manifests does.";
}

// Says whether the node has GPUs that this sensor reads.
bool finds_gpus(const api::NodeHealth& health, std::string_view sensor) {
  return std::ranges::any_of(health.status.sensors,
                             [&](const auto& s) { return s.name == sensor && s.state != "Absent"; });
}

// A line of a driver that the node does not have would prove nothing.
std::string make_objection(const Drill& drill, const fault::DrillFault& fault, const api::NodeHealth& health) {
  const auto driver = fault::driver_of(fault.kind);
  const bool nvidia = finds_gpus(health, "nvml"), amd = finds_gpus(health, "amd");
  if (driver == "nvidia" && amd && !nvidia)
    return "Node " + drill.node + " has AMD GPUs, which cannot have '" + drill.fault +
           "'. Choose amd=ue, amd=poison or amd=reset-failed.";
  if (driver == "amdgpu" && nvidia && !amd)
    return "Node " + drill.node + " has NVIDIA GPUs, which cannot have '" + drill.fault +
           "'. Choose xid=79, for example.";
  return {};
}

// The device that the drill names, from what the agent knows of the node.
Result<fault::DrillTarget> find_target(const Drill& drill, const fault::DrillFault& fault, const DrillWorld& world) {
  fault::DrillTarget target;
  target.fake_hardware = world.pool && world.pool->fake_hardware;
  target.amd = finds_gpus(*world.health, "amd") && !finds_gpus(*world.health, "nvml");
  auto devices = world.health->status.devices;
  std::ranges::sort(devices, {}, &api::DeviceHealth::index);
  const auto without_function = drill.device.substr(0, drill.device.find('.'));
  const auto found = std::ranges::find_if(devices, [&](const api::DeviceHealth& device) {
    return drill.device.empty() || std::to_string(device.index) == drill.device || device.id == without_function;
  });
  const bool addressed = drill.device.find(':') != std::string::npos;
  if (found != devices.end() && fault.kind != fault::DrillKind::sxid) {
    target.device = found->id;
    target.uuid = found->uuid;
    return target;
  }
  // A switch is no device that the agent lists.
  if (fault.kind == fault::DrillKind::sxid) target.device = addressed ? without_function : "0000:c1:00";
  if (fault.kind == fault::DrillKind::sxid || fault.kind == fault::DrillKind::link) return target;
  if (fault.kind == fault::DrillKind::clear && devices.empty()) return target;
  if (devices.empty())
    return fail(ErrorKind::invalid, "The agent of node " + drill.node + " sees no GPU, so none can fail there.");
  return fail(ErrorKind::invalid, "Node " + drill.node + " has no device " + drill.device + ": its " +
                                      std::to_string(devices.size()) + " devices are " + devices.front().id + " (" +
                                      std::to_string(devices.front().index) + ") to " + devices.back().id + " (" +
                                      std::to_string(devices.back().index) + ").");
}

// A clear that names no device is of all of them.
void add_other_devices(const Drill& drill, const fault::DrillFault& fault, const DrillWorld& world,
                       fault::DrillTarget target, fault::DrillPlan& plan) {
  if (fault.kind != fault::DrillKind::clear || !drill.device.empty()) return;
  const auto first = target.device;
  for (const auto& device : world.health->status.devices) {
    if (device.id == first) continue;
    target.device = device.id;
    if (auto more = fault::plan_drill(fault, target); more && plan.lines.size() < fault::max_drill_lines)
      plan.lines.insert(plan.lines.end(), more->lines.begin(), more->lines.end());
  }
}

std::string sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 32);
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

// The finding that tells of the drill, the telling one before what comes with it; or nullptr. A drill that only fake
// hardware can do has no line of its own.
const api::HealthFinding* seen_finding(const DrillStatus& status, const api::NodeHealth& health) {
  const api::HealthFinding* seen = nullptr;
  for (const auto& finding : health.status.findings) {
    if ((!finding.drill && finding.id != status.findings.front()) ||
        !fault::matches_expected(finding.id, status.findings))
      continue;
    if (fault::matches_expected(finding.id, std::span(status.findings).first(1))) return &finding;
    if (seen == nullptr) seen = &finding;
  }
  return seen;
}

bool shows(const Drill& drill, const api::NodeHealth& health, TimePoint now) {
  const auto& expected = drill.status.findings;
  if (expected.empty())  // a clear: nothing of a drill is left, after it has had the time to strike
    return drill.status.armed_at && *drill.status.armed_at + clear_time <= now &&
           std::ranges::none_of(health.status.findings, &api::HealthFinding::drill) &&
           health.status.verdict != "Unknown";
  for (const auto& sensor : health.status.sensors)
    if (sensor.state == "Failed" && fault::matches_expected("sensor:" + sensor.name, expected)) return true;
  return seen_finding(drill.status, health) != nullptr;
}

std::string first_missing(const DrillStatus& status) {
  return status.findings.empty() ? std::string("its recovery") : status.findings.front();
}

DrillDecision arm(const Drill& drill, const DrillWorld& world, const std::string& token, TimePoint now) {
  DrillStatus status = drill.status;
  const auto refuse = [&](std::string why) { return end(status, DrillPhase::refused, sentence(std::move(why)), now); };
  const auto fault = fault::parse_drill(drill.fault);
  if (!fault) return refuse(fault.error().message);
  if (!fault::is_drill_device(drill.device))
    return refuse("device is a GPU's index such as 0, or a PCI address such as 0000:17:00");
  if (!world.node_exists) return refuse("There is no node " + drill.node + ". See kubectl get nodes");
  for (const auto& objection :
       {agent_objection(drill, world), production_objection(drill, world), other_drill_objection(drill, world),
        repair_objection(drill, world), silence_objection(drill, world, now)})
    if (!objection.empty()) return refuse(objection);
  if (auto objection = make_objection(drill, *fault, *world.health); !objection.empty()) return refuse(objection);
  const auto target = find_target(drill, *fault, world);
  if (!target) return refuse(target.error().message);
  auto plan = fault::plan_drill(*fault, *target);
  if (!plan) return refuse(plan.error().message);
  add_other_devices(drill, *fault, world, *target, *plan);
  status.device = target->device;
  status.findings = std::move(plan->findings);
  if (!status.findings.empty())
    for (const auto& finding : world.health->status.findings)
      if (fault::matches_expected(finding.id, status.findings))
        return refuse("Node " + drill.node + " already shows " + finding.id +
                      ", so the drill would prove nothing. Clear it first: homeostat inject " + drill.node + " clear");
  for (auto& line : plan->lines) status.lines.push_back({line.level, std::move(line.text)});
  status.phase = DrillPhase::armed;
  status.token = token;
  status.armed_at = now;
  status.expires_at = now + plan->life;
  status.message = "Armed for " + format_duration(plan->life) + ": the fault may strike now.";
  return {std::move(status), look_while_armed, false};
}

// A clear that was ordered later ends what stands in its way.
std::optional<DrillDecision> ended_by_clear(const Drill& drill, const DrillWorld& world, TimePoint now) {
  for (const auto& other : world.others)
    if (is_clear(other) && api::is_active(other.status.phase) && came_before(drill, other))
      return end(drill.status, DrillPhase::done, "Ended by " + other.name + " (clear).", now);
  return std::nullopt;
}

DrillDecision watch_armed(const Drill& drill, const DrillWorld& world, TimePoint now) {
  if (auto ended = ended_by_clear(drill, world, now)) return *ended;
  DrillStatus status = drill.status;
  if (world.health && shows(drill, *world.health, now)) {
    status.seen_at = now;
    if (status.findings.empty()) return end(status, DrillPhase::done, "Nothing of a drill is left on the node.", now);
    status.phase = DrillPhase::seen;
    const auto* finding = seen_finding(status, *world.health);
    status.message = "Seen by the agent: " + (finding ? finding->id : std::string("the sensor fails")) +
                     "; the node's verdict is " + world.health->status.verdict + ".";
    return {std::move(status), look_while_seen, false};
  }
  if (!status.armed_at || !status.expires_at)
    return end(status, DrillPhase::expired, "Nobody knows when it was armed.", now);
  if (now < *status.expires_at) return {std::move(status), look_while_armed, false};
  return end(status, DrillPhase::expired,
             "It was armed for " + format_duration(*status.expires_at - *status.armed_at) +
                 " and the agent never showed " + first_missing(status) +
                 ". Did the fault strike, and does the agent's pod run on node " + drill.node + "?",
             now);
}

// The Repair that the drill has led to: opened of this node after it was armed.
const repair::Record* repair_of(const Drill& drill, const DrillWorld& world) {
  for (const auto& record : world.repairs) {
    if (record.node != drill.node || !drill.status.armed_at) continue;
    const bool ours =
        record.name == drill.status.repair || (record.fault.drill && record.fault.observed_at &&
                                               *record.fault.observed_at + clock_skew >= *drill.status.armed_at);
    if (ours) return &record;  // a node and its boot have one
  }
  return nullptr;
}

std::string why_no_repair(const Drill& drill, const DrillWorld& world) {
  if (!world.pool) return "the node is in no NodePool";
  if (!world.pool->facts.healing) return "healing is off in NodePool " + world.pool->facts.name;
  if (world.pool->facts.dry_run)
    return "NodePool " + world.pool->facts.name + " only says what it would do (healing.dryRun)";
  const auto* finding = seen_finding(drill.status, *world.health);
  if (finding == nullptr) return "nobody can say what the node lacks: its verdict is " + world.health->status.verdict;
  if (!finding->repair_class.empty()) return "the policy's answer to " + finding->id + " is " + finding->repair_class;
  return "the node's verdict is " + world.health->status.verdict;
}

// How long after it was seen a Repair may still come.
Duration patience_with(const Drill& drill, const DrillWorld& world) {
  bool any = false, may_replace = false, waits_for_reset = false;
  for (const auto& finding : world.health->status.findings) {
    if (!fault::matches_expected(finding.id, drill.status.findings)) continue;
    const auto& answer = finding.repair_class;
    any = true;
    may_replace = may_replace || answer.empty() || answer == fault::to_string(fault::RepairClass::replace_node);
    waits_for_reset = waits_for_reset || answer == fault::to_string(fault::RepairClass::reset);
  }
  const bool stands_in = world.policy.reset_fallback == fault::RepairClass::replace_node;
  if (may_replace || !any) return drill_patience;
  return waits_for_reset && stands_in ? world.policy.reset_hold + drill_patience : drill_patience_unanswered;
}

DrillDecision watch_seen(const Drill& drill, const DrillWorld& world, TimePoint now) {
  DrillStatus status = drill.status;
  if (const auto* record = repair_of(drill, world)) {
    status.repair = record->name;
    std::string message = "Repair " + record->name + " is in " + std::string(repair::to_string(record->phase)) +
                          (record->message.empty() ? "." : ": " + record->message + ".");
    if (repair::is_terminal(record->phase)) return end(status, DrillPhase::done, std::move(message), now);
    status.message = std::move(message);
    return {std::move(status), look_while_seen, false};
  }
  if (auto ended = ended_by_clear(drill, world, now)) return *ended;
  if (!world.node_exists || !world.health) return end(status, DrillPhase::done, "Seen; then the node was gone.", now);
  if (!shows(drill, *world.health, now))
    return end(status, DrillPhase::done, "Seen, and the node has recovered; no repair was needed.", now);
  const auto patience = patience_with(drill, world);
  if (status.seen_at && now < *status.seen_at + patience) {
    if (patience > drill_patience)
      status.message = "Seen; the policy's answer is a reset, which somebody else may make for " +
                       format_duration(world.policy.reset_hold) + " before the node is replaced.";
    return {std::move(status), look_while_seen, false};
  }
  return end(status, DrillPhase::done,
             "Seen; no repair was opened: " + why_no_repair(drill, world) +
                 ". The finding stays until homeostat inject " + drill.node + " clear.",
             now);
}

}  // namespace

DrillPool judge_pool(repair::PoolFacts facts, std::string_view provider, std::string_view label) {
  DrillPool pool{std::move(facts), true, {}, provider == "local"};
  const std::string named(names::production_label);
  pool.production = label == "true" || (label != "false" && !pool.fake_hardware);
  if (label == "true")
    pool.why = "it has the label " + named + "=true";
  else if (pool.production)
    pool.why = "it has real machines (provider " + std::string(provider) + ") and no label " + named + "=false";
  return pool;
}

DrillDecision decide_drill(const Drill& drill, const DrillWorld& world, const std::string& fresh_token, TimePoint now) {
  switch (drill.status.phase) {
    case DrillPhase::pending:
      return arm(drill, world, fresh_token, now);
    case DrillPhase::armed:
      return watch_armed(drill, world, now);
    case DrillPhase::seen:
      return watch_seen(drill, world, now);
    case DrillPhase::done:
    case DrillPhase::refused:
    case DrillPhase::expired:
      break;
  }
  const auto gone_at = drill.status.finished_at.value_or(drill.created_at) + drill_kept;
  return {drill.status, gone_at > now ? std::optional(gone_at - now) : std::nullopt, gone_at <= now};
}

}  // namespace homeostat::controller
