#include "api/repair.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "api/fields.hpp"
#include "io/json.hpp"

namespace homeostat::api {

namespace {

using boost::json::array;
using boost::json::object;

std::uint32_t small(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, 4'294'967'295));
}

repair::Step decode_step(const object& from) {
  repair::Step step;
  step.name = io::string_at(from, {"name"});
  step.operation_id = io::string_at(from, {"operationId"});
  step.intent_at = time_at(from, {"intentAt"}).value_or(TimePoint{});
  step.finished_at = time_at(from, {"finishedAt"});
  step.outcome = io::string_at(from, {"outcome"});
  step.message = io::string_at(from, {"message"});
  return step;
}

object encode_step(const repair::Step& step) {
  object into{{"name", step.name}, {"operationId", step.operation_id}, {"intentAt", format_rfc3339(step.intent_at)}};
  put_time(into, "finishedAt", step.finished_at);
  put_text(into, "outcome", step.outcome);
  put_text(into, "message", step.message);
  return into;
}

repair::JobRecord decode_job(const object& from) {
  repair::JobRecord job;
  job.id = small(io::int_at(from, {"id"}));
  job.name = io::string_at(from, {"name"});
  job.user = io::string_at(from, {"user"});
  job.requeueable = io::bool_at(from, {"requeueable"});
  job.restart_count = small(io::int_at(from, {"restartCount"}));
  for (const auto& node : io::array_at(from, {"nodes"}))
    if (node.is_string()) job.nodes.emplace_back(node.get_string());
  job.outcome = io::string_at(from, {"outcome"});
  return job;
}

object encode_job(const repair::JobRecord& job) {
  array nodes;
  for (const auto& node : job.nodes) nodes.emplace_back(node);
  object into{{"id", job.id},
              {"name", job.name},
              {"user", job.user},
              {"requeueable", job.requeueable},
              {"restartCount", job.restart_count},
              {"nodes", std::move(nodes)}};
  put_text(into, "outcome", job.outcome);
  return into;
}

void decode_lists(const object& from, repair::Record& record) {
  for (const auto& entry : io::array_at(from, {"status", "phases"})) {
    auto phase = repair::parse_phase(io::string_at(entry, {"phase"}));
    auto entered = parse_rfc3339(io::string_at(entry, {"enteredAt"}));
    if (phase && entered) record.phases.push_back({*phase, *entered});
  }
  for (const auto& entry : io::array_at(from, {"status", "steps"}))
    if (entry.is_object()) record.steps.push_back(decode_step(entry.get_object()));
  for (const auto& entry : io::array_at(from, {"status", "jobs"}))
    if (entry.is_object()) record.jobs.push_back(decode_job(entry.get_object()));
}

repair::Fault decode_fault(const object& from) {
  repair::Fault fault;
  fault.component = io::string_at(from, {"component"});
  fault.code = io::string_at(from, {"code"});
  fault.device = io::string_at(from, {"device"});
  fault.severity = io::string_at(from, {"severity"});
  fault.action = io::string_at(from, {"action"});
  fault.evidence = io::string_at(from, {"evidence"});
  fault.observed_at = time_at(from, {"observedAt"});
  fault.drill = io::bool_at(from, {"drill"});
  fault.source = io::string_at(from, {"source"});
  return fault;
}

}  // namespace

repair::Record decode_repair(const object& from) {
  repair::Record record;
  record.name = io::string_at(from, {"metadata", "name"});
  record.node = io::string_at(from, {"spec", "nodeName"});
  record.node_uid = io::string_at(from, {"spec", "nodeUID"});
  record.pool = io::string_at(from, {"spec", "pool"});
  record.workers = io::string_at(from, {"spec", "workers"});
  record.boot_id = io::string_at(from, {"spec", "bootId"});
  record.fault = decode_fault(io::object_at(from, {"spec", "fault"}));
  for (const auto& companion : io::array_at(from, {"spec", "companions"}))
    if (companion.is_string()) record.companions.emplace_back(companion.get_string());
  record.phase = repair::parse_phase(io::string_at(from, {"status", "phase"})).value_or(repair::Phase::observed);
  record.message = io::string_at(from, {"status", "message"});
  record.next_look = time_at(from, {"status", "nextLook"});
  decode_lists(from, record);
  record.slurm_down_at = time_at(from, {"status", "slurmDownAt"});
  record.processes_gone_at = time_at(from, {"status", "processesGoneAt"});
  record.running_again_at = time_at(from, {"status", "runningAgainAt"});
  record.pool_whole_at = time_at(from, {"status", "poolWholeAt"});
  record.spare_node = io::string_at(from, {"status", "spareNode"});
  record.replacement = {io::string_at(from, {"status", "replacement", "token"}),
                        small(io::int_at(from, {"status", "replacement", "attempt"})),
                        io::string_at(from, {"status", "replacement", "machine"}),
                        io::string_at(from, {"status", "replacement", "node"})};
  if (const auto* lost = io::find(from, {"status", "gpuSecondsLost"}); lost != nullptr && lost->is_number())
    record.gpu_seconds_lost = io::int_at(from, {"status", "gpuSecondsLost"});
  return record;
}

object encode_repair_spec(const repair::Record& record) {
  const auto& fault = record.fault;
  object about{{"component", fault.component}, {"code", fault.code}, {"severity", fault.severity}};
  put_text(about, "device", fault.device);
  put_text(about, "action", fault.action);
  put_text(about, "evidence", fault.evidence);
  put_time(about, "observedAt", fault.observed_at);
  if (fault.drill) about["drill"] = true;
  put_text(about, "source", fault.source);
  object spec{
      {"nodeName", record.node}, {"nodeUID", record.node_uid}, {"pool", record.pool}, {"bootId", record.boot_id}};
  put_text(spec, "workers", record.workers);
  spec["fault"] = std::move(about);
  array companions;
  for (const auto& companion : record.companions) companions.emplace_back(companion);
  if (!companions.empty()) spec["companions"] = std::move(companions);
  return spec;
}

object encode_repair_status(const repair::Record& record) {
  object status{{"phase", repair::to_string(record.phase)}};
  put_text(status, "message", record.message);
  put_time(status, "nextLook", record.next_look);
  array phases, steps, jobs;
  for (const auto& entry : record.phases)
    phases.push_back(
        object{{"phase", repair::to_string(entry.phase)}, {"enteredAt", format_rfc3339(entry.entered_at)}});
  for (const auto& step : record.steps) steps.push_back(encode_step(step));
  for (const auto& job : record.jobs) jobs.push_back(encode_job(job));
  status["phases"] = std::move(phases);
  status["steps"] = std::move(steps);
  status["jobs"] = std::move(jobs);
  put_time(status, "slurmDownAt", record.slurm_down_at);
  put_time(status, "processesGoneAt", record.processes_gone_at);
  put_time(status, "runningAgainAt", record.running_again_at);
  put_time(status, "poolWholeAt", record.pool_whole_at);
  put_text(status, "spareNode", record.spare_node);
  if (record.replacement.attempt > 0) {
    object replacement{{"token", record.replacement.token}, {"attempt", record.replacement.attempt}};
    put_text(replacement, "machine", record.replacement.machine);
    put_text(replacement, "node", record.replacement.node);
    status["replacement"] = std::move(replacement);
  }
  if (record.gpu_seconds_lost) status["gpuSecondsLost"] = *record.gpu_seconds_lost;
  return status;
}

}  // namespace homeostat::api
