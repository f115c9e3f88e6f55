#include "cli/commands.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <cstring>

#include "api/repair.hpp"
#include "cli/remote_shell.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::cli {
namespace {

namespace json = boost::json;

int become(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (const auto& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  fmt::print(stderr, "homeostat: cannot run {}: {}\n", argv[0], std::strerror(errno));
  return exit_missing;
}

struct Seen {
  std::vector<kube::Object> pools, nodes, healths, repairs;
  kube::Object cluster;
};

// The API server lists by name; people read by time.
void sort_by_age(std::vector<kube::Object>& objects) {
  std::stable_sort(objects.begin(), objects.end(), [](const auto& a, const auto& b) {
    return io::string_at(a, {"metadata", "creationTimestamp"}) < io::string_at(b, {"metadata", "creationTimestamp"});
  });
}

Result<Seen> look(Context& context) {
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  Seen seen;
  for (const auto& [resource, into] :
       {std::pair{&kube::resources::node_pools, &seen.pools}, std::pair{&kube::resources::nodes, &seen.nodes},
        std::pair{&kube::resources::node_healths, &seen.healths},
        std::pair{&kube::resources::repairs, &seen.repairs}}) {
    auto list = (*client)->list(*resource, "", {});
    if (!list) return std::unexpected(list.error());
    *into = std::move(list->items);
  }
  sort_by_age(seen.repairs);
  auto cluster = (*client)->get(kube::resources::slurm_clusters, context.names().ns, context.names().cluster);
  if (cluster)
    seen.cluster = std::move(*cluster);
  else if (cluster.error().kind != ErrorKind::not_found)
    return std::unexpected(cluster.error());
  return seen;
}

std::string verdict_of(const Seen& seen, const std::string& node) {
  for (const auto& health : seen.healths)
    if (kube::name_of(health) == node) return io::string_at(health, {"status", "verdict"}, "Unknown");
  return "no agent yet";
}

std::string role_of(const kube::Object& node) {
  if (io::bool_at(node, {"spec", "unschedulable"})) return "cordoned";
  for (const auto& taint : io::array_at(node, {"spec", "taints"}))
    if (io::string_at(taint, {"key"}) == "homeostat.dev/spare") return "spare";
  return kube::label_of(node, "homeostat.dev/workers").empty() ? "joining" : "works";
}

void print_repairs(const std::vector<kube::Object>& repairs) {
  fmt::print("{:<22} {:<14} {:<11} {:<10} {}\n", "REPAIR", "NODE", "FAULT", "PHASE", "MESSAGE");
  for (const auto& repair : repairs)
    fmt::print(
        "{:<22} {:<14} {:<11} {:<10} {}\n", kube::name_of(repair), io::string_at(repair, {"spec", "nodeName"}),
        io::string_at(repair, {"spec", "fault", "component"}) + " " + io::string_at(repair, {"spec", "fault", "code"}),
        io::string_at(repair, {"status", "phase"}), io::string_at(repair, {"status", "message"}));
}

void print_status(Context& context, const Seen& seen) {
  const auto login = io::string_at(seen.cluster, {"status", "loginAddress"});
  fmt::print("Login node   {}\n", login.empty() ? "has no address yet" : login + "   (homeostat ssh)");
  for (const auto& pool : seen.pools)
    fmt::print("Pool {:<7} {} of {} nodes healthy, {} of {} spares, {} in repair\n", kube::name_of(pool),
               io::int_at(pool, {"status", "healthy"}), io::int_at(pool, {"spec", "size"}),
               io::int_at(pool, {"status", "spare"}), io::int_at(pool, {"spec", "spares"}),
               io::int_at(pool, {"status", "inRepair"}));
  fmt::print("\n{:<16} {:<10} {}\n", "NODE", "ROLE", "ACCELERATORS");
  for (const auto& node : seen.nodes)
    if (kube::has_label(node, "homeostat.dev/pool"))
      fmt::print("{:<16} {:<10} {}\n", kube::name_of(node), role_of(node), verdict_of(seen, kube::name_of(node)));
  if (!login.empty()) {
    auto access = find_login(context);
    auto nodes = access ? remote(*access, "sinfo -N -o '%16N %10T %E'", Duration(10'000), context.stop())
                        : Result<std::string>(std::unexpected(access.error()));
    fmt::print("\nSlurm\n{}", nodes ? *nodes : "  " + nodes.error().message + "\n");
  }
  if (!seen.repairs.empty()) fmt::print("\n"), print_repairs(seen.repairs);
}

json::array names_and_status(const std::vector<kube::Object>& objects) {
  json::array out;
  for (const auto& object : objects) {
    json::object item{{"name", kube::name_of(object)}};
    if (const auto* spec = io::find(object, {"spec"})) item["spec"] = *spec;
    if (const auto* status = io::find(object, {"status"})) item["status"] = *status;
    out.push_back(std::move(item));
  }
  return out;
}

std::string ago(const std::optional<TimePoint>& at, TimePoint from) {
  return at ? fmt::format("{:+.1f}s", static_cast<double>((*at - from).count()) / 1000.0) : "not finished";
}

}  // namespace

int show_status(Context& context, bool as_json) {
  auto seen = look(context);
  if (!seen) return complain(seen.error());
  if (!as_json) return print_status(context, *seen), exit_good;
  json::array nodes;
  for (const auto& node : seen->nodes)
    if (kube::has_label(node, "homeostat.dev/pool"))
      nodes.push_back(json::object{
          {"name", kube::name_of(node)}, {"role", role_of(node)}, {"verdict", verdict_of(*seen, kube::name_of(node))}});
  const json::object all{{"loginAddress", io::string_at(seen->cluster, {"status", "loginAddress"})},
                         {"pools", names_and_status(seen->pools)},
                         {"nodes", nodes},
                         {"repairs", names_and_status(seen->repairs)}};
  fmt::print("{}\n", io::to_text(all));
  return exit_good;
}

int list_repairs(Context& context, bool as_json) {
  auto client = context.client();
  if (!client) return complain(client.error());
  auto list = (*client)->list(kube::resources::repairs, "", {});
  if (!list) return complain(list.error());
  sort_by_age(list->items);
  if (as_json)
    return fmt::print("{}\n", io::to_text(json::object{{"repairs", names_and_status(list->items)}})), exit_good;
  if (list->items.empty()) return fmt::print("There has been no repair yet. Try: homeostat demo\n"), exit_good;
  return print_repairs(list->items), exit_good;
}

int show_repair(Context& context, const std::string& name, bool as_json) {
  auto client = context.client();
  if (!client) return complain(client.error());
  auto repair = (*client)->get(kube::resources::repairs, "", name);
  if (!repair) return complain(repair.error());
  fmt::print("{}", as_json ? io::to_text(*repair) + "\n" : describe_repair(*repair));
  return exit_good;
}

std::string describe_repair(const json::object& repair) {
  const auto record = api::decode_repair(repair);
  std::string out = fmt::format("Repair {} of node {} (pool {})\n  fault    {} {} on {} ({}{})\n", record.name,
                                record.node, record.pool, record.fault.component, record.fault.code,
                                record.fault.device, record.fault.severity, record.fault.drill ? ", a drill" : "");
  if (!record.fault.evidence.empty()) out += fmt::format("  evidence {}\n", record.fault.evidence);
  out += fmt::format("  phase    {}{}\n", repair::to_string(record.phase),
                     record.message.empty() ? "" : ": " + record.message);
  const TimePoint start = record.fault.observed_at ? *record.fault.observed_at
                          : record.phases.empty()  ? TimePoint{}
                                                   : record.phases.front().entered_at;
  out += fmt::format("\nPhases, since the fault was seen at {}\n", format_rfc3339(start));
  for (const auto& entry : record.phases)
    out += fmt::format("  {:>9}  {}\n", ago(entry.entered_at, start), repair::to_string(entry.phase));
  out += "\nSteps: when each was decided and when it was seen to have happened\n";
  for (const auto& step : record.steps)
    out += fmt::format("  {:>9} {:>12}  {}{}\n", ago(step.intent_at, start), ago(step.finished_at, start), step.name,
                       step.message.empty() ? "" : ": " + step.message);
  if (!record.jobs.empty()) out += "\nJobs that were hit\n";
  for (const auto& job : record.jobs)
    out +=
        fmt::format("  {} {} of {}{}{}\n", job.id, job.name, job.user,
                    job.requeueable ? "" : " (Slurm never requeues it)", job.outcome.empty() ? "" : ": " + job.outcome);
  return out;
}

int open_ssh(Context& context, const std::vector<std::string>& command) {
  auto login = find_login(context);
  if (!login) return complain(login.error());
  auto argv = ssh_arguments(*login, true);
  argv.insert(argv.end(), command.begin(), command.end());
  return become(argv);
}

int run_kubectl(Context& context, const std::vector<std::string>& arguments) {
  if (::access(context.places().kubeconfig().c_str(), R_OK) != 0)
    return complain(Error{ErrorKind::not_found,
                          fmt::format("there is no lab in {}; bring one up with: homeostat up", context.places().state),
                          {}});
  std::vector<std::string> argv = {context.places().kubectl(), "--kubeconfig", context.places().kubeconfig(),
                                   "--cache-dir", context.places().state + "/kubectl-cache"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return become(argv);
}

}  // namespace homeostat::cli
