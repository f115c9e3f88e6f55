#include <csignal>
#include <cstdio>
#include <string_view>

#include "agent/classify_stream.hpp"

namespace {

constexpr const char* help =
    R"(homeostat-agent: watches one node's accelerators and tells Kubernetes how they are.

Usage:
  homeostat-agent classify        Read kernel lines on standard input, write one row for each
  homeostat-agent version
  homeostat-agent --help

classify takes any form of kernel line (dmesg in its styles, syslog, the journal, /dev/kmsg records) and writes, separated by tabs:
component, code, device, severity (fatal, error, warn, info, none), action. A line that is no fault, or that the kernel did not write,
gives component and severity "none" and leaves the other fields empty.

Examples:
  dmesg | homeostat-agent classify | grep -v ^none
  journalctl -k | homeostat-agent classify
  echo 'NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.' | homeostat-agent classify

Exit codes: 0 good, 1 it failed, 2 wrong usage, 3 something needed is missing.
)";

int classify() {
  const auto done = homeostat::agent::classify_stream(0, 1);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "--help" || command == "-h" || command == "help") return std::fputs(help, stdout) < 0;
  if (command == "version" || command == "--version") return std::puts("homeostat-agent " HOMEOSTAT_VERSION) < 0;
  if (command == "classify" && argc == 2) return classify();
  std::fputs(help, stderr);
  return 2;
}
