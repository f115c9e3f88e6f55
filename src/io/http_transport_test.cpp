// The transport against a real server of ours on loopback: what ends well, and each way in which it ends badly.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

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

using MakeTransport = std::unique_ptr<HttpTransport> (*)(TlsOptions, size_t);

struct Maker {
  MakeTransport make;
  std::unique_ptr<HttpTransport> operator()(TlsOptions tls, size_t max_body_bytes = 64u << 20) const {
    return make(std::move(tls), max_body_bytes);
  }
};

}  // namespace

// The same contract for libcurl's transport and for the small one.
#define TRANSPORT_TEST_NAMED(function, name)                        \
  static void function(const Maker& make_transport);                \
  TEST_CASE(name ", libcurl") { function({make_curl_transport}); }  \
  TEST_CASE(name ", socket") { function({make_socket_transport}); } \
  static void function([[maybe_unused]] const Maker& make_transport)
#define TRANSPORT_TEST(name) TRANSPORT_TEST_NAMED(DOCTEST_ANONYMOUS(transport_test_), name)

TRANSPORT_TEST("a request carries its method, headers and body, and the answer comes back whole") {
  auto server = serve({}, [](const ServerRequest& request) {
    ServerResponse response;
    response.status = 201;
    response.headers.emplace_back("X-Seen", std::string(request.header("x-sent")));
    response.body = request.method + " " + request.path + " " + request.body;
    return response;
  });
  auto transport = make_transport({});
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"}) {
    const auto response = transport->send(
        {.method = method, .url = url(*server, "/a/b"), .headers = {{"X-Sent", "yes"}}, .body = "hello"}, {});
    REQUIRE(response.has_value());
    CHECK(response->status == 201);
    CHECK(response->header("x-seen") == "yes");
    CHECK(response->body == std::string(method) + " /a/b hello");
  }
}

TRANSPORT_TEST("nobody there, a name that does not resolve, a bad address: each a sentence and a kind") {
  auto transport = make_transport({});
  const auto refused = transport->send({.url = "http://127.0.0.1:1/x?token=secret"}, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::unreachable);
  CHECK(refused.error().message.find("is the server running?") != std::string::npos);
  CHECK(refused.error().message.find("secret") == std::string::npos);
  const auto bad = transport->send({.url = "ftp://127.0.0.1/x"}, {});
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().kind == ErrorKind::invalid);
}

TRANSPORT_TEST("a server that is too slow is a timeout: the outcome of a write is then unknown") {
  auto server = serve({}, [](const ServerRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return ServerResponse{};
  });
  const auto response =
      make_transport({})->send({.method = "POST", .url = url(*server, "/"), .body = "x", .timeout = Duration{80}}, {});
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().kind == ErrorKind::timeout);
}

TRANSPORT_TEST("a stop request ends a waiting call at once") {
  auto server = serve({}, [](const ServerRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return ServerResponse{};
  });
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  const auto response = make_transport({})->send({.url = url(*server, "/")}, stop.get_token());
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().kind == ErrorKind::cancelled);
}

TRANSPORT_TEST("an answer beyond the bound is refused") {
  auto server = serve({}, [](const ServerRequest&) {
    ServerResponse response;
    response.body = std::string(10'000, 'x');
    return response;
  });
  const auto response = make_transport({}, 1000)->send({.url = url(*server, "/")}, {});
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().kind == ErrorKind::invalid);
}

TRANSPORT_TEST("a stream hands over chunks until the reader has enough") {
  auto server = serve({}, [](const ServerRequest&) {
    ServerResponse response;
    auto count = std::make_shared<int>(0);
    response.stream = [count](const std::function<bool(std::string_view)>& write) {
      return write("line\n") && ++*count < 1000;
    };
    return response;
  });
  std::string seen;
  const auto response = make_transport({})->stream({.url = url(*server, "/")}, Duration{2000},
                                                   [&](std::string_view chunk) {
                                                     seen += chunk;
                                                     return seen.size() < 50;
                                                   },
                                                   {});
  REQUIRE(response.has_value());
  CHECK(response->status == 200);
  CHECK(seen.starts_with("line\nline\n"));
}

TRANSPORT_TEST("TLS: trusted with the CA, refused without it, verified under another name on demand") {
  const auto ca = make_ca("test ca", std::chrono::hours(1));
  REQUIRE(ca.has_value());
  const auto cert = issue(
      *ca,
      {.common_name = "db.example", .dns_names = {"db.example"}, .server = true, .validity = std::chrono::hours(1)});
  REQUIRE(cert.has_value());
  auto server = serve({.cert_pem = cert->cert_pem, .key_pem = cert->key_pem},
                      [](const ServerRequest&) { return ServerResponse{}; });

  const auto named = make_transport({.ca_pem = ca->cert_pem, .server_name = "db.example"})
                         ->send({.url = url(*server, "/", "https")}, {});
  CHECK(named.has_value());
  const auto wrong_name = make_transport({.ca_pem = ca->cert_pem})->send({.url = url(*server, "/", "https")}, {});
  REQUIRE_FALSE(wrong_name.has_value());
  CHECK(wrong_name.error().kind == ErrorKind::invalid);
  const auto untrusted = make_transport({.server_name = "db.example"})->send({.url = url(*server, "/", "https")}, {});
  REQUIRE_FALSE(untrusted.has_value());
  CHECK(untrusted.error().message.find("not trusted") != std::string::npos);
  CHECK(make_transport({.insecure_skip_verify = true})->send({.url = url(*server, "/", "https")}, {}).has_value());
}

TRANSPORT_TEST("a connection is kept, and one that the server has closed meanwhile is made anew") {
  std::atomic<int> served = 0;
  auto handler = [&](const ServerRequest&) {
    ++served;
    return ServerResponse{};
  };
  auto first = serve({}, handler);
  HttpServerOptions same;
  same.port = first->port();
  auto transport = make_transport({});
  const auto at = url(*first, "/");
  CHECK(transport->send({.url = at}, {}).has_value());
  CHECK(transport->send({.url = at}, {}).has_value());
  first.reset();
  auto second = serve(same, handler);
  CHECK(transport->send({.method = "PATCH", .url = at, .body = "x"}, {}).has_value());
  CHECK(served == 3);
}

TRANSPORT_TEST("garbage for an answer, an answer that breaks off and one without a length") {
  const auto answer_with = [&](const std::string& bytes) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(listener >= 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener, 4) == 0);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    std::jthread server([&] {
      for (int i = 0; i < 2; ++i) {  // a client may try once more
        const int peer = ::accept(listener, nullptr, nullptr);
        if (peer < 0) return;
        char request[4096];
        if (::read(peer, request, sizeof request) > 0) (void)!::write(peer, bytes.data(), bytes.size());
        ::close(peer);
      }
    });
    auto response =
        make_transport({})->send({.url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/"}, {});
    ::shutdown(listener, SHUT_RDWR);
    server.join();
    ::close(listener);
    return response;
  };
  CHECK_FALSE(answer_with("hello\r\n\r\n").has_value());
  CHECK_FALSE(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").has_value());
  CHECK_FALSE(answer_with("").has_value());
  CHECK(answer_with("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc")->body == "abc");
  CHECK(answer_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")
            ->body == "abcde");
}
