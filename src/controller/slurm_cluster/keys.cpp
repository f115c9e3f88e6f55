#include "controller/slurm_cluster/keys.hpp"

#include <fmt/core.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <vector>

#include "core/names.hpp"
#include "io/json.hpp"
#include "io/jwt.hpp"
#include "io/tls.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {
namespace {

using O = boost::json::object;

constexpr std::chrono::hours certificate_validity{24 * 365};
constexpr std::chrono::hours renew_before{24 * 30};
constexpr std::string_view not_after_annotation = "homeostat.dev/not-after";

using Data = std::vector<std::pair<std::string, std::string>>;

class Keys {
 public:
  Keys(kube::Client& client, const api::SlurmCluster& cluster, const kube::Object& owner, io::Random& random,
       TimePoint now)
      : client_(client),
        cluster_(cluster),
        owner_(kube::owner_reference(kube::resources::slurm_clusters, owner)),
        random_(random),
        now_(now) {}

  Result<void> slurm_keys() {
    return ensure("-keys", {"slurm.key", "jwt.key"}, [this]() -> Result<Data> {
      // auth/slurm wants 384 bits or more in base64; HS256 at least its hash's length.
      return Data{{"slurm.key", io::base64_encode(io::random_bytes(random_, 48)) + "\n"},
                  {"jwt.key", io::random_bytes(random_, 32)}};
    });
  }

  Result<void> host_keys() {
    return ensure("-login-hostkeys", {"ssh_host_ecdsa_key"}, []() -> Result<Data> {
      auto key = io::make_private_key();
      if (!key) return std::unexpected(key.error());
      return Data{{"ssh_host_ecdsa_key", *key}};
    });
  }

  Result<KeyStamps> certificate() {
    const std::string name = cluster_.name + "-rest-tls";
    const auto found = client_.get(kube::resources::secrets, cluster_.ns, name);
    if (!found && found.error().kind != ErrorKind::not_found) return std::unexpected(found.error());
    if (found) {
      const auto not_after = kube::annotation_of(*found, not_after_annotation);
      const auto end = parse_rfc3339(not_after);
      if (end && *end - now_ > renew_before) return KeyStamps{not_after};
    }
    const auto data = make_certificate();
    if (!data) return std::unexpected(data.error());
    const std::string not_after = format_rfc3339(now_ + certificate_validity);
    kube::Object body = secret(name, *data);
    body["metadata"].as_object()["annotations"] = O{{not_after_annotation, not_after}};
    if (found) body["metadata"].as_object()["resourceVersion"] = kube::resource_version_of(*found);
    const auto written = found ? client_.replace(kube::resources::secrets, cluster_.ns, name, body)
                               : client_.create(kube::resources::secrets, cluster_.ns, body);
    if (!written) return std::unexpected(written.error());
    return KeyStamps{not_after};
  }

 private:
  Result<Data> make_certificate() {
    const auto ca = io::make_ca("homeostat " + cluster_.ns + "/" + cluster_.name, certificate_validity);
    if (!ca) return std::unexpected(ca.error());
    const std::string host = rest_name(cluster_);
    io::CertificateSpec spec;
    spec.common_name = host;
    spec.dns_names = {host, host + "." + cluster_.ns, host + "." + cluster_.ns + ".svc",
                      host + "." + cluster_.ns + ".svc.cluster.local"};
    spec.server = true;
    spec.validity = certificate_validity;
    const auto pair = io::issue(*ca, spec);
    if (!pair) return std::unexpected(pair.error());
    return Data{{"ca.crt", ca->cert_pem}, {"tls.crt", pair->cert_pem}, {"tls.key", pair->key_pem}};
  }

  kube::Object secret(const std::string& name, const Data& data) const {
    kube::Object body = kube::new_object(kube::resources::secrets, cluster_.ns, name);
    auto& metadata = body["metadata"].as_object();
    metadata["labels"] = O{{names::cluster_label, cluster_.name}};
    metadata["ownerReferences"] = boost::json::array{owner_};
    O encoded;
    for (const auto& [key, value] : data) encoded[key] = io::base64_encode(value);
    body["data"] = std::move(encoded);
    return body;
  }

  Result<void> ensure(std::string_view suffix, const std::vector<std::string>& wanted,
                      const std::function<Result<Data>()>& make) {
    const std::string name = cluster_.name + std::string(suffix);
    const auto found = client_.get(kube::resources::secrets, cluster_.ns, name);
    if (found) {
      for (const auto& key : wanted)
        if (io::string_at(*found, {"data", key}).empty())
          return fail(ErrorKind::invalid,
                      fmt::format("Secret {}/{} has no {}: put it back, or delete the Secret to have new keys made "
                                  "(every daemon must then start anew)",
                                  cluster_.ns, name, key));
      return {};
    }
    if (found.error().kind != ErrorKind::not_found) return std::unexpected(found.error());
    const auto data = make();
    if (!data) return std::unexpected(data.error());
    const auto made = client_.create(kube::resources::secrets, cluster_.ns, secret(name, *data));
    if (!made && made.error().kind != ErrorKind::already_exists) return std::unexpected(made.error());
    return {};
  }

  kube::Client& client_;
  const api::SlurmCluster& cluster_;
  O owner_;
  io::Random& random_;
  TimePoint now_;
};

}  // namespace

Result<KeyStamps> ensure_keys(kube::Client& client, const api::SlurmCluster& cluster, const kube::Object& owner,
                              io::Random& random, TimePoint now) {
  Keys keys(client, cluster, owner, random, now);
  if (auto made = keys.slurm_keys(); !made) return std::unexpected(made.error());
  if (auto made = keys.host_keys(); !made) return std::unexpected(made.error());
  return keys.certificate();
}

}  // namespace homeostat::controller
