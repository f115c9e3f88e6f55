#include "cli/arguments.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <stop_token>

#include "cli/bring_up.hpp"
#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/demo.hpp"
#include "cli/inject.hpp"
#include "core/fault/drill.hpp"
#include "io/signals.hpp"

namespace homeostat::cli {
namespace {

constexpr const char* examples = R"(
Examples:
  homeostat demo                        a GPU fails and training goes on, before your eyes
  homeostat up                          bring up the lab, Homeostat and a Slurm cluster; harmless when they are up
  homeostat status                      pool, nodes, Slurm, repairs
  homeostat ssh                         a shell on the login node
  homeostat ssh sinfo                   one command there
  homeostat inject gpu-x7k2p xid=79     GPU 0 of that node falls off the bus
  homeostat inject --of-job 12 xid=79   the same on a node of job 12
  homeostat inject --list               what else can fail
  homeostat repairs                     all repairs; homeostat repair NAME tells one
  homeostat kubectl get pods -A         kubectl with the lab's credentials
  homeostat down                        take everything down without a trace

Exit codes: 0 good, 1 it failed, 2 wrong usage, 3 something needed is missing, 4 refused for safety.)";

struct Arguments {
  std::string node, repair, output, kubeconfig;
  long job = 0;
  std::vector<std::string> settings, rest;
  DemoOptions demo;
  UpOptions up;
  bool no_wait = false, wait = true, production = false, list_faults = false, clear_drills = false;
};

using Action = std::function<int()>;

// For what waits and may be interrupted. Programs that this one becomes must get their signals unblocked, so they run
// without.
int interruptible(const std::function<int(Context&)>& action, const std::string& kubeconfig = {}) {
  io::StopSignals signals;
  auto places = find_places();
  places.cluster = kubeconfig;
  Context context(std::move(places), signals.token());
  return action(context);
}

int plainly(const std::function<int(Context&)>& action) {
  Context context(find_places(), {});
  return action(context);
}

void add_life(CLI::App& app, Arguments& a, Action& chosen) {
  auto* demo_command =
      app.add_subcommand("demo", "The first heal: train on two nodes, break a GPU, watch training go on");
  demo_command->add_option("--heals", a.demo.heals, "How many heals one after the other")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  demo_command->add_option("-o,--output", a.output, "json")->check(CLI::IsMember({"json"}));
  demo_command->callback([&] {
    chosen = [&a] {
      a.demo.as_json = a.output == "json";
      return interruptible([&](Context& c) { return demo(c, a.demo); });
    };
  });
  auto* up_command = app.add_subcommand("up", "Bring up the lab, Homeostat and the cluster of examples/cluster.yaml");
  up_command->add_flag("--no-wait", a.no_wait, "Do not wait until the pool and Slurm are ready");
  up_command->callback([&] {
    chosen = [&a] {
      a.up.wait = !a.no_wait;
      return interruptible([&](Context& c) { return up(c, a.up, Teller()); });
    };
  });
  app.add_subcommand("down", "Take the lab down: nothing of it is left")->callback([&] {
    chosen = [] { return down(find_places()); };
  });
}

void add_questions(CLI::App& app, Arguments& a, Action& chosen) {
  auto* status_command =
      app.add_subcommand("status", "Pool, nodes with their verdict, Slurm, repairs, the login address");
  status_command->add_option("-o,--output", a.output, "json")->check(CLI::IsMember({"json"}));
  status_command->callback(
      [&] { chosen = [&a] { return plainly([&](Context& c) { return show_status(c, a.output == "json"); }); }; });
  auto* repairs_command = app.add_subcommand("repairs", "All repairs");
  repairs_command->add_option("-o,--output", a.output, "json")->check(CLI::IsMember({"json"}));
  repairs_command->callback(
      [&] { chosen = [&a] { return plainly([&](Context& c) { return list_repairs(c, a.output == "json"); }); }; });
  auto* repair_command = app.add_subcommand("repair", "The whole story of one repair");
  repair_command->add_option("name", a.repair, "rep-…, as `homeostat repairs` lists it")->required();
  repair_command->add_option("-o,--output", a.output, "json")->check(CLI::IsMember({"json"}));
  repair_command->callback([&] {
    chosen = [&a] { return plainly([&](Context& c) { return show_repair(c, a.repair, a.output == "json"); }); };
  });
  app.add_subcommand("kubeconfig", "Print the path of the lab's kubeconfig")->callback([&] {
    chosen = [] { return fmt::print("{}\n", find_places().kubeconfig()), exit_good; };
  });
  app.add_subcommand("version", "Print the version")->callback([&] {
    chosen = [] { return fmt::print("homeostat {}\n", HOMEOSTAT_VERSION), exit_good; };
  });
}

constexpr const char* inject_help = R"(
The fault takes the way of a real one (kernel log, sensors, NodeHealth, Repair) and is marked as a drill in every record.
It is healed like a real one: jobs on the node are stopped and requeued. docs/operators/drills.md tells more.

Examples:
  homeostat inject --list                         what can fail, and what you should see
  homeostat inject gpu-x7k2p xid=79               GPU 0 of that node falls off the bus
  homeostat inject gpu-x7k2p xid=48 device=1      a double bit error on GPU 1
  homeostat inject --of-job 12 ecc=uncorrectable  on a node of Slurm job 12
  homeostat inject gpu-x7k2p link=flap count=5    an InfiniBand port comes and goes
  homeostat inject gpu-x7k2p clear                the hardware is sound again
  homeostat inject gpu-x7k2p xid=79 --production  also where the NodePool counts as production
  homeostat inject --clear gpu-x7k2p              end and forget that node's drills

Exit codes: 0 seen as expected, 1 not seen, 2 wrong usage, 3 no such node or no lab, 4 refused: the sentence says what to write.)";

