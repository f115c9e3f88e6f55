#include "kube/kubeconfig.hpp"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "io/json.hpp"
#include "io/jwt.hpp"
#include "io/process.hpp"

extern char** environ;

namespace homeostat::kube {
namespace {

namespace fs = std::filesystem;

constexpr size_t max_file_bytes = 4u << 20;
constexpr Duration token_lifetime{60'000};  // how long a token read from a file is used
constexpr Duration expiry_leeway{10'000};   // an exec credential is renewed this long before it expires
constexpr Duration exec_timeout{30'000};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// `what` begins the sentence: "the CA certificate of cluster x".
Result<std::string> read_file(const std::string& path, std::string_view what) {
  std::error_code code;
  if (!fs::exists(path, code)) return fail(ErrorKind::not_found, fmt::format("{}: there is no file {}", what, path));
  if (fs::is_directory(path, code))
    return fail(ErrorKind::invalid, fmt::format("{}: {} is a folder, not a file", what, path));
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return fail(ErrorKind::forbidden, fmt::format("{}: the file {} cannot be read; check its permissions", what, path));
  // Piece by piece: a text that is kept must not keep the room for the largest one.
  std::string text;
  std::array<char, 4096> piece{};
  while (text.size() <= max_file_bytes && in) {
    in.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<size_t>(in.gcount()));
  }
  if (text.size() > max_file_bytes)
    return fail(ErrorKind::invalid, fmt::format("{}: the file {} is larger than 4 MiB", what, path));
  return text;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  while (!text.empty() && text.front() == ' ') text.erase(0, 1);
  return text;
}

// ---- credentials ----

class StaticToken final : public CredentialSource {
 public:
  explicit StaticToken(std::string token) : token_(std::move(token)) {}
  Result<Credential> current(Duration, TimePoint) override { return Credential{.bearer_token = token_}; }
  void drop() override {}

 private:
  std::string token_;
};

class TokenFile final : public CredentialSource {
 public:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}
  Result<Credential> current(Duration monotonic_now, TimePoint) override {
    std::lock_guard lock(mutex_);
    if (!read_at_ || monotonic_now - *read_at_ >= token_lifetime - expiry_leeway) {
      auto text = read_file(path_, "the token");
      if (text && !trimmed(*text).empty()) {
        token_ = trimmed(std::move(*text));
      } else if (token_.empty()) {  // an older token is better than none while the file is being replaced
        if (!text) return std::unexpected(text.error());
        return fail(ErrorKind::unauthorized, fmt::format("the token file {} is empty", path_));
      }
      read_at_ = monotonic_now;
    }
    return Credential{.bearer_token = token_};
  }
  void drop() override {
    std::lock_guard lock(mutex_);
    read_at_.reset();
  }

 private:
  std::mutex mutex_;
  std::string path_, token_;
  std::optional<Duration> read_at_;
};

class ExecCredential final : public CredentialSource {
 public:
  explicit ExecCredential(ExecPlugin plugin) : plugin_(std::move(plugin)) {}
  Result<Credential> current(Duration, TimePoint now) override {
    std::lock_guard lock(mutex_);
    if (held_ && (!expires_at_ || now + expiry_leeway < *expires_at_)) return *held_;
    held_.reset();
    auto fresh = run();
    if (fresh) held_ = *fresh;
    return fresh;
  }
  void drop() override {
    std::lock_guard lock(mutex_);
    held_.reset();
  }

 private:
  Result<Credential> run();
  Result<Credential> read(const std::string& output);

  std::mutex mutex_;
  ExecPlugin plugin_;
  std::optional<Credential> held_;
  std::optional<TimePoint> expires_at_;
};

Result<Credential> ExecCredential::run() {
  io::RunOptions options;
  options.timeout = exec_timeout;
  options.env.emplace();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!plugin_.env.contains(std::string(text.substr(0, text.find('='))))) options.env->emplace_back(text);
  }
  for (const auto& [name, value] : plugin_.env) options.env->push_back(fmt::format("{}={}", name, value));
  boost::json::object spec{{"interactive", false}};
  if (!plugin_.cluster_info.empty())
    if (auto cluster = io::parse_json(plugin_.cluster_info)) spec["cluster"] = *cluster;
  options.env->push_back("KUBERNETES_EXEC_INFO=" +
                         io::to_text(boost::json::object{
                             {"apiVersion", plugin_.api_version}, {"kind", "ExecCredential"}, {"spec", spec}}));
  std::vector<std::string> argv{plugin_.command};
  argv.insert(argv.end(), plugin_.args.begin(), plugin_.args.end());
  auto result = io::run(argv, options);
  const std::string who = fmt::format("the credential plugin {}", plugin_.command);
  if (!result) {
    const std::string hint = plugin_.install_hint.empty() ? "" : "; " + trimmed(plugin_.install_hint);
    return fail(ErrorKind::unauthorized, fmt::format("{} could not be run: {}{}", who, result.error().message, hint));
  }
  if (!result->status.ok())
    return fail(ErrorKind::unauthorized, fmt::format("{} failed with {}: {}", who, io::to_string(result->status),
                                                     trimmed(result->err.substr(0, 500))));
  return read(result->out);
}

Result<Credential> ExecCredential::read(const std::string& output) {
  const std::string who = fmt::format("the answer of the credential plugin {}", plugin_.command);
  auto parsed = io::parse_json_object(output, who, max_file_bytes);
  if (!parsed) return fail(ErrorKind::unauthorized, parsed.error().message);
  if (io::string_at(*parsed, {"apiVersion"}) != plugin_.api_version)
    return fail(ErrorKind::unauthorized, fmt::format("{} has apiVersion \"{}\" and not \"{}\", as the kubeconfig says",
                                                     who, io::string_at(*parsed, {"apiVersion"}), plugin_.api_version));
  Credential credential{.bearer_token = io::string_at(*parsed, {"status", "token"}),
                        .client_cert_pem = io::string_at(*parsed, {"status", "clientCertificateData"}),
                        .client_key_pem = io::string_at(*parsed, {"status", "clientKeyData"})};
  if (credential.bearer_token.empty() && credential.client_cert_pem.empty())
    return fail(ErrorKind::unauthorized, who + " holds neither a token nor a client certificate");
  expires_at_ = parse_rfc3339(io::string_at(*parsed, {"status", "expirationTimestamp"}));
  return credential;
}

// ---- kubeconfig ----

// A scalar as text; "" when missing, null or not a scalar.
std::string text_of(const YAML::Node& node) { return node && node.IsScalar() ? node.Scalar() : std::string(); }
std::string text_at(const YAML::Node& node, const char* name) {
  return node && node.IsMap() ? text_of(node[name]) : std::string();
}
bool truth_at(const YAML::Node& node, const char* name) { return text_at(node, name) == "true"; }

// A cluster, user or context with the file that defined it: relative paths start at that file's folder.
struct Entry {
  YAML::Node body;
  fs::path folder;
};

struct Merged {
  std::map<std::string, Entry> clusters, users, contexts;
  std::string current_context;
};

void merge_entries(const YAML::Node& list, const char* member, const fs::path& folder,
                   std::map<std::string, Entry>& into) {
  if (!list || !list.IsSequence()) return;
  for (const auto& item : list) {
    const std::string name = text_at(item, "name");
    if (item.IsMap() && item[member]) into.try_emplace(name, Entry{item[member], folder});  // the first file wins
  }
}

Result<void> merge_file(const std::string& path, Merged& into) {
  auto text = read_file(path, "kubeconfig");
  if (!text) return std::unexpected(text.error());
  try {
    const YAML::Node root = YAML::Load(*text);
    if (root.IsNull()) return {};
    if (!root.IsMap())
      return fail(ErrorKind::invalid, fmt::format("the kubeconfig {} is not a YAML map: is it the right file?", path));
    const fs::path folder = fs::absolute(path).parent_path();
    merge_entries(root["clusters"], "cluster", folder, into.clusters);
    merge_entries(root["users"], "user", folder, into.users);
    merge_entries(root["contexts"], "context", folder, into.contexts);
    if (into.current_context.empty()) into.current_context = text_at(root, "current-context");
  } catch (const YAML::Exception& error) {  // yaml-cpp speaks in exceptions
    return fail(ErrorKind::invalid, fmt::format("the kubeconfig {} is not valid YAML: {}", path, error.what()));
  }
  return {};
}

std::vector<std::string> paths_of(const KubeconfigOptions& options) {
  if (!options.paths.empty()) return options.paths;
  std::vector<std::string> paths;
  std::stringstream list(environment("KUBECONFIG"));
  for (std::string path; std::getline(list, path, ':');)
    if (!path.empty()) paths.push_back(path);
  if (paths.empty()) paths.push_back(environment("HOME") + "/.kube/config");
  return paths;
}

std::string names_of(const std::map<std::string, Entry>& entries) {
  std::string out;
  for (const auto& [name, entry] : entries) out += (out.empty() ? "" : ", ") + name;
  return out.empty() ? "none" : out;
}

Result<const Entry*> pick(const std::map<std::string, Entry>& entries, const std::string& name, std::string_view kind,
                          std::string_view origin) {
  const auto found = entries.find(name);
  if (found == entries.end())
    return fail(ErrorKind::invalid,
                fmt::format("{}: there is no {} named \"{}\"; defined are: {}", origin, kind, name, names_of(entries)));
  return &found->second;
}

// `<name>-data` (base64) before the file `<name>`; "" when neither is given.
Result<std::string> material(const Entry& entry, const std::string& name, std::string_view what) {
  if (const auto data = text_at(entry.body, (name + "-data").c_str()); !data.empty()) {
    auto bytes = io::base64_decode(data);
    if (!bytes)
      return fail(ErrorKind::invalid,
                  fmt::format("{}: {}-data is not valid base64; copy it again from where it came", what, name));
    return bytes;
  }
  const auto path = text_at(entry.body, name.c_str());
  if (path.empty()) return std::string();
  return read_file((entry.folder / path).string(), fmt::format("{}: {}", what, name));
}

Result<void> check_certificates(const std::string& pem, std::string_view what) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  const bool good = certificate != nullptr;
  X509_free(certificate);
  BIO_free(bio);
  ERR_clear_error();
  if (good) return {};
  return fail(ErrorKind::invalid, fmt::format("{} holds no PEM certificate (-----BEGIN CERTIFICATE-----)", what));
}

