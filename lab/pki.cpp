#include "lab/pki.hpp"

#include "io/files.hpp"
#include "io/jwt.hpp"

namespace homeostat::lab {
namespace {

constexpr auto validity = std::chrono::hours(24 * 365 * 5);

}  // namespace

Result<Pki> Pki::open(const LabConfig& config) {
  auto folder = config.path("control-plane/pki");
  if (auto made = io::make_folders(folder, 0700); !made) return std::unexpected(made.error());
  auto cert = io::read_file(folder + "/ca.crt"), key = io::read_file(folder + "/ca.key");
  if (cert && key) return Pki(folder, {*cert, *key});
  auto ca = io::make_ca("homeostat-lab-ca", validity);
  if (!ca) return std::unexpected(ca.error());
  if (auto written = io::write_file(folder + "/ca.crt", ca->cert_pem); !written)
    return std::unexpected(written.error());
  if (auto written = io::write_file(folder + "/ca.key", ca->key_pem, 0600); !written)
    return std::unexpected(written.error());
  return Pki(folder, std::move(*ca));
}

Result<void> Pki::certificate(const std::string& path, const io::CertificateSpec& spec) const {
  if (io::exists(path + ".crt") && io::exists(path + ".key")) return {};
  auto wanted = spec;
  wanted.validity = validity;
  auto made = io::issue(ca_, wanted);
  if (!made) return std::unexpected(made.error());
  if (auto written = io::write_file(path + ".key", made->key_pem, 0600); !written) return written;
  return io::write_file(path + ".crt", made->cert_pem);
}

Result<void> Pki::kubeconfig(const LabConfig& config, const std::string& path, std::string_view user,
                             std::string_view group) const {
  if (io::exists(path)) return {};
  io::CertificateSpec spec;
  spec.common_name = user;
  if (!group.empty()) spec.organizations.emplace_back(group);
  spec.client = true;
  spec.validity = validity;
  auto made = io::issue(ca_, spec);
  if (!made) return std::unexpected(made.error());
  std::string text =
      "apiVersion: v1\nkind: Config\nclusters:\n- name: lab\n  cluster:\n    server: https://" +
      config.plan.control_plane() + ":" + std::to_string(api_port) +
      "\n    certificate-authority-data: " + io::base64_encode(ca_.cert_pem) +
      "\nusers:\n- name: user\n  user:\n    client-certificate-data: " + io::base64_encode(made->cert_pem) +
      "\n    client-key-data: " + io::base64_encode(made->key_pem) +
      "\ncontexts:\n- name: lab\n  context:\n    cluster: lab\n    user: user\ncurrent-context: lab\n";
  return io::write_file(path, text, 0600);
}

}  // namespace homeostat::lab
