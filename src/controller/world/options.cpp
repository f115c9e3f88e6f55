#include "controller/world/options.hpp"

#include <charconv>

namespace homeostat::controller {

const char* const usage =
    "usage: homeostat-controller run [options]\n"
    "       homeostat-controller version\n"
    "  --kubeconfig=FILE      reach the cluster as this file says (default: the pod's own account, else $KUBECONFIG)\n"
    "  --leader-elect=BOOL    act only while holding the lease homeostat-system/homeostat-controller (default true)\n"
    "  --identity=NAME        who holds the lease (default: $POD_NAME, else host and process id)\n"
    "  --metrics-addr=HOST:PORT  /healthz and /metrics (default :8080; \"\" for none)\n"
    "  --debug                log decisions to do nothing, too\n";

namespace {

Result<void> parse_address(const std::string& text, Options& options) {
  if (text.empty()) return options.http_port = 0, Result<void>{};
  auto colon = text.rfind(':');
  int port = -1;
  if (colon != std::string::npos) {
    auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size()) port = -1;
  }
  if (port < 1 || port > 65535)
    return fail(ErrorKind::invalid, "--metrics-addr=" + text + ": write HOST:PORT, such as :8080 or 127.0.0.1:9090");
  options.http_port = port;
  if (colon > 0) options.http_address = text.substr(0, colon);
  return {};
}

Result<void> parse_flag(const std::string& name, const std::string& value, Options& options) {
  if (name == "--kubeconfig") return options.kubeconfig = value, Result<void>{};
  if (name == "--identity") return options.identity = value, Result<void>{};
  if (name == "--metrics-addr") return parse_address(value, options);
  if (name == "--debug") return options.debug = true, Result<void>{};
  if (name == "--leader-elect") {
    if (!value.empty() && value != "true" && value != "false")
      return fail(ErrorKind::invalid, "--leader-elect=" + value + ": write true or false");
    return options.leader_elect = value != "false", Result<void>{};
  }
  return fail(ErrorKind::invalid, "there is no option " + name);
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& args) {
  Options options;
  for (size_t i = 0; i < args.size(); ++i) {
    auto equals = args[i].find('=');
    std::string name = args[i].substr(0, equals);
    std::string value = equals == std::string::npos ? "" : args[i].substr(equals + 1);
    bool takes_value = name == "--kubeconfig" || name == "--identity" || name == "--metrics-addr";
    if (takes_value && equals == std::string::npos) {
      if (++i == args.size())
        return fail(ErrorKind::invalid,
                    std::string(name).append(" needs a value: write ").append(name).append("=VALUE"));
      value = args[i];
    }
    if (auto good = parse_flag(name, value, options); !good) return std::unexpected(good.error());
  }
  return options;
}

}  // namespace homeostat::controller
