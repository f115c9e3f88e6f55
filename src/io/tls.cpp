#include "io/tls.hpp"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace homeostat::io {
namespace {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Deleter<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using BigNumber = std::unique_ptr<BIGNUM, Deleter<BN_free>>;

constexpr long backdate_s = 300;

std::unexpected<Error> openssl_error(std::string what) {
  char text[256] = "no detail";
  if (unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return fail(ErrorKind::internal, std::move(what) + ": " + text);
}

std::string take(BIO* bio) {
  char* data = nullptr;
  long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

Result<std::string> key_text(EVP_PKEY* key) {
  Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return openssl_error("cannot write a private key as PEM");
  return take(bio.get());
}

Result<std::string> cert_text(X509* cert) {
  Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), cert) != 1) return openssl_error("cannot write a certificate as PEM");
  return take(bio.get());
}

Result<Key> new_key() {
  Key key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("cannot make an EC P-256 key");
  return key;
}

bool add_extension(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension && X509_add_ext(cert, extension.get(), -1) == 1;
}

bool add_name(X509_NAME* name, const char* field, std::string_view value) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

// Version, random 127-bit serial number, validity and public key: what every certificate has.
Result<Cert> blank(EVP_PKEY* key, std::chrono::hours validity) {
  Cert cert(X509_new());
  BigNumber serial(BN_new());
  if (!cert || !serial || BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(cert.get())) == nullptr ||
      X509_set_version(cert.get(), X509_VERSION_3) != 1 ||
      X509_gmtime_adj(X509_getm_notBefore(cert.get()), -backdate_s) == nullptr ||
      X509_time_adj_ex(X509_getm_notAfter(cert.get()), static_cast<int>(validity.count() / 24),
                       static_cast<long>(validity.count() % 24) * 3600, nullptr) == nullptr ||
      X509_set_pubkey(cert.get(), key) != 1)
    return openssl_error("cannot prepare a certificate");
  return cert;
}

// A name that holds a separator of OpenSSL's configuration syntax would smuggle in further names.
Result<std::string> alternative_names(const CertificateSpec& spec) {
  std::string text;
  auto add = [&text](std::string_view kind, const std::string& value) {
    std::string_view separators = kind == "DNS:" ? ",;:\n\r " : ",;\n\r ";  // an IPv6 address holds colons
    if (value.empty() || value.find_first_of(separators) != std::string::npos) return false;
    text.append(text.empty() ? "" : ",").append(kind).append(value);
    return true;
  };
  for (const auto& name : spec.dns_names)
    if (!add("DNS:", name)) return fail(ErrorKind::invalid, "'" + name + "' is not a DNS name for a certificate");
  for (const auto& ip : spec.ips)
    if (!add("IP:", ip)) return fail(ErrorKind::invalid, "'" + ip + "' is not an IP address for a certificate");
  return text;
}

Result<KeyPair> finish(Cert cert, EVP_PKEY* own_key, EVP_PKEY* signing_key) {
  if (X509_sign(cert.get(), signing_key, EVP_sha256()) == 0) return openssl_error("cannot sign a certificate");
  auto cert_pem = cert_text(cert.get());
  if (!cert_pem) return std::unexpected(cert_pem.error());
  auto key_pem = key_text(own_key);
  if (!key_pem) return std::unexpected(key_pem.error());
  return KeyPair{std::move(*cert_pem), std::move(*key_pem)};
}

bool add_usage(X509* cert, X509* issuer, const CertificateSpec& spec) {
  std::string usage = spec.server ? "serverAuth" : "";
  if (spec.client) usage += usage.empty() ? "clientAuth" : ",clientAuth";
  return add_extension(cert, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(cert, issuer, NID_key_usage, "critical,digitalSignature") &&
         (usage.empty() || add_extension(cert, issuer, NID_ext_key_usage, usage)) &&
         add_extension(cert, issuer, NID_authority_key_identifier, "keyid");
}

}  // namespace

Result<KeyPair> make_ca(std::string_view common_name, std::chrono::hours validity) {
  auto key = new_key();
  if (!key) return std::unexpected(key.error());
  auto cert = blank(key->get(), validity);
  if (!cert) return std::unexpected(cert.error());
  X509* c = cert->get();
  X509_NAME* name = X509_get_subject_name(c);
  if (!add_name(name, "CN", common_name) || X509_set_issuer_name(c, name) != 1 ||
      !add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE") ||
      !add_extension(c, c, NID_key_usage, "critical,keyCertSign,cRLSign,digitalSignature") ||
      !add_extension(c, c, NID_subject_key_identifier, "hash"))
    return openssl_error("cannot make a CA");
  return finish(std::move(*cert), key->get(), key->get());
}

Result<KeyPair> issue(const KeyPair& ca, const CertificateSpec& spec) {
  Bio cert_bio(BIO_new_mem_buf(ca.cert_pem.data(), static_cast<int>(ca.cert_pem.size())));
  Bio key_bio(BIO_new_mem_buf(ca.key_pem.data(), static_cast<int>(ca.key_pem.size())));
  Cert ca_cert(cert_bio ? PEM_read_bio_X509(cert_bio.get(), nullptr, nullptr, nullptr) : nullptr);
  Key ca_key(key_bio ? PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!ca_cert || !ca_key) return openssl_error("the CA's certificate or key cannot be read as PEM");
  auto names = alternative_names(spec);
  if (!names) return std::unexpected(names.error());

  auto key = new_key();
  if (!key) return std::unexpected(key.error());
  auto cert = blank(key->get(), spec.validity);
  if (!cert) return std::unexpected(cert.error());
  X509* c = cert->get();
  X509_NAME* subject = X509_get_subject_name(c);
  bool ok = true;
  for (const auto& organization : spec.organizations) ok = ok && add_name(subject, "O", organization);
  ok = ok && add_name(subject, "CN", spec.common_name) &&
       X509_set_issuer_name(c, X509_get_subject_name(ca_cert.get())) == 1 && add_usage(c, ca_cert.get(), spec) &&
       (names->empty() || add_extension(c, ca_cert.get(), NID_subject_alt_name, *names));
  if (!ok) return openssl_error("cannot make a certificate for '" + spec.common_name + "'");
  return finish(std::move(*cert), key->get(), ca_key.get());
}

Result<std::string> make_private_key() {
  auto key = new_key();
  if (!key) return std::unexpected(key.error());
  return key_text(key->get());
}

Result<std::string> public_key(std::string_view private_key_pem) {
  Bio from(BIO_new_mem_buf(private_key_pem.data(), static_cast<int>(private_key_pem.size()))), to(BIO_new(BIO_s_mem()));
  Key key(from ? PEM_read_bio_PrivateKey(from.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!key || !to || PEM_write_bio_PUBKEY(to.get(), key.get()) != 1)
    return openssl_error("the private key cannot be read as PEM");
  return take(to.get());
}

}  // namespace homeostat::io