Result<void> read_cluster(const Entry& entry, const std::string& name, ClusterConfig& config) {
  const std::string what = fmt::format("{}: cluster {}", config.origin, name);
  config.server = text_at(entry.body, "server");
  while (config.server.ends_with('/')) config.server.pop_back();
  if (!config.server.starts_with("https://") && !config.server.starts_with("http://"))
    return fail(ErrorKind::invalid, fmt::format("{} has server \"{}\"; write https://host:port", what, config.server));
  auto ca = material(entry, "certificate-authority", what);
  if (!ca) return std::unexpected(ca.error());
  config.tls.ca_pem = std::move(*ca);
  if (!config.tls.ca_pem.empty())
    if (auto good = check_certificates(config.tls.ca_pem, what + ": certificate-authority"); !good) return good;
  config.tls.server_name = text_at(entry.body, "tls-server-name");
  config.tls.insecure_skip_verify = truth_at(entry.body, "insecure-skip-tls-verify");
  config.tls.proxy_url = text_at(entry.body, "proxy-url");
  return {};
}

ExecPlugin read_exec(const YAML::Node& exec, const fs::path& folder, const ClusterConfig& config) {
  ExecPlugin plugin{.command = text_at(exec, "command"),
                    .api_version = text_at(exec, "apiVersion"),
                    .install_hint = text_at(exec, "installHint")};
  if (plugin.command.find('/') != std::string::npos) plugin.command = (folder / plugin.command).string();
  if (exec["args"] && exec["args"].IsSequence())
    for (const auto& argument : exec["args"]) plugin.args.push_back(text_of(argument));
  if (exec["env"] && exec["env"].IsSequence())
    for (const auto& variable : exec["env"]) plugin.env[text_at(variable, "name")] = text_at(variable, "value");
  if (truth_at(exec, "provideClusterInfo")) {
    boost::json::object cluster{{"server", config.server}};
    if (!config.tls.ca_pem.empty()) cluster["certificate-authority-data"] = io::base64_encode(config.tls.ca_pem);
    if (!config.tls.server_name.empty()) cluster["tls-server-name"] = config.tls.server_name;
    plugin.cluster_info = io::to_text(cluster);
  }
  return plugin;
}

