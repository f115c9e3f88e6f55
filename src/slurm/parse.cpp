#include "slurm/parse.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>

#include "core/slurm/hostlist.hpp"
#include "io/json.hpp"

namespace homeostat::slurm {
namespace {

namespace json = boost::json;

// Numbers come bare or, since v0.0.40, as {"set", "infinite", "number"}.
std::optional<std::int64_t> number_of(const json::object& object, std::string_view field) {
  const auto* value = io::find(object, {field});
  if (value == nullptr) return std::nullopt;
  if (const auto* wrapped = value->if_object()) {
    if (!io::bool_at(*wrapped, {"set"}) || io::bool_at(*wrapped, {"infinite"})) return std::nullopt;
    return io::int_at(*wrapped, {"number"});
  }
  if (!value->is_number()) return std::nullopt;
  return io::int_at(object, {field});
}

// Slurm writes 0 for "never".
std::optional<TimePoint> time_of(const json::object& object, std::string_view field) {
  const auto seconds = number_of(object, field);
  if (!seconds || *seconds <= 0) return std::nullopt;
  return TimePoint{std::chrono::seconds{*seconds}};
}

std::vector<std::string> strings_of(const json::object& object, std::string_view field) {
  std::vector<std::string> out;
  for (const auto& item : io::array_at(object, {field}))
    if (item.is_string()) out.emplace_back(item.get_string());
  return out;
}

StateSet states_of(const json::object& object, std::string_view field) {
  StateSet states;
  for (auto& state : strings_of(object, field)) states.insert(std::move(state));
  if (const auto single = io::string_at(object, {field}); !single.empty()) states.insert(single);
  return states;
}

// A list that cannot be expanded is kept as one name, so that nothing takes the job for one without nodes.
std::vector<std::string> hosts_of(const json::object& object, std::string_view field) {
  const auto text = io::string_at(object, {field});
  auto hosts = expand_hostlist(text);
  return hosts ? *std::move(hosts) : std::vector<std::string>{text};
}

// "gpu:2(IDX:0-1)", "gpu:h100:4(IDX:0-3)" -> 2, 4
int gpus_of_detail(std::string_view detail) {
  if (!detail.starts_with("gpu")) return 0;
  detail = detail.substr(0, detail.find('('));
  const auto colon = detail.rfind(':');
  int count = 0;
  if (colon != std::string_view::npos) std::from_chars(detail.data() + colon + 1, detail.data() + detail.size(), count);
  return count;
}

// A running job says it by node; else "gres/gpu=4" in the job's request.
int gpus_of(const json::object& job) {
  int count = 0;
  for (const auto& detail : strings_of(job, "gres_detail")) count += gpus_of_detail(detail);
  if (count > 0) return count;
  const auto request = io::string_at(job, {"tres_req_str"});
  constexpr std::string_view key = "gres/gpu=";
  if (const auto at = request.find(key); at != std::string::npos)
    std::from_chars(request.data() + at + key.size(), request.data() + request.size(), count);
  return count;
}

}  // namespace

Node parse_node(const json::object& node) {
  Node out;
  out.name = io::string_at(node, {"name"});
  out.states = states_of(node, "state");
  out.reason = io::string_at(node, {"reason"});
  out.reason_at = time_of(node, "reason_changed_at");
  out.boot_time = time_of(node, "boot_time");
  out.slurmd_start_time = time_of(node, "slurmd_start_time");
  out.gres = io::string_at(node, {"gres"});
  out.gres_used = io::string_at(node, {"gres_used"});
  out.address = io::string_at(node, {"address"});
  out.features = strings_of(node, "features");
  out.partitions = strings_of(node, "partitions");
  out.cpus = static_cast<int>(number_of(node, "cpus").value_or(0));
  out.alloc_cpus = static_cast<int>(number_of(node, "alloc_cpus").value_or(0));
  return out;
}

Job parse_job(const json::object& job) {
  Job out;
  out.id = number_of(job, "job_id").value_or(0);
  out.array_job_id = number_of(job, "array_job_id").value_or(0);
  if (out.array_job_id != 0) out.array_task_id = number_of(job, "array_task_id");
  out.het_job_id = number_of(job, "het_job_id").value_or(0);
  out.name = io::string_at(job, {"name"});
  out.user = io::string_at(job, {"user_name"});
  out.partition = io::string_at(job, {"partition"});
  out.states = states_of(job, "job_state");
  out.state_reason = io::string_at(job, {"state_reason"});
  out.restart_count = static_cast<int>(number_of(job, "restart_cnt").value_or(0));
  out.requeue = io::bool_at(job, {"requeue"});
  out.batch = io::bool_at(job, {"batch_flag"});
  out.nodes = hosts_of(job, "nodes");
  out.required_nodes = hosts_of(job, "required_nodes");
  out.begin_time = time_of(job, "begin_time");
  if (!out.begin_time) out.begin_time = time_of(job, "eligible_time");
  out.start_time = time_of(job, "start_time");
  out.end_time = time_of(job, "end_time");
  out.comment = io::string_at(job, {"comment"});
  out.admin_comment = io::string_at(job, {"admin_comment"});
  out.cpus = static_cast<int>(number_of(job, "cpus").value_or(0));
  out.gpus = gpus_of(job);
  return out;
}

Diag parse_diag(const json::object& answer) {
  const auto& statistics = io::object_at(answer, {"statistics"});
  return {.jobs_running = number_of(statistics, "jobs_running").value_or(0),
          .jobs_pending = number_of(statistics, "jobs_pending").value_or(0),
          .schedule_cycle_last_us = number_of(statistics, "schedule_cycle_last").value_or(0)};
}

long first_error_number(const json::object& answer) {
  const auto& errors = io::array_at(answer, {"errors"});
  if (errors.empty()) return -1;
  const auto* first = errors.front().if_object();
  return first == nullptr ? 0 : static_cast<long>(io::int_at(*first, {"error_number"}));
}

std::optional<Error> find_error(const json::object& answer, int http_status, std::string_view what) {
  const auto number = first_error_number(answer);
  if (number < 0) return std::nullopt;
  const auto* first = io::array_at(answer, {"errors"}).front().if_object();
  const auto text = first == nullptr ? std::string("an error without text") : io::string_at(*first, {"error"});
  const auto description = first == nullptr ? std::string() : io::string_at(*first, {"description"});
  auto kind = http_status == 401   ? ErrorKind::unauthorized
              : http_status >= 500 ? ErrorKind::unavailable
                                   : ErrorKind::invalid;
  if (number == errors::invalid_node_name || number == errors::invalid_job_id) kind = ErrorKind::not_found;
  if (number == errors::nodes_busy || number == errors::invalid_node_state || number == errors::job_not_pending ||
      number == errors::job_already_finished || number == errors::transition_state)
    kind = ErrorKind::conflict;
  return Error{kind,
               "Slurm refused to " + std::string(what) + ": " + text +
                   (description.empty() ? "" : " (" + description + ")") + ", error " + std::to_string(number) + ".",
               std::nullopt};
}

}  // namespace homeostat::slurm
