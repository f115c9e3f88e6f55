// homeostat-lab: a real Kubernetes on one machine, and machines with fake GPUs made in seconds. This file only wires
// arguments.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "io/files.hpp"
#include "io/log.hpp"
#include "io/signals.hpp"
#include "lab/inject.hpp"
#include "lab/lifecycle.hpp"
#include "lab/random.hpp"
#include "lab/supervisor.hpp"
#include "lab/zone_init.hpp"

using namespace homeostat;
using namespace homeostat::lab;

namespace {

constexpr const char* examples = R"(
Examples:
  homeostat-lab up                                  bring the lab up and wait until it is ready
  homeostat-lab status                              what runs
  export KUBECONFIG=$(homeostat-lab kubeconfig)     then use kubectl
  homeostat-lab machine create gpu-1 --gpus 8       one more machine, Ready in seconds
  homeostat-lab inject gpu-1 xid=79 device=0        GPU 0 of gpu-1 falls off the bus
  homeostat-lab inject gpu-1 link=flap              an InfiniBand port of gpu-1 comes and goes
  homeostat-lab machine delete gpu-1                its processes are dead at once
  homeostat-lab down                                take everything down without a trace

Exit codes: 0 good, 1 it failed, 2 wrong usage, 3 something needed is missing, 4 refused for safety.)";

int complain(const Error& error) {
  std::fprintf(stderr, "homeostat-lab: %s\n", error.message.c_str());
  return error.kind == ErrorKind::invalid ? exit_usage : exit_failed;
}

int serve(const std::string& state) {
  io::log_setup("homeostat-lab", io::LogLevel::info);
  auto config = load_config(state);
  if (!config) return complain(config.error());
  auto claimed = claim_serve(*config);
  if (!claimed) return complain(claimed.error());
  io::StopSignals signals;
  Supervisor supervisor(*config);
  auto done = supervisor.run(signals.token());
  if (done || signals.token().stop_requested()) return exit_good;
  io::log_error(done.error().message);
  return exit_failed;
}

struct MachineArguments {
  std::string name, pool, token;
  int gpus = 0;
  std::vector<std::string> labels, taints;
};

int create_machine(const LabConfig& config, const MachineArguments& a) {
  boost::json::object labels;
  for (const auto& label : a.labels) {
    auto equals = label.find('=');
    if (equals == std::string::npos)
      return complain(Error{ErrorKind::invalid, "a label is written key=value, not '" + label + "'", {}});
    labels[label.substr(0, equals)] = label.substr(equals + 1);
  }
  boost::json::object order{{"token", a.token.empty() ? "cli-" + random_hex(8) : a.token},
                            {"name", a.name},
                            {"pool", a.pool},
                            {"gpus", a.gpus},
                            {"labels", labels},
                            {"taints", boost::json::array(a.taints.begin(), a.taints.end())}};
  auto answer = call_provider(config, "POST", "/v1/machines", boost::json::serialize(order));
  if (!answer) return complain(answer.error());
  std::printf("%s\n", answer->c_str());
  return exit_good;
}

int list_machines(const LabConfig& config, bool as_json) {
  auto answer = call_provider(config, "GET", "/v1/machines", "");
  if (!answer) return complain(answer.error());
  if (as_json) return std::printf("%s\n", answer->c_str()), exit_good;
  std::printf("%-24s %-12s %-5s %-10s %s\n", "NAME", "POOL", "GPUS", "STATE", "CREATED");
  auto parsed = boost::json::parse(*answer);
  for (const auto& item : parsed.at("machines").as_array())
    std::printf("%-24s %-12s %-5d %-10s %s\n", item.at("name").as_string().c_str(), item.at("pool").as_string().c_str(),
                item.at("gpus").to_number<int>(), item.at("state").as_string().c_str(),
                item.at("createdAt").as_string().c_str());
  return exit_good;
}

int inject(const LabConfig& config, const std::string& machine, const std::vector<std::string>& settings) {
  auto injection = parse_injection(settings);
  if (!injection) return complain(injection.error());
  if (machine.find('/') != std::string::npos || !io::exists(config.machine(machine) + "/run/kmsg"))
    return complain(
        Error{ErrorKind::not_found, "there is no machine '" + machine + "'; see: homeostat-lab machine list", {}});
  auto done = homeostat::lab::inject(config.machine(machine) + "/run", *injection);
  if (!done) return complain(done.error());
  std::printf("%s: %s\n", machine.c_str(), done->c_str());
  return exit_good;
}

// For the commands that need a lab.
int with_lab(const std::string& state, const std::function<int(const LabConfig&)>& action) {
  auto config = load_config(state);
  return config ? action(*config) : complain(config.error());
}

struct Arguments {
  UpOptions up;
  std::string state = default_state();
  std::string instance = "hl", spec, target, images_folder, output;
  std::vector<std::string> settings;
  MachineArguments machine;
};