Result<void> read_exec_user(const Entry& entry, const std::string& what, ClusterConfig& config) {
  const YAML::Node exec = entry.body["exec"];
  ExecPlugin plugin = read_exec(exec, entry.folder, config);
  if (plugin.command.empty()) return fail(ErrorKind::invalid, what + ": exec has no command");
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1")
    return fail(ErrorKind::invalid,
                fmt::format("{}: exec has apiVersion \"{}\"; client.authentication.k8s.io/v1 and v1beta1 are known",
                            what, plugin.api_version));
  if (text_at(exec, "interactiveMode") == "Always")
    return fail(
        ErrorKind::invalid,
        what + ": exec has interactiveMode Always, but nobody can type here; use a plugin that needs no terminal");
  config.credentials = exec_plugin(std::move(plugin));
  return {};
}

Result<void> read_user(const Entry& entry, const std::string& name, ClusterConfig& config) {
  const std::string what = fmt::format("{}: user {}", config.origin, name);
  auto cert = material(entry, "client-certificate", what), key = material(entry, "client-key", what);
  if (!cert) return std::unexpected(cert.error());
  if (!key) return std::unexpected(key.error());
  if (cert->empty() != key->empty())
    return fail(ErrorKind::invalid,
                fmt::format("{} has a client {} without its {}", what, cert->empty() ? "key" : "certificate",
                            cert->empty() ? "certificate" : "key"));
  if (!cert->empty())
    if (auto good = check_certificates(*cert, what + ": client-certificate"); !good) return good;
  config.tls.client_cert_pem = std::move(*cert);
  config.tls.client_key_pem = std::move(*key);
  config.impersonate_user = text_at(entry.body, "as");
  if (entry.body.IsMap() && entry.body["as-groups"] && entry.body["as-groups"].IsSequence())
    for (const auto& group : entry.body["as-groups"]) config.impersonate_groups.push_back(text_of(group));
  if (!text_at(entry.body, "username").empty() || (entry.body.IsMap() && entry.body["auth-provider"]))
    return fail(ErrorKind::invalid, what +
                                        " uses a password or auth-provider, which Kubernetes no longer serves; use a "
                                        "token, certificate or exec plugin");
  const std::string file = text_at(entry.body, "tokenFile"), token = text_at(entry.body, "token");
  if (!file.empty()) {
    config.credentials = token_file((entry.folder / file).string());
    if (auto readable = config.credentials->current(Duration{0}, {}); !readable) {
      Error error = readable.error();
      error.message = what + ": " + error.message;
      return std::unexpected(error);
    }
    config.credentials->drop();
  } else if (!token.empty()) {
    config.credentials = static_token(token);
  } else if (entry.body.IsMap() && entry.body["exec"]) {
    return read_exec_user(entry, what, config);
  }
  return {};
}

