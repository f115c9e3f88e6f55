#include "io/tls.hpp"

#include <doctest/doctest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

using namespace homeostat;
using namespace std::chrono_literals;

namespace {
std::shared_ptr<X509> parse(const std::string& pem) {
  std::shared_ptr<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free_all);
  return {PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free};
}

// What a peer would say of `cert` when it trusts `ca`, for `purpose`.
int verify(const std::string& ca, const std::string& cert, int purpose) {
  std::shared_ptr<X509_STORE> store(X509_STORE_new(), X509_STORE_free);
  X509_STORE_add_cert(store.get(), parse(ca).get());
  std::shared_ptr<X509_STORE_CTX> context(X509_STORE_CTX_new(), X509_STORE_CTX_free);
  auto leaf = parse(cert);
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_verify_cert(context.get());
  return X509_STORE_CTX_get_error(context.get());
}
}  // namespace

TEST_CASE("a certificate proves what its specification says, to those who trust its CA") {
  auto ca = io::make_ca("lab", 24h * 365);
  auto other = io::make_ca("other", 24h);
  REQUIRE(ca);
  REQUIRE(other);
  auto server = io::issue(*ca, {.common_name = "api",
                                .organizations = {"o1", "o2"},
                                .dns_names = {"api.local"},
                                .ips = {"10.77.0.2", "fd00::1"},
                                .server = true,
                                .validity = 48h});
  REQUIRE(server);
  CHECK(verify(ca->cert_pem, server->cert_pem, X509_PURPOSE_SSL_SERVER) == X509_V_OK);
  CHECK(verify(ca->cert_pem, server->cert_pem, X509_PURPOSE_SSL_CLIENT) == X509_V_ERR_INVALID_PURPOSE);
  CHECK(verify(other->cert_pem, server->cert_pem, X509_PURPOSE_SSL_SERVER) != X509_V_OK);
  auto cert = parse(server->cert_pem);
  CHECK(X509_check_host(cert.get(), "api.local", 0, 0, nullptr) == 1);
  CHECK(X509_check_host(cert.get(), "else.local", 0, 0, nullptr) == 0);
  CHECK(X509_check_ip_asc(cert.get(), "10.77.0.2", 0) == 1);
  CHECK(X509_check_ip_asc(cert.get(), "fd00::1", 0) == 1);
  CHECK(X509_check_ip_asc(cert.get(), "10.77.0.3", 0) == 0);
  time_t hour = 3600, soon = time(nullptr) + 47 * hour, later = time(nullptr) + 49 * hour;
  CHECK(X509_cmp_time(X509_get0_notAfter(cert.get()), &soon) > 0);
  CHECK(X509_cmp_time(X509_get0_notAfter(cert.get()), &later) < 0);

  auto client = io::issue(*ca, {.common_name = "someone", .client = true});
  REQUIRE(client);
  CHECK(verify(ca->cert_pem, client->cert_pem, X509_PURPOSE_SSL_CLIENT) == X509_V_OK);
  CHECK(verify(ca->cert_pem, client->cert_pem, X509_PURPOSE_SSL_SERVER) == X509_V_ERR_INVALID_PURPOSE);
}

TEST_CASE("names that would smuggle in other names and broken CAs are refused") {
  auto ca = io::make_ca("lab", 24h);
  REQUIRE(ca);
  for (const char* bad : {"a,DNS:evil", "", "a b", "a\nb", "a:b"}) {
    CAPTURE(bad);
    auto made = io::issue(*ca, {.common_name = "x", .dns_names = {bad}, .server = true});
    REQUIRE_FALSE(made);
    CHECK(made.error().kind == ErrorKind::invalid);
  }
  CHECK_FALSE(io::issue(*ca, {.common_name = "x", .ips = {"10.0.0.300"}, .server = true}));
  auto from_nothing = io::issue({"garbage", "garbage"}, {.common_name = "x"});
  REQUIRE_FALSE(from_nothing);
  CHECK(from_nothing.error().message.find("garbage") == std::string::npos);
}

TEST_CASE("private keys are PKCS#8 and differ") {
  auto a = io::make_private_key(), b = io::make_private_key();
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->starts_with("-----BEGIN PRIVATE KEY-----"));
  CHECK(*a != *b);
  auto shown = io::public_key(*a);
  REQUIRE(shown);
  CHECK(shown->starts_with("-----BEGIN PUBLIC KEY-----"));
  CHECK_FALSE(io::public_key("garbage"));
}
