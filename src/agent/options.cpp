#include "agent/options.hpp"

#include <functional>
#include <map>
#include <optional>

#include "core/fault/text.hpp"

namespace homeostat::agent {

namespace {

using Set = std::function<Result<void>(std::string value)>;
// Each option by its name. One without a value is in `flags`.
struct Known {
  std::map<std::string_view, Set> values;
  std::map<std::string_view, bool*> flags;
};

std::unexpected<Error> wrong(std::string message) { return fail(ErrorKind::invalid, std::move(message)); }

Set text(std::string& into) {
  return [&into](std::string value) -> Result<void> {
    into = std::move(value);
    return {};
  };
}

Result<unsigned> number(std::string_view name, const std::string& value, unsigned from, unsigned to) {
  std::string_view rest = value;
  const auto count = fault::take_number(rest);
  if (count && rest.empty() && *count >= from && *count <= to) return static_cast<unsigned>(*count);
  std::string message(name);
  message.append(" takes a number from ").append(std::to_string(from)).append(" to ").append(std::to_string(to));
  return wrong(message.append(", not \"").append(value).append("\"."));
}

Set gpus(std::optional<int>& into) {
  return [&into](const std::string& value) -> Result<void> {
    const auto count = number("--expected-gpus", value, 0, 64);
    if (!count) return std::unexpected(count.error());
    into = static_cast<int>(*count);
    return {};
  };
}

Set output(bool& json) {
  return [&json](const std::string& value) -> Result<void> {
    if (value != "json" && value != "text") return wrong("-o takes text or json, not \"" + value + "\".");
    json = value == "json";
    return {};
  };
}

void add_places(Known& known, SensorPlaces& places, WatcherOptions& log) {
  known.values["--kmsg"] = text(log.kmsg_path);
  known.values["--boot-id"] = text(log.boot_id_path);
  known.values["--nvml"] = text(places.nvml_path);
  known.values["--amdsmi"] = text(places.amdsmi_path);
  known.values["--sys"] = text(places.sys);
  known.values["--proc"] = text(places.proc);
  known.values["--steps"] = text(places.steps);
}

bool surely_has_gpus(const std::optional<int>& expected, const SensorPlaces& places) {
  return expected.value_or(places.nvml_path.empty() ? 0 : 1) > 0;
}

Result<void> parse(std::span<const std::string_view> arguments, const Known& known) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto argument = arguments[i];
    if (!argument.starts_with('-'))
      return wrong("\"" + std::string(argument) + "\" is not an option. See homeostat-agent --help.");
    const auto equals = argument.find('=');
    const auto name = argument.substr(0, equals);
    if (const auto flag = known.flags.find(name); flag != known.flags.end()) {
      if (equals != std::string_view::npos) return wrong(std::string(name) + " takes no value.");
      *flag->second = true;
      continue;
    }
    const auto option = known.values.find(name);
    if (option == known.values.end())
      return wrong("There is no option " + std::string(name) + ". See homeostat-agent --help.");
    std::string value;
    if (equals != std::string_view::npos)
      value = argument.substr(equals + 1);
    else if (i + 1 < arguments.size())
      value = arguments[++i];
    if (value.empty()) return wrong(std::string(name) + " needs a value.");
    if (auto done = option->second(std::move(value)); !done) return done;
  }
  return {};
}

}  // namespace

Result<RunOptions> parse_run_options(std::span<const std::string_view> arguments) {
  RunOptions options;
  Known known;
  add_places(known, options.sensors, options.log);
  known.values["--node"] = text(options.node_name);
  known.values["--state"] = text(options.log.state_folder);
  known.values["--policy"] = text(options.policy_name);
  known.values["--kubeconfig"] = text(options.kubeconfig);
  known.values["--metrics"] = text(options.metrics);
  known.values["--cgroups"] = text(options.cgroups);
  known.values["--expected-gpus"] = gpus(options.expected_gpus);
  known.flags["--drill-by-kmsg"] = &options.drill_by_kmsg;
  if (auto done = parse(arguments, known); !done) return std::unexpected(done.error());
  if (options.node_name.empty()) return wrong("Which node is this? Name it with --node.");
  options.sensors.always_expected = surely_has_gpus(options.expected_gpus, options.sensors);
  return options;
}

Result<CheckOptions> parse_check_options(std::span<const std::string_view> arguments) {
  CheckOptions options;
  Known known;
  add_places(known, options.sensors, options.log);
  known.values["--expected-gpus"] = gpus(options.expected_gpus);
  known.values["-o"] = known.values["--output"] = output(options.json);
  known.values["--timeout"] = [&options](const std::string& value) -> Result<void> {
    const auto seconds = number("--timeout", value, 1, 300);
    if (!seconds) return std::unexpected(seconds.error());
    options.time = std::chrono::seconds(*seconds);
    return {};
  };
  if (auto done = parse(arguments, known); !done) return std::unexpected(done.error());
  options.sensors.always_expected = surely_has_gpus(options.expected_gpus, options.sensors);
  options.sensors.driver_grace = Duration(0);  // whoever checks wants to know now
  return options;
}

Result<ExplainOptions> parse_explain_options(std::span<const std::string_view> arguments) {
  ExplainOptions options;
  Known known;
  known.values["-o"] = known.values["--output"] = output(options.json);
  // "xid 79" may come as two words.
  std::string words;
  std::vector<std::string_view> others;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-')) {
      words.append(words.empty() ? "" : " ").append(arguments[i]);
      continue;
    }
    others.push_back(arguments[i]);
    if (arguments[i].find('=') == std::string_view::npos && i + 1 < arguments.size()) others.push_back(arguments[++i]);
  }
  if (auto done = parse(others, known); !done) return std::unexpected(done.error());
  if (words.empty()) return wrong("Which code? Write for example: homeostat-agent explain 79.");
  options.code = std::move(words);
  return options;
}

}  // namespace homeostat::agent
