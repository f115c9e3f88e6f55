// The transport against a real server of ours on loopback: what ends well, and each way in which it ends badly.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "io/http.hpp"
#include "io/http_server.hpp"
#include "io/tls.hpp"

using namespace homeostat;
using namespace homeostat::io;

namespace {

std::unique_ptr<HttpServer> serve(const HttpServerOptions& options, HttpServer::Handler handler) {
  auto server = HttpServer::start(options, std::move(handler));
  REQUIRE(server.has_value());
  return std::move(*server);
}

std::string url(const HttpServer& server, std::string_view path, std::string_view scheme = "http") {
  return std::string(scheme) + "://127.0.0.1:" + std::to_string(server.port()) + std::string(path);
}

}  // namespace

TEST_CASE("a request carries its method, headers and body, and the answer comes back whole") {
  auto server = serve({}, [](const ServerRequest& request) {
    ServerResponse response;
    response.status = 201;
    response.headers.emplace_back("X-Seen", std::string(request.header("x-sent")));
    response.body = request.method + " " + request.path + " " + request.body;
    return response;
  });
  auto transport = make_curl_transport({});
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"}) {
    const auto response = transport->send(
        {.method = method, .url = url(*server, "/a/b"), .headers = {{"X-Sent", "yes"}}, .body = "hello"}, {});
    REQUIRE(response.has_value());
    CHECK(response->status == 201);
    CHECK(response->header("x-seen") == "yes");
    CHECK(response->body == std::string(method) + " /a/b hello");
  }
}

TEST_CASE("nobody there, a name that does not resolve, a bad address: each a sentence and a kind") {
  auto transport = make_curl_transport({});
  const auto refused = transport->send({.url = "http://127.0.0.1:1/x?token=secret"}, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::unreachable);
  CHECK(refused.error().message.find("is the server running?") != std::string::npos);
  CHECK(refused.error().message.find("secret") == std::string::npos);
  const auto bad = transport->send({.url = "ftp://127.0.0.1/x"}, {});
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().kind == ErrorKind::invalid);
}

TEST_CASE("a server that is too slow is a timeout: the outcome of a write is then unknown") {
  auto server = serve({}, [](const ServerRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return ServerResponse{};
  });
  const auto response = make_curl_transport({})->send(
      {.method = "POST", .url = url(*server, "/"), .body = "x", .timeout = Duration{80}}, {});
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().kind == ErrorKind::timeout);
}

TEST_CASE("a stop request ends a waiting call at once") {
  auto server = serve({}, [](const ServerRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return ServerResponse{};
  });
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  const auto response = make_curl_transport({})->send({.url = url(*server, "/")}, stop.get_token());
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().kind == ErrorKind::cancelled);
}

TEST_CASE("an answer beyond the bound is refused") {
  auto server = serve({}, [](const ServerRequest&) {
    ServerResponse response;
    response.body = std::string(10'000, 'x');
    return response;
  });
  const auto response = make_curl_transport({}, 1000)->send({.url = url(*server, "/")}, {});
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().kind == ErrorKind::invalid);
}

TEST_CASE("a stream hands over chunks until the reader has enough") {
  auto server = serve({}, [](const ServerRequest&) {
    ServerResponse response;
    auto count = std::make_shared<int>(0);
    response.stream = [count](const std::function<bool(std::string_view)>& write) {
      return write("line\n") && ++*count < 1000;
    };
    return response;
  });
  std::string seen;
  const auto response = make_curl_transport({})->stream({.url = url(*server, "/")}, Duration{2000},
                                                        [&](std::string_view chunk) {
                                                          seen += chunk;
                                                          return seen.size() < 50;
                                                        },
                                                        {});
  REQUIRE(response.has_value());
  CHECK(response->status == 200);
  CHECK(seen.starts_with("line\nline\n"));
}

TEST_CASE("TLS: trusted with the CA, refused without it, verified under another name on demand") {
  const auto ca = make_ca("test ca", std::chrono::hours(1));
  REQUIRE(ca.has_value());
  const auto cert = issue(
      *ca,
      {.common_name = "db.example", .dns_names = {"db.example"}, .server = true, .validity = std::chrono::hours(1)});
  REQUIRE(cert.has_value());
  auto server = serve({.cert_pem = cert->cert_pem, .key_pem = cert->key_pem},
                      [](const ServerRequest&) { return ServerResponse{}; });

  const auto named = make_curl_transport({.ca_pem = ca->cert_pem, .server_name = "db.example"})
                         ->send({.url = url(*server, "/", "https")}, {});
  CHECK(named.has_value());
  const auto wrong_name = make_curl_transport({.ca_pem = ca->cert_pem})->send({.url = url(*server, "/", "https")}, {});
  REQUIRE_FALSE(wrong_name.has_value());
  CHECK(wrong_name.error().kind == ErrorKind::invalid);
  const auto untrusted =
      make_curl_transport({.server_name = "db.example"})->send({.url = url(*server, "/", "https")}, {});
  REQUIRE_FALSE(untrusted.has_value());
  CHECK(untrusted.error().message.find("not trusted") != std::string::npos);
  CHECK(make_curl_transport({.insecure_skip_verify = true})->send({.url = url(*server, "/", "https")}, {}).has_value());
}