Result<ClusterConfig> resolve(const Merged& merged, const std::string& context_name, const std::string& files) {
  ClusterConfig config;
  config.origin = "kubeconfig " + files;
  if (context_name.empty())
    return fail(ErrorKind::invalid, fmt::format("{}: no current-context is set; choose one of: {}", config.origin,
                                                names_of(merged.contexts)));
  const auto context = pick(merged.contexts, context_name, "context", config.origin);
  if (!context) return std::unexpected(context.error());
  config.origin += ", context " + context_name;
  const YAML::Node& body = (*context)->body;
  const auto cluster_name = text_at(body, "cluster"), user_name = text_at(body, "user");
  const auto cluster = pick(merged.clusters, cluster_name, "cluster", config.origin);
  if (!cluster) return std::unexpected(cluster.error());
  if (auto read = read_cluster(**cluster, cluster_name, config); !read) return std::unexpected(read.error());
  if (!user_name.empty()) {
    const auto user = pick(merged.users, user_name, "user", config.origin);
    if (!user) return std::unexpected(user.error());
    if (auto read = read_user(**user, user_name, config); !read) return std::unexpected(read.error());
  }
  if (const auto ns = text_at(body, "namespace"); !ns.empty()) config.ns = ns;
  return config;
}

}  // namespace

