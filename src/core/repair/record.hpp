// The record of one repair: what the Repair resource holds, as plain values. It is the only memory of a repair; the
// functions here keep its bookkeeping (phases, steps) consistent. No clock, no I/O: `now` is passed in. Values only:
// safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.hpp"

namespace homeostat::repair {

enum class Phase {
  observed,
  notified,
  stopping,
  requeued,
  draining,
  replacing,
  verifying,
  done,
  blocked,
  cancelled,
  failed
};

inline constexpr Phase all_phases[] = {Phase::observed, Phase::notified,  Phase::stopping,  Phase::requeued,
                                       Phase::draining, Phase::replacing, Phase::verifying, Phase::done,
                                       Phase::blocked,  Phase::cancelled, Phase::failed};

std::string_view to_string(Phase phase);  // "Observed", as the resource spells it
std::optional<Phase> parse_phase(std::string_view text);
bool is_terminal(Phase phase);  // Done, Cancelled, Failed
// The transition table of a repair; a phase may always stay what it is.
bool may_follow(Phase from, Phase to);

struct Fault {
  std::string component = {}, code = {}, device = {}, severity = {}, action = {}, evidence = {};
  std::optional<TimePoint> observed_at = {};
  bool drill = false;
  // Who saw it, so that it can be read again before anything is done: "" the agent in NodeHealth, a Node condition, or
  // silence_source.
  std::string source = {};
  bool operator==(const Fault&) const = default;
};

inline constexpr std::string_view silence_source = "silence";
std::string condition_source(std::string_view type, std::string_view status);  // "condition:KernelDeadlock=True"
struct SourceCondition {
  std::string type = {}, status = {};
};
std::optional<SourceCondition> source_condition(const Fault& fault);  // nullopt: it has another source

struct PhaseEntry {
  Phase phase = Phase::observed;
  TimePoint entered_at{};
  bool operator==(const PhaseEntry&) const = default;
};

// One effect on the world: written before it happens (intent), closed when it is seen to have happened.
struct Step {
  std::string name = {};          // "slurm_down", "make_job_eligible/12"
  std::string operation_id = {};  // what the effect carries, so that a restart can find it again
  TimePoint intent_at{};
  std::optional<TimePoint> finished_at = {};
  std::string outcome = {};  // "", ok, failed (it is tried again)
  std::string message = {};
  bool operator==(const Step&) const = default;
};

struct JobRecord {
  std::uint32_t id = 0;
  std::string name = {}, user = {};
  bool requeueable = false;
  std::uint32_t restart_count = 0;  // before the repair
  std::vector<std::string> nodes = {};
  std::string outcome = {};
  bool operator==(const JobRecord&) const = default;
};

struct Replacement {
  std::string token = {};
  std::uint32_t attempt = 0;  // 0: nothing was ordered yet
  std::string machine = {}, node = {};
  bool operator==(const Replacement&) const = default;
};

inline constexpr size_t max_companions = 8;

struct Record {
  // What was decided once and never changes (spec).
  std::string name = {}, node = {}, node_uid = {}, pool = {}, workers = {}, boot_id = {};
  Fault fault;
  std::vector<std::string> companions = {};  // what else the same incident showed, for people; at most max_companions
  // What happened since (status).
  Phase phase = Phase::observed;
  std::string message = {};
  std::optional<TimePoint> next_look = {};
  std::vector<PhaseEntry> phases = {};
  std::vector<Step> steps = {};
  std::vector<JobRecord> jobs = {};
  std::optional<TimePoint> slurm_down_at = {}, processes_gone_at = {}, running_again_at = {}, pool_whole_at = {};
  std::string spare_node = {};  // claimed for this repair; promoted once its step is finished
  Replacement replacement;
  std::optional<std::int64_t> gpu_seconds_lost = {};
  bool operator==(const Record&) const = default;
};

// "rep-" and 16 hex digits: the same incident has the same name, whoever computes it.
std::string repair_name(std::string_view node_uid, std::string_view boot_id);

// `<pool>-<5 letters or digits>`, the same for the same token.
std::string machine_name(std::string_view pool, std::string_view token);

// "xid 79", "nvlink 74", "gpu-lost DEVICE_COUNT": how people say it.
std::string spoken(const Fault& fault);

// "homeostat: <repair>: xid 79 on 0000:17:00": what Slurm, people and adoption after a restart read.
std::string slurm_reason(const Record& record);

// Enters a phase and notes when. Precondition: may_follow(record.phase, phase).
void enter(Record& record, Phase phase, TimePoint now);

// When the current phase was entered.
TimePoint entered_at(const Record& record);

// The phase that a blocked repair goes on with: the last one before Blocked.
Phase phase_before_blocked(const Record& record);

const Step* find_step(const Record& record, std::string_view name);

// Notes the intent of a step. A step that is there already keeps its operation id and time.
void intend(Record& record, std::string_view name, std::string_view operation_id, TimePoint now);

// Closes a step, or notes why it failed. A step that is closed stays as it was.
void finish(Record& record, std::string_view name, TimePoint now, std::string_view message = {});
void note_failure(Record& record, std::string_view name, std::string_view message);

bool finished(const Record& record, std::string_view name);

}  // namespace homeostat::repair
