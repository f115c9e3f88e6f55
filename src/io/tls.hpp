// Keys and certificates: EC P-256 keys, a CA, and certificates that it signs. Pure computation in memory: nothing is
// read from or written to disk, and no text of a key ever goes into an Error. Safe from any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace homeostat::io {

// PEM texts. A cert_pem that issue() makes holds the certificate alone; the CA's is handed out beside it.
struct KeyPair {
  std::string cert_pem = {};
  std::string key_pem = {};  // PKCS#8
};

struct CertificateSpec {
  std::string common_name = {};
  std::vector<std::string> organizations = {};
  std::vector<std::string> dns_names = {};
  std::vector<std::string> ips = {};
  bool server = false;  // may prove a server's name
  bool client = false;  // may prove a client's identity
  std::chrono::hours validity{24 * 365};
};

// A self-signed CA that may sign certificates and nothing else.
Result<KeyPair> make_ca(std::string_view common_name, std::chrono::hours validity);

// Valid from five minutes ago, so that a clock that is a little behind accepts it.
Result<KeyPair> issue(const KeyPair& ca, const CertificateSpec& spec);

// A bare EC P-256 private key, PKCS#8 PEM: what a token issuer signs with.
Result<std::string> make_private_key();

// Its public half ("BEGIN PUBLIC KEY"): what those need who only check.
Result<std::string> public_key(std::string_view private_key_pem);

}  // namespace homeostat::io
