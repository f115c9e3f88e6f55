// One step of one repair: the record and what was just read go in; the next record, at most one effect and the reason
// come out. The caller persists the next record by compare-and-swap BEFORE it carries out the effect, then tells the
// outcome with report_outcome() and observes again. Carrying out the same effect twice is harmless by construction of
// the effects. A fact that could not be read is `unknown`, and nothing irreversible is ever decided on an unknown fact.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/repair/detectors.hpp"
#include "core/repair/plan.hpp"
#include "core/repair/record.hpp"

namespace homeostat::repair {

// Something read from the world: present, surely absent, or unknown (not read, or the read failed).
template <class T>
struct Fact {
  enum class State { unknown, absent, present };
  State state = State::unknown;
  T value{};

  static Fact present(T value) { return {State::present, std::move(value)}; }
  static Fact absent() { return {State::absent, {}}; }
  bool is_unknown() const { return state == State::unknown; }
  bool is_absent() const { return state == State::absent; }
  bool is_present() const { return state == State::present; }
};

struct NodeView {
  std::string name = {}, uid = {};
  bool ready = false, unschedulable = false, spare = false;  // spare: carries the taint
  std::string workers = {}, promoted_for = {}, cordoned_by = {}, machine_token = {};
  std::vector<NodeCondition> conditions = {};
};

struct HealthView {
  std::string verdict = {}, boot_id = {};
  int gpus = 0;                               // healthy ones counted by the agent
  std::optional<TimePoint> reported_at = {};  // by the node's own clock, as the fault's time is
};

struct SlurmNodeView {
  bool down = false, drain = false;
  std::string reason = {};
};

enum class JobState { pending, running, ended };

struct JobView {
  std::uint32_t id = 0;
  std::string name = {}, user = {};
  JobState state = JobState::pending;
  bool completing = false;   // processes of its last run may still be there
  bool requeueable = false;  // a batch job that may be requeued
  std::uint32_t restart_count = 0;
  std::vector<std::string> nodes = {};
  std::optional<TimePoint> begin = {};  // earliest start
  std::string state_text = {}, reason = {};
};

struct PodView {
  std::string ns = {}, name = {}, uid = {};
  bool worker = false;     // a slurmd of ours
  bool evictable = false;  // neither of a DaemonSet, nor a mirror pod, nor finished
  bool terminating = false;
  bool opted_out = false;  // carries the policy's opt-out label
};

struct MachineView {
  std::string name = {}, token = {}, message = {};
  enum class State { creating, running, deleting, failed } state = State::creating;
};

struct Observed {
  Fact<NodeView> node;        // the sick one
  Fact<HealthView> health;    // its NodeHealth
  Fact<SlurmNodeView> slurm;  // absent: Slurm has no such node
  Fact<std::vector<JobView>> jobs;
  Fact<std::vector<PodView>> pods;     // on the sick node
  Fact<std::vector<NodeView>> spares;  // of the pool, ready and healthy, claimed by no other repair
  Fact<NodeView> spare;                // record.spare_node
  Fact<std::vector<MachineView>> machines;
  Fact<NodeView> replacement;  // record.replacement.machine as a Node
  Fact<HealthView> replacement_health;
};

// What step() needs to have read; anything else may stay unknown.
struct Needs {
  bool node = false, health = false, slurm = false, pods = false, spares = false, machines = false, replacement = false;
};
Needs needs(const Record& record);

struct Notify {
  std::string what;
};  // to people, in the background
struct SlurmDrain {
  std::string node, reason;
};
struct SlurmDown {
  std::string node, reason;
};
struct SlurmUndrain {
  std::string node, reason;
};  // only while Slurm's reason is ours
struct TellJobOwner {
  std::uint32_t job;
  std::string text;
};  // AdminComment
struct MakeJobEligible {
  std::uint32_t job;
};
struct RemoveWorkersLabel {
  std::string node, uid;
};  // the fence
struct Cordon {
  std::string node, uid;
};
struct EvictPods {
  std::vector<PodView> pods;
};
struct PromoteSpare {
  std::string node, uid, workers;
};
struct DeleteMachine {
  std::string machine;
};
struct OrderMachine {
  std::string token, machine, pool;
};
struct DeleteNodeObject {
  std::string node, uid;
};
struct DeleteSlurmNode {
  std::string node;
};

using Effect =
    std::variant<Notify, SlurmDrain, SlurmDown, SlurmUndrain, TellJobOwner, MakeJobEligible, RemoveWorkersLabel, Cordon,
                 EvictPods, PromoteSpare, DeleteMachine, OrderMachine, DeleteNodeObject, DeleteSlurmNode>;

struct Decision {
  Record next;
  bool changed = false;  // next differs from what went in: persist it
  std::optional<Effect> effect = {};
  std::string step = {};  // name of the effect's step in next.steps
  std::string reason = {};
  std::optional<Duration> look_again = {};  // nullopt: the repair is over. 0: go on at once
};

struct Limits {
  Duration poll{250};         // while something is about to happen
  Duration slow_poll{1'000};  // while machines come and go
  Duration blocked_poll{15'000};
  Duration slack{30'000};    // beyond the grace, before a step stops waiting for a machine that does not answer
  Duration retry{5'000};     // before an accepted effect that shows nothing is repeated
  Duration cleanup{60'000};  // for what must not hold up the pool
  Duration machine_ready{600'000};
  Duration job_settles{30'000};  // Done waits so long for the job once the pool is whole
  std::uint32_t max_attempts = 3;
};

Decision step(const Record& record, const Observed& observed, const Policy& policy, int gpus_per_node, TimePoint now,
              const Limits& limits = {});

// The outcome of an effect, for the record. message is empty when it worked.
void report_outcome(Record& record, std::string_view step_name, bool ok, std::string_view message, TimePoint now);

}  // namespace homeostat::repair
