#include "agent/options.hpp"

#include <optional>
#include <string>

#include "core/fault/text.hpp"

namespace homeostat::agent {

namespace {

Result<void> set(RunOptions& options, std::string_view name, std::string value) {
  if (value.empty()) return fail(ErrorKind::invalid, std::string(name) + " needs a value.");
  if (name == "--node")
    options.node_name = std::move(value);
  else if (name == "--kmsg")
    options.kmsg_path = std::move(value);
  else if (name == "--boot-id")
    options.boot_id_path = std::move(value);
  else if (name == "--state")
    options.state_folder = std::move(value);
  else if (name == "--nvml")
    options.nvml_path = std::move(value);
  else if (name == "--policy")
    options.policy_name = std::move(value);
  else if (name == "--kubeconfig")
    options.kubeconfig = std::move(value);
  else if (name == "--expected-gpus") {
    std::string_view rest = value;
    const auto count = fault::take_number(rest);
    if (!count || !rest.empty() || *count > 64)
      return fail(ErrorKind::invalid, "--expected-gpus takes a number from 0 to 64, not \"" + value + "\".");
    options.expected_gpus = static_cast<int>(*count);
  } else {
    return fail(ErrorKind::invalid, "There is no option " + std::string(name) + ". See homeostat-agent --help.");
  }
  return {};
}

}  // namespace

Result<RunOptions> parse_run_options(std::span<const std::string_view> arguments) {
  RunOptions options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto argument = arguments[i];
    if (!argument.starts_with("--"))
      return fail(ErrorKind::invalid,
                  "\"" + std::string(argument) + "\" is not an option. See homeostat-agent --help.");
    const auto equals = argument.find('=');
    std::string value;
    if (equals != std::string_view::npos)
      value = argument.substr(equals + 1);
    else if (i + 1 < arguments.size())
      value = arguments[++i];
    if (auto done = set(options, argument.substr(0, equals), std::move(value)); !done)
      return std::unexpected(done.error());
  }
  if (options.node_name.empty()) return fail(ErrorKind::invalid, "Which node is this? Name it with --node.");
  return options;
}

}  // namespace homeostat::agent