// What cannot be meant; "" when it can.
std::string inject_mistake(const Arguments& a, bool named) {
  if (a.list_faults && (a.clear_drills || a.job > 0 || !a.settings.empty())) return "--list stands alone";
  if (a.clear_drills && (a.job > 0 || a.settings.size() > 1 || (!a.settings.empty() && !named)))
    return "--clear takes a node or nothing: homeostat inject --clear NODE";
  if (a.job > 0 && !a.kubeconfig.empty()) return "--of-job asks the lab's Slurm: name the node of another cluster";
  if (a.list_faults || a.clear_drills || named != (a.job > 0)) return "";
  return "say which node, or which job's node: homeostat inject NODE xid=79, or homeostat inject --of-job ID xid=79";
}

// A node's name is a word without '=' that is no fault by itself.
bool is_node(const std::string& word) { return word.find('=') == std::string::npos && !fault::parse_drill(word); }

int inject(Arguments& a) {
  const bool named = !a.settings.empty() && is_node(a.settings.front());
  if (const auto mistake = inject_mistake(a, named); !mistake.empty()) {
    fmt::print(stderr, "homeostat: {}\n", mistake);
    return exit_usage;
  }
  const bool as_json = a.output == "json";
  if (a.list_faults) return list_faults(as_json);
  InjectOptions options;
  options.node = named ? a.settings.front() : "";
  if (a.clear_drills) return interruptible([&](Context& c) { return clear_drills(c, options.node); }, a.kubeconfig);
  options.job = a.job;
  options.words.assign(a.settings.begin() + (named ? 1 : 0), a.settings.end());
  options.production = a.production, options.wait = !a.no_wait, options.as_json = as_json;
  return interruptible([&](Context& c) { return inject_fault(c, options); }, a.kubeconfig);
}

void add_inject(CLI::App& app, Arguments& a, Action& chosen) {
  auto* command = app.add_subcommand("inject", "A fault on purpose: see it found and healed");
  command->footer(inject_help);
  command->add_option("--of-job", a.job, "A node of this Slurm job instead of NODE");
  command->add_option("words", a.settings, "[NODE] FAULT [device=0] [count=1]; the fault is xid=79 when you name none");
  command->add_option("--kubeconfig", a.kubeconfig, "Of another cluster than the lab's");
  command->add_flag("--production", a.production, "Also on a node of a production pool");
  command->add_flag("--wait,!--no-wait", a.wait, "Follow it until it is seen and answered (default), or only inject");
  command->add_flag("--list", a.list_faults, "What can fail, what it touches and what you should see");
  command->add_flag("--clear", a.clear_drills, "End a node's drills; without a node, forget those that are over");
  command->add_option("-o,--output", a.output, "json")->check(CLI::IsMember({"json"}));
  command->callback([&] {
    chosen = [&a] {
      a.no_wait = !a.wait;
      return inject(a);
    };
  });
}

void add_tools(CLI::App& app, Arguments& a, Action& chosen) {
  for (auto [name, help, action] : {std::tuple{"ssh", "A shell on the login node, or one command there", &open_ssh},
                                    std::tuple{"kubectl", "kubectl with the lab's credentials", &run_kubectl}}) {
    auto* command = app.add_subcommand(name, help);
    command->prefix_command();
    command->callback([&a, &chosen, command, action = action] {
      a.rest = command->remaining();
      chosen = [&a, action] { return plainly([&](Context& c) { return action(c, a.rest); }); };
    });
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{"Homeostat: a GPU dies, and training goes on."};
  Arguments arguments;
  Action chosen;
  app.footer(examples);
  app.require_subcommand(1);
  add_life(app, arguments, chosen);
  add_questions(app, arguments, chosen);
  add_inject(app, arguments, chosen);
  add_tools(app, arguments, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_good : exit_usage;
  }
  return chosen();
}

}  // namespace homeostat::cli
