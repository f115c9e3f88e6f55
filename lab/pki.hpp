// The lab's certificates: one CA, made once, and a certificate for each component under its own name. Files with keys
// are 0600.
#pragma once

#include <string>
#include <string_view>

#include "core/result.hpp"
#include "io/tls.hpp"
#include "lab/config.hpp"

namespace homeostat::lab {

class Pki {
 public:
  // Reads the CA of this lab, or makes it.
  static Result<Pki> open(const LabConfig& config);

  const std::string& ca_pem() const { return ca_.cert_pem; }
  std::string ca_path() const { return folder_ + "/ca.crt"; }
  std::string ca_key_path() const { return folder_ + "/ca.key"; }
  // Writes path.crt and path.key, unless both are there.
  Result<void> certificate(const std::string& path, const io::CertificateSpec& spec) const;
  // Writes a kubeconfig for that user, unless it is there.
  Result<void> kubeconfig(const LabConfig& config, const std::string& path, std::string_view user,
                          std::string_view group) const;

 private:
  Pki(std::string folder, io::KeyPair ca) : folder_(std::move(folder)), ca_(std::move(ca)) {}
  std::string folder_;
  io::KeyPair ca_;
};

}  // namespace homeostat::lab
