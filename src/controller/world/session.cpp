#include "controller/world/session.hpp"

#include "io/http.hpp"
#include "io/json.hpp"
#include "io/jwt.hpp"

namespace homeostat::controller {

namespace {

// One entry of a Secret's data. Its bytes never go into a message.
Result<std::string> secret_value(const kube::Object& secret, std::string_view key) {
  const std::string name = io::string_at(secret, {"metadata", "name"});
  std::string encoded = io::string_at(secret, {"data", key});
  if (encoded.empty()) return fail(ErrorKind::not_found, "Secret " + name + " has no key " + std::string(key));
  auto decoded = io::base64_decode(encoded);
  if (!decoded) return fail(ErrorKind::invalid, "key " + std::string(key) + " of Secret " + name + " is not base64");
  return decoded;
}

Result<std::string> read_secret(kube::Client& client, std::string_view ns, std::string_view name,
                                std::string_view key) {
  auto secret = client.get(kube::resources::secrets, ns, name);
  if (!secret) return std::unexpected(secret.error());
  return secret_value(*secret, key);
}

}  // namespace

Result<slurm::Client*> Session::slurm(std::string_view workers) {
  if (auto known = slurm_.find(workers); known != slurm_.end()) return known->second.get();
  auto made = connectors_.slurm(*kube_, workers);
  if (!made) return std::unexpected(made.error());
  return slurm_.emplace(std::string(workers), std::move(*made)).first->second.get();
}

Result<provider::Provider*> Session::provider(const api::NodePool& pool) {
  if (auto known = providers_.find(pool.name); known != providers_.end()) return known->second.get();
  auto made = connectors_.provider(*kube_, pool);
  if (!made) return std::unexpected(made.error());
  return providers_.emplace(pool.name, std::move(*made)).first->second.get();
}

void Session::forget_slurm(std::string_view workers) {
  if (auto known = slurm_.find(workers); known != slurm_.end()) slurm_.erase(known);
}

void Session::forget_provider(std::string_view pool) {
  if (auto known = providers_.find(pool); known != providers_.end()) providers_.erase(known);
}

Sessions::Lent Sessions::lend() {
  std::unique_ptr<Session> session;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) session = std::move(idle_.back()), idle_.pop_back();
  }
  if (session == nullptr) session = std::make_unique<Session>(connectors_);
  return Lent(session.release(), [this](Session* back) {
    std::lock_guard lock(mutex_);
    idle_.emplace_back(back);
  });
}

Result<WorkersLabel> parse_workers_label(std::string_view text) {
  auto first = text.find('.');
  auto last = text.rfind('.');
  bool good =
      first != std::string_view::npos && first != last && first > 0 && last + 1 < text.size() && last > first + 1;
  if (!good)
    return fail(ErrorKind::invalid, "\"" + std::string(text) + "\" is not <namespace>.<cluster>.<worker group>");
  return WorkersLabel{std::string(text.substr(0, first)), std::string(text.substr(first + 1, last - first - 1)),
                      std::string(text.substr(last + 1))};
}

SlurmConnector make_slurm_connector(const io::Clock& clock, std::stop_token stop) {
  return [&clock, stop](kube::Client& kube, std::string_view workers) -> Result<std::unique_ptr<slurm::Client>> {
    auto label = parse_workers_label(workers);
    if (!label) return std::unexpected(label.error());
    auto key = read_secret(kube, label->ns, label->cluster + "-keys", "jwt.key");
    if (!key) return std::unexpected(key.error());
    auto ca = read_secret(kube, label->ns, label->cluster + "-rest-tls", "ca.crt");
    if (!ca) return std::unexpected(ca.error());
    std::string host = label->cluster + "-rest." + label->ns + ".svc";
    io::TlsOptions tls;
    tls.ca_pem = *ca;
    tls.server_name = host;
    slurm::RestOptions options;
    options.jwt_key = *key;
    // The Service's address rather than its name: no detour over DNS, and a controller outside of the cluster's DNS
    // works too.
    auto service = kube.get(kube::resources::services, label->ns, label->cluster + "-rest");
    if (!service) return std::unexpected(service.error());
    std::string address = io::string_at(*service, {"spec", "clusterIP"});
    if (address.empty() || address == "None") {
      options.base_url = "https://" + host + ":6820";
      tls.server_name.clear();
    } else {
      options.base_url =
          address.find(':') == std::string::npos ? "https://" + address + ":6820" : "https://[" + address + "]:6820";
    }
    return slurm::make_rest_client(std::move(options), io::make_curl_transport(std::move(tls)), clock, stop);
  };
}

ProviderConnector make_provider_connector(std::stop_token stop) {
  return [stop](kube::Client& kube, const api::NodePool& pool) -> Result<std::unique_ptr<provider::Provider>> {
    if (pool.provider.type != "local")
      return fail(ErrorKind::invalid,
                  "provider type " + pool.provider.type + " is not served by this version: use local");
    auto secret = kube.get(kube::resources::secrets, pool.provider.secret_namespace, pool.provider.secret_name);
    if (!secret) return std::unexpected(secret.error());
    auto token = secret_value(*secret, "token");
    auto ca = secret_value(*secret, "ca.crt");
    auto endpoint = pool.provider.endpoint.empty() ? secret_value(*secret, "endpoint")
                                                   : Result<std::string>(pool.provider.endpoint);
    for (const auto* value : {&token, &ca, &endpoint})
      if (!*value) return std::unexpected(value->error());
    // The token goes over this connection: it must be one that nobody can listen to.
    if (!endpoint->starts_with("https://"))
      return fail(ErrorKind::invalid, "the provider's endpoint must begin with https://");
    io::TlsOptions tls;
    tls.ca_pem = *ca;
    return provider::make_local_provider({*endpoint, *token}, io::make_curl_transport(std::move(tls)), stop);
  };
}

}  // namespace homeostat::controller
