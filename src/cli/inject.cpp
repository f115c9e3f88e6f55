#include "cli/inject.hpp"

#include <fmt/core.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdio>

#include "cli/bring_up.hpp"
#include "cli/drill_driver.hpp"
#include "cli/heal_driver.hpp"
#include "cli/remote_shell.hpp"
#include "core/fault/drill.hpp"
#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::cli {
namespace {

namespace json = boost::json;

// Device settings are the Drill's own field; the other words are its fault.
DrillOrder order_of(const InjectOptions& options) {
  DrillOrder order;
  order.node = options.node;
  order.production = options.production;
  for (const auto& word : options.words) {
    if (word.starts_with("device="))
      order.device = word.substr(7);
    else
      order.fault.append(order.fault.empty() ? "" : " ").append(word);
  }
  if (order.fault.empty()) order.fault = "xid=79";
  return order;
}

// Whether the lab made the node: then its fake hardware fails; a real node's agent writes into its own kernel log.
Result<bool> is_of_lab(kube::Client& client, const std::string& node_name) {
  auto node = client.get(kube::resources::nodes, "", node_name);
  if (!node && node.error().kind == ErrorKind::not_found)
    return fail(ErrorKind::not_found, "there is no node " + node_name + "; see: homeostat status");
  if (!node) return std::unexpected(node.error());
  const auto pool_name = kube::label_of(*node, names::pool_label);
  if (pool_name.empty()) return false;
  auto pool = client.get(kube::resources::node_pools, "", pool_name);
  if (!pool && pool.error().kind == ErrorKind::not_found) return false;
  if (!pool) return std::unexpected(pool.error());
  return io::string_at(*pool, {"spec", "provider", "type"}) == "local";
}

Result<void> strike(const Context& context, const DrillOrder& order) {
  std::vector<std::string> words = {"inject", order.node};
  std::string_view rest = order.fault;
  while (!rest.empty()) {
    const auto space = rest.find(' ');
    words.emplace_back(rest.substr(0, space));
    rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  }
  if (!order.device.empty()) words.push_back("device=" + order.device);
  if (run_lab(context.places(), words, true) == exit_good) return {};
  return fail(ErrorKind::internal,
              fmt::format("homeostat-lab could not do '{}' to {}; the drill is taken back. Try: {} "
                          "inject {} {}",
                          order.fault, order.node, context.places().lab_program(), order.node, order.fault));
}

json::object to_json(const DrillOutcome& outcome, bool good, std::string_view message) {
  const auto& drill = outcome.drill;
  json::object out{{"drill", drill.name},
                   {"node", drill.node},
                   {"fault", drill.fault},
                   {"device", drill.status.device},
                   {"phase", api::to_string(drill.status.phase)},
                   {"good", good},
                   {"message", message},
                   {"verdict", outcome.verdict},
                   {"armedMs", outcome.times.armed.count()},
                   {"readyMs", outcome.times.ready.count()}};
  if (outcome.struck_at) out["injectedAt"] = format_rfc3339(*outcome.struck_at);
  if (outcome.times.seen) out["seenMs"] = outcome.times.seen->count();
  if (!drill.status.repair.empty()) out["repair"] = drill.status.repair;
  if (outcome.finding)
    out["finding"] = json::object{{"id", outcome.finding->id},
                                  {"severity", outcome.finding->severity},
                                  {"class", outcome.finding->repair_class},
                                  {"drill", outcome.finding->drill}};
  return out;
}

int exit_code_of(const Error& error) {
  if (error.kind == ErrorKind::forbidden) return exit_refused;
  if (error.kind == ErrorKind::invalid) return exit_usage;
  return error.kind == ErrorKind::not_found ? exit_missing : exit_failed;
}

// The whole story, up to what the options ask for.
Result<void> run_drill(Context& context, DrillDriver& driver, const DrillOrder& order, bool of_lab, bool wait) {
  if (auto ordered = driver.order(order); !ordered) return ordered;
  if (of_lab) {
    auto struck = driver.strike([&] { return strike(context, order); });
    if (!struck) return std::unexpected(struck.error());
  } else {
    driver.struck_by_agent();
  }
  if (!wait) return {};
  if (auto seen = driver.wait_seen(); !seen) return seen;
  return driver.wait_decision();
}

Result<std::string> node_of_job(Context& context, long job) {
  auto login = find_login(context);
  if (!login) return std::unexpected(login.error());
  auto nodes = nodes_of_job(context, *login, static_cast<std::uint32_t>(job));
  if (!nodes) return std::unexpected(nodes.error());
  return nodes->back();
}

}  // namespace

