#include "cli/arguments.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <stop_token>

#include "cli/bring_up.hpp"
#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/demo.hpp"
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
  homeostat repairs                     all repairs; homeostat repair NAME tells one
  homeostat kubectl get pods -A         kubectl with the lab's credentials
  homeostat down                        take everything down without a trace

Exit codes: 0 good, 1 it failed, 2 wrong usage, 3 something needed is missing, 4 refused for safety.)";

struct Arguments {
  std::string node, repair, output;
  long job = 0;
  std::vector<std::string> settings, rest;
  DemoOptions demo;
  UpOptions up;
  bool no_wait = false;
};

using Action = std::function<int()>;

// For what waits and may be interrupted. Programs that this one becomes must get their signals unblocked, so they run
// without.
int interruptible(const std::function<int(Context&)>& action) {
  io::StopSignals signals;
  Context context(find_places(), signals.token());
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

void add_tools(CLI::App& app, Arguments& a, Action& chosen) {
  auto* inject_command = app.add_subcommand("inject", "Let a fake GPU fail as a real one would");
  inject_command->add_option("--of-job", a.job, "A node of this Slurm job instead of NODE");
  inject_command->add_option("words", a.settings, "[NODE] xid=79 [device=0]")->required();
  inject_command->callback([&] {
    chosen = [&a] {
      const bool named = a.settings.front().find('=') == std::string::npos;
      if (named == (a.job > 0)) {
        fmt::print(stderr,
                   "homeostat: say which node, or which job's node: homeostat inject NODE xid=79, or homeostat inject "
                   "--of-job ID xid=79\n");
        return exit_usage;
      }
      std::string node = named ? a.settings.front() : "";
      std::vector<std::string> settings(a.settings.begin() + (named ? 1 : 0), a.settings.end());
      if (settings.empty()) settings.push_back("xid=79");
      return plainly([&](Context& c) { return inject_fault(c, node, a.job, settings); });
    };
  });
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
  add_tools(app, arguments, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_good : exit_usage;
  }
  return chosen();
}

}  // namespace homeostat::cli