std::shared_ptr<CredentialSource> static_token(std::string token) {
  return std::make_shared<StaticToken>(trimmed(std::move(token)));
}
std::shared_ptr<CredentialSource> token_file(std::string path) { return std::make_shared<TokenFile>(std::move(path)); }
std::shared_ptr<CredentialSource> exec_plugin(ExecPlugin plugin) {
  return std::make_shared<ExecCredential>(std::move(plugin));
}

Result<ClusterConfig> load_kubeconfig(const KubeconfigOptions& options) {
  Merged merged;
  std::string files, missing;
  for (const auto& path : paths_of(options)) {
    const auto read = merge_file(path, merged);
    if (!read && read.error().kind == ErrorKind::not_found) {  // as kubectl does: a missing file of the list is skipped
      missing += (missing.empty() ? "" : ", ") + path;
      continue;
    }
    if (!read) return std::unexpected(read.error());
    files += (files.empty() ? "" : ":") + path;
  }
  if (files.empty())
    return fail(
        ErrorKind::not_found,
        fmt::format(
            "there is no kubeconfig at {}; name one with --kubeconfig or $KUBECONFIG, or bring a cluster up first",
            missing));
  return resolve(merged, options.context.empty() ? merged.current_context : options.context, files);
}

Result<ClusterConfig> load_in_cluster(std::string_view service_account_dir) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST"), port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty())
    return fail(ErrorKind::not_found, "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  const std::string folder(service_account_dir);
  ClusterConfig config;
  config.origin = "the pod's service account";
  const bool is_v6 = host.find(':') != host.npos;
  config.server = fmt::format("https://{}:{}", is_v6 ? "[" + host + "]" : host, port);
  auto ca = read_file(folder + "/ca.crt", "the service account's CA");
  if (!ca) return std::unexpected(ca.error());
  if (auto good = check_certificates(*ca, folder + "/ca.crt"); !good) return std::unexpected(good.error());
  config.tls.ca_pem = std::move(*ca);
  config.credentials = token_file(folder + "/token");
  if (auto readable = config.credentials->current(Duration{0}, {}); !readable) return std::unexpected(readable.error());
  config.credentials->drop();
  if (const auto ns = read_file(folder + "/namespace", "the service account's namespace")) config.ns = trimmed(*ns);
  return config;
}

Result<ClusterConfig> load_cluster_config(const KubeconfigOptions& options) {
  if (options.paths.empty() && options.context.empty()) {
    auto in_cluster = load_in_cluster();
    if (in_cluster || in_cluster.error().kind != ErrorKind::not_found ||
        !environment("KUBERNETES_SERVICE_HOST").empty())
      return in_cluster;
  }
  return load_kubeconfig(options);
}

}  // namespace homeostat::kube
