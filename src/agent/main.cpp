#include <csignal>
#include <cstdio>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/classify_stream.hpp"
#include "agent/options.hpp"
#include "agent/run.hpp"
#include "io/log.hpp"
#include "io/signals.hpp"

namespace {

using namespace homeostat;

constexpr const char* help =
    R"(homeostat-agent: watches one node's accelerators and tells Kubernetes how they are.

Usage:
  homeostat-agent run --node NAME [options]
  homeostat-agent classify
  homeostat-agent version
  homeostat-agent --help

run follows the kernel log, asks the accelerators' driver, and writes the NodeHealth of its node and the node's condition AcceleratorHealthy.
  --node NAME           The Kubernetes node that this is
  --kmsg PATH           Kernel log: the device, or a file of such records (default /dev/kmsg)
  --boot-id PATH        File with the boot's id (default /proc/sys/kernel/random/boot_id)
  --state FOLDER        Where the agent remembers what it has read (default /var/lib/homeostat/agent)
  --nvml PATH           NVIDIA's management library (default: libnvidia-ml.so.1 as the loader finds it)
  --expected-gpus N     How many GPUs there should be (default: what the Node says)
  --policy NAME         HealthPolicy whose rules colour the verdict (default: default)
  --kubeconfig FILE     How to reach Kubernetes (default: the pod's own account, else $KUBECONFIG)

classify reads kernel lines on standard input in any form (dmesg in its styles, syslog, the journal, /dev/kmsg records) and writes one
row for each, separated by tabs: component, code, device, severity (fatal, error, warn, info, none), action. A line that is no fault, or
that the kernel did not write, gives component and severity "none" and leaves the other fields empty.

Examples:
  homeostat-agent run --node "$NODE_NAME"
  dmesg | homeostat-agent classify | grep -v ^none
  journalctl -k | homeostat-agent classify
  echo 'NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.' | homeostat-agent classify

Exit codes: 0 good, 1 it failed, 2 wrong usage, 3 something needed is missing.
)";

int exit_code(const Error& error) {
  std::fprintf(stderr, "homeostat-agent: %s\n", error.message.c_str());
  if (error.kind == ErrorKind::invalid) return 2;
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::forbidden ? 3 : 1;
}

int classify() {
  const auto done = agent::classify_stream(0, 1);
  return done ? 0 : exit_code(done.error());
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

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string_view> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::string_view command = arguments.empty() ? "" : arguments[0];
  if (command == "--help" || command == "-h" || command == "help") return std::fputs(help, stdout) < 0;
  if (command == "version" || command == "--version") return std::puts("homeostat-agent " HOMEOSTAT_VERSION) < 0;
  if (command == "classify" && arguments.size() == 1) return classify();
  if (command == "run") return run({arguments.begin() + 1, arguments.end()});
  std::fputs(help, stderr);
  return 2;
}