int inject_fault(Context& context, const InjectOptions& options) {
  auto order = order_of(options);
  const auto fail_with = [](const Error& error) {
    fmt::print(stderr, "homeostat: {}\n", error.message);
    return exit_code_of(error);
  };
  if (auto parsed = fault::parse_drill(order.fault); !parsed)
    return fail_with(parsed.error());
  else
    order.fault = fault::to_text(*parsed);
  if (!fault::is_drill_device(order.device))
    return fail_with({ErrorKind::invalid, "device is a GPU's index such as device=0, or its PCI address", {}});
  auto client = context.client();
  if (!client) return fail_with(client.error());
  if (order.node.empty()) {
    auto node = node_of_job(context, options.job);
    if (!node) return fail_with(node.error());
    order.node = *node;
  }
  auto of_lab = is_of_lab(**client, order.node);
  if (!of_lab) return fail_with(of_lab.error());
  if (*of_lab && !context.places().cluster.empty())
    return fail_with({ErrorKind::invalid,
                      "node " + order.node +
                          " is a machine of a lab: leave --kubeconfig out and set HOMEOSTAT_STATE to that lab's folder",
                      {}});
  const Teller teller(options.as_json);
  io::SystemRandom random;
  DrillDriver driver(**client, context.clock(), random, context.stop(),
                     [&](const std::string& line) { teller.say(line); });
  const auto done = run_drill(context, driver, order, *of_lab, options.wait);
  const auto message = done ? driver.outcome().drill.status.message : done.error().message;
  if (options.as_json)
    fmt::print("{}\n", io::to_text(to_json(driver.outcome(), done.has_value(), message)));
  else if (done && !driver.outcome().drill.status.repair.empty())
    fmt::print("Follow it with: homeostat repair {}\n", driver.outcome().drill.status.repair);
  if (done) return exit_good;
  return options.as_json ? exit_code_of(done.error()) : fail_with(done.error());
}

int list_faults(bool as_json) {
  if (as_json) {
    json::array rows;
    for (const auto& row : fault::drill_catalog())
      rows.push_back(json::object{
          {"fault", row.usage}, {"touches", row.touches}, {"expect", row.expect}, {"labOnly", row.lab_only}});
    return fmt::print("{}\n", io::to_text(json::object{{"faults", std::move(rows)}})), exit_good;
  }
  for (const auto& row : fault::drill_catalog())
    fmt::print("{}{}\n    touches  {}\n    see      {}\n", row.usage, row.lab_only ? "   (only in the lab)" : "",
               row.touches, row.expect);
  fmt::print(
      "\nSettings: device=0 or device=0000:17:00 (which GPU), count=N (so often), driver=580 (that generation's "
      "words)\n");
  return exit_good;
}

int clear_drills(Context& context, const std::string& node) {
  auto client = context.client();
  if (!client) return complain(client.error());
  auto list = (*client)->list(kube::resources::drills, "", {});
  if (!list) return complain(list.error());
  int removed = 0;
  for (const auto& object : list->items) {
    const auto drill = api::decode_drill(object);
    if (node.empty() ? api::is_active(drill.status.phase) : drill.node != node) continue;
    if (auto gone = (*client)->remove(kube::resources::drills, "", drill.name, {.uid = drill.uid}); !gone)
      return complain(gone.error());
    ++removed;
  }
  fmt::print("{} drill{} removed.{}\n", removed, removed == 1 ? "" : "s",
             node.empty() ? "" : " To make its hardware sound again: homeostat inject " + node + " clear");
  return exit_good;
}

Result<TimePoint> strike_in_lab(Context& context, const std::string& node, const std::string& fault,
                                const std::string& device) {
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  io::SystemRandom random;
  DrillDriver driver(**client, context.clock(), random, context.stop(), [](const std::string&) {});
  const DrillOrder order{node, fault, device, false};
  if (auto ordered = driver.order(order); !ordered) return std::unexpected(ordered.error());
  return driver.strike([&] { return strike(context, order); });
}

}  // namespace homeostat::cli
