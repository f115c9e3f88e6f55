#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "agent/check.hpp"
#include "agent/classify_stream.hpp"
#include "agent/explain.hpp"
#include "agent/options.hpp"
#include "agent/run.hpp"
#include "io/log.hpp"
#include "io/signals.hpp"

namespace {

using namespace homeostat;

constexpr const char* help =
    R"help(homeostat-agent: watches one node's accelerators and tells Kubernetes how they are.

Usage:
  homeostat-agent run --node NAME [options]
  homeostat-agent check [options] [-o text|json]
  homeostat-agent explain CODE [-o text|json]
  homeostat-agent classify
  homeostat-agent version
  homeostat-agent --help

run follows the kernel log, asks the drivers and sysfs, and writes the NodeHealth of its node and the node's condition AcceleratorHealthy.
  --node NAME           The Kubernetes node that this is
  --state FOLDER        Where the agent remembers what it has read (default /var/lib/homeostat/agent)
  --policy NAME         HealthPolicy whose rules colour the verdict (default: default)
  --kubeconfig FILE     How to reach Kubernetes (default: the pod's own account, else $KUBECONFIG)
  --metrics ADDRESS     Serve /metrics and /healthz there, such as :9477 (default: nowhere)
  --cgroups FOLDER      Where Slurm's cgroups are (default /sys/fs/cgroup)
  --drill-by-kmsg       A drill that the controller orders is written into the kernel log

check looks once at the same things and prints what it finds.
  --timeout SECONDS     How long it may take at most (default 15)
  -o text|json          For people, or as the status of a NodeHealth

Where run and check look:
  --kmsg PATH           Kernel log: the device, or a file of such records (default /dev/kmsg)
  --boot-id PATH        File with the boot's id (default /proc/sys/kernel/random/boot_id)
  --nvml PATH           NVIDIA's management library (default: libnvidia-ml.so.1 as the loader finds it)
  --amdsmi PATH         AMD's management library (default: libamd_smi.so as the loader finds it, or ROCm's; without it
                        AMD GPUs are read from /sys alone)
  --sys FOLDER          sysfs (default /sys)
  --proc FOLDER         procfs (default /proc)
  --steps FOLDER        Where training scripts tell their steps (default /run/homeostat/steps)
  --expected-gpus N     How many GPUs there should be (default: what the Node says; check: as many as there are)

explain tells what a code is, what is done about it and why.

classify reads kernel lines on standard input in any form (dmesg in its styles, syslog, the journal, /dev/kmsg records) and writes one
row for each, separated by tabs: component, code, device, severity (fatal, error, warn, info, none), action. A line that is no fault, or
that the kernel did not write, gives component and severity "none" and leaves the other fields empty.

Examples:
  homeostat-agent run --node "$NODE_NAME" --metrics :9477
  homeostat-agent check --expected-gpus 8 || scontrol update nodename="$(hostname -s)" state=drain reason=homeostat-check
  homeostat-agent check -o json | jq .findings
  homeostat-agent explain 79
  homeostat-agent explain sxid 12028 -o json
  dmesg | homeostat-agent classify | grep -v ^none
  journalctl -k | homeostat-agent classify
  echo 'NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.' | homeostat-agent classify

Exit codes: 0 good, 1 it failed or cannot say, 2 wrong usage, 3 something needed is missing;
check also: 5 degraded, 6 unhealthy.
)help";

int exit_code(const Error& error) {
  std::fprintf(stderr, "homeostat-agent: %s\n", error.message.c_str());
  if (error.kind == ErrorKind::invalid) return 2;
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::forbidden ? 3 : 1;
}

int classify() {
  const auto done = agent::classify_stream(0, 1);
  return done ? 0 : exit_code(done.error());
}

int check(const std::vector<std::string_view>& arguments) {
  const auto options = agent::parse_check_options(arguments);
  if (!options) return exit_code(options.error());
  io::log_setup("homeostat-agent", io::LogLevel::error);
  const auto view = agent::check(*options);
  std::fputs((options->json ? agent::check_json(view) : agent::check_text(view)).c_str(), stdout);
  return static_cast<int>(agent::exit_of(view.judgement.verdict));
}

int explain(const std::vector<std::string_view>& arguments) {
  const auto options = agent::parse_explain_options(arguments);
  if (!options) return exit_code(options.error());
  if (const auto text = agent::explain_code(options->code, options->json)) return std::fputs(text->c_str(), stdout) < 0;
  std::fprintf(stderr, "homeostat-agent: %s\n", agent::unknown_code(options->code).c_str());
  return 1;
}

int run(const std::vector<std::string_view>& arguments) {
  const auto options = agent::parse_run_options(arguments);
  if (!options) return exit_code(options.error());
  io::log_setup("homeostat-agent", io::LogLevel::info);
  io::StopSignals signals;
  const auto done = agent::run(*options, signals.token());
  if (done) return 0;
  io::log_error("The agent ends", {{"error", done.error().message}});
  return exit_code(done.error());
}

int command(const std::vector<std::string_view>& arguments) {
  const std::string_view name = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string_view> rest(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (name == "--help" || name == "-h" || name == "help") return std::fputs(help, stdout) < 0;
  if (name == "version" || name == "--version") return std::puts("homeostat-agent " HOMEOSTAT_VERSION) < 0;
  if (name == "classify" && rest.empty()) return classify();
  if (name == "run") return run(rest);
  if (name == "check") return check(rest);
  if (name == "explain") return explain(rest);
  std::fputs(help, stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const int code = command({argv + (argc > 0 ? 1 : 0), argv + argc});
  // A sensor may hang in a driver for good: nothing is taken down under its thread.
  const bool told = std::fflush(nullptr) == 0;
  std::_Exit(code == 0 && !told ? 1 : code);
}