void add_up(CLI::App& app, Arguments& a, const std::function<void(std::function<int()>)>& choose) {
  auto* up_command = app.add_subcommand("up", "Bring the lab up and wait until it is ready; harmless when it is up");
  auto& c = a.up.config;
  up_command->add_flag("--detach", a.up.detach, "Do not wait until it is ready");
  up_command
      ->add_option("--instance", c.instance,
                   "Prefix of bridge and namespaces, for a second lab on one machine (1 to 4 letters)")
      ->check([](const std::string& text) {
        bool good = !text.empty() && text.size() <= 4 &&
                    text.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos;
        return good ? std::string() : "the instance must be 1 to 4 lower-case letters";
      })
      ->capture_default_str();
  up_command->add_option("--node-range", c.ranges.nodes, "Addresses of host, control plane and machines")
      ->capture_default_str();
  up_command->add_option("--pod-range", c.ranges.pods, "Addresses of pods")->capture_default_str();
  up_command->add_option("--service-range", c.ranges.services, "Addresses of Services")->capture_default_str();
  up_command->add_option("--balancer-range", c.ranges.balancers, "Addresses of Services of type LoadBalancer")
      ->capture_default_str();
  up_command->add_option("--kubernetes", c.kubernetes,
                         "Folder with kube and coredns (default: what scripts/build-kubernetes made)");
  up_command->add_option("--images", c.images, "Folder with the images (default: what scripts/build-images made)");
  up_command->callback([&a, choose] {
    choose([&a] {
      a.up.config.state = a.state;
      io::StopSignals signals;
      return up(a.up, signals.token());
    });
  });
}

void add_machine(CLI::App& app, Arguments& a, const std::function<void(std::function<int()>)>& choose) {
  auto* machine = app.add_subcommand("machine", "Machines: create, delete, list");
  machine->require_subcommand(1);
  auto* create = machine->add_subcommand("create", "Order a machine; it is Ready in Kubernetes seconds later");
  create->add_option("name", a.machine.name)->required();
  create->add_option("--gpus", a.machine.gpus, "Fake GPUs")->check(CLI::Range(0, 16))->capture_default_str();
  create->add_option("--pool", a.machine.pool, "NodePool that it belongs to");
  create->add_option("--label", a.machine.labels, "key=value; may be repeated");
  create->add_option("--taint", a.machine.taints, "key=value:Effect; may be repeated");
  create->add_option("--token", a.machine.token, "Idempotency token (default: a new one)");
  create->callback([&a, choose] {
    choose([&a] { return with_lab(a.state, [&a](const LabConfig& c) { return create_machine(c, a.machine); }); });
  });
  auto* remove = machine->add_subcommand("delete", "End a machine; the Node object is left to whoever ordered it");
  remove->add_option("name", a.machine.name)->required();
  remove->callback([&a, choose] {
    choose([&a] {
      return with_lab(a.state, [&a](const LabConfig& c) {
        auto answer = call_provider(c, "DELETE", "/v1/machines/" + a.machine.name, "");
        return answer ? (std::printf("%s is dead\n", a.machine.name.c_str()), exit_good) : complain(answer.error());
      });
    });
  });
  auto* list = machine->add_subcommand("list", "The machines that were ordered");
  list->add_option("-o,--output", a.output, "json")->check(CLI::IsMember({"json"}));
  list->callback([&a, choose] {
    choose(
        [&a] { return with_lab(a.state, [&a](const LabConfig& c) { return list_machines(c, a.output == "json"); }); });
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A real Kubernetes on this machine, and machines with fake GPUs made in seconds."};
  Arguments a;
  std::function<int()> chosen;
  auto choose = [&chosen](std::function<int()> action) { chosen = std::move(action); };
  app.footer(examples);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--state", a.state, "The lab's folder")->envname("HOMEOSTAT_STATE")->capture_default_str();
  add_up(app, a, choose);
  auto* down_command = app.add_subcommand(
      "down", "Take the lab down: processes, namespaces, mounts, cgroups, bridge, state. Everything in it is lost");
  down_command->add_option("--instance", a.instance, "Only needed when the lab's folder is lost")
      ->capture_default_str();
  down_command->callback([&] { choose([&a] { return down(a.state, a.instance); }); });
  auto* status_command = app.add_subcommand("status", "What runs; exit code 0 when the lab is up");
  status_command->add_option("-o,--output", a.output, "json")->check(CLI::IsMember({"json"}));
  status_command->callback([&] { choose([&a] { return status(a.state, a.output == "json"); }); });
  add_machine(app, a, choose);
  auto* inject_command = app.add_subcommand(
      "inject", "Let fake hardware fail: kernel log, NVML state and sysfs (`homeostat inject --list` shows what can)");
  inject_command->add_option("node", a.target, "The machine")->required();
  inject_command->add_option("settings", a.settings, "xid=79 [count=1] [device=0]")->required();
  inject_command->callback([&] {
    choose([&a] { return with_lab(a.state, [&a](const LabConfig& c) { return inject(c, a.target, a.settings); }); });
  });
  auto* load = app.add_subcommand("load", "Bring newly built images into the machines that run and those to come");
  load->add_option("folder", a.images_folder, "What scripts/build-images printed")->required();
  load->callback([&] {
    choose([&a] {
      return with_lab(a.state, [&a](const LabConfig& c) {
        auto done = load_images(c, std::filesystem::absolute(a.images_folder).string());
        return done ? exit_good : complain(done.error());
      });
    });
  });
  auto* kubeconfig = app.add_subcommand("kubeconfig", "Print the path of the administrator's kubeconfig");
  kubeconfig->callback([&] {
    choose([&a] {
      return with_lab(a.state,
                      [](const LabConfig& c) { return std::printf("%s\n", c.path("kubeconfig").c_str()), exit_good; });
    });
  });
  auto* serve_command = app.add_subcommand("serve", "The supervisor itself; `up` starts it in the background");
  serve_command->callback([&] { choose([&a] { return serve(a.state); }); });
  auto* zone_init = app.add_subcommand("zone-init", "The first process of a zone; serve starts it")->group("");
  zone_init->add_option("spec", a.spec)->required();
  zone_init->callback([&] { choose([&a] { return zone_init_main(a.spec); }); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_good : exit_usage;
  }
  a.state = std::filesystem::absolute(a.state).lexically_normal().string();
  return chosen();
}
