#include "io/http_server.hpp"

#include <doctest/doctest.h>

#include "io/process.hpp"
#include "io/tls.hpp"

using namespace homeostat;
using namespace std::chrono_literals;

namespace {
io::ServerResponse echo(const io::ServerRequest& request) {
  if (request.path == "/throw") throw std::runtime_error("secret detail");
  io::ServerResponse response;
  response.status = request.method == "POST" ? 201 : 200;
  response.body = request.method + " " + request.path + " " + std::string(request.query_value("q")) + " " +
                  std::string(request.header("x-one")) + " " + request.body;
  if (request.path == "/stream") {
    response.stream = [n = 0](const auto& write) mutable {
      const bool wrote = write("chunk" + std::to_string(n) + "\n");
      ++n;
      return wrote && n < 3;
    };
  }
  return response;
}

// curl the program is an independent client; --max-time bounds each call.
std::string curl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"curl", "-s", "--max-time", "5"});
  auto result = io::run(arguments);
  REQUIRE(result);
  return result->out;
}
}  // namespace

TEST_CASE("requests reach the handler whole and answers come back") {
  auto server = io::HttpServer::start({.max_body_bytes = 1000}, echo);
  REQUIRE(server);
  std::string base = "http://127.0.0.1:" + std::to_string((*server)->port());
  CHECK(curl({"-H", "X-One: two", base + "/a%20b?q=1%262"}) == "GET /a b 1&2 two ");
  CHECK(curl({"-w", " %{http_code}", "-d", "body", base + "/p"}) == "POST /p   body 201");
  CHECK(curl({"-X", "DELETE", base + "/d"}) == "DELETE /d   ");
  CHECK(curl({base + "/stream"}) == "chunk0\nchunk1\nchunk2\n");
  CHECK(curl({"-o", "/dev/null", "-w", "%{http_code}", "-d", std::string(2000, 'x'), base + "/p"}) == "413");
  auto thrown = curl({"-w", "%{http_code}", base + "/throw"});
  CHECK(thrown.ends_with("500"));
  CHECK(thrown.find("secret") == std::string::npos);

  auto second = io::HttpServer::start({.port = (*server)->port()}, echo);
  REQUIRE_FALSE(second);
  CHECK(second.error().kind == ErrorKind::already_exists);
}

TEST_CASE("TLS: trusted by those who trust the CA, refused by others") {
  auto ca = io::make_ca("test", 24h);
  auto cert = io::issue(*ca, {.common_name = "server", .ips = {"127.0.0.1"}, .server = true});
  REQUIRE(cert);
  auto server = io::HttpServer::start({.cert_pem = cert->cert_pem, .key_pem = cert->key_pem}, echo);
  REQUIRE(server);
  std::string url = "https://127.0.0.1:" + std::to_string((*server)->port()) + "/x";
  auto trusted = io::run({"curl", "-s", "--max-time", "5", "--cacert", "/dev/stdin", url}, {.input = ca->cert_pem});
  REQUIRE(trusted);
  CHECK(trusted->out == "GET /x   ");
  auto refused = io::run({"curl", "-s", "--max-time", "5", url});
  REQUIRE(refused);
  CHECK(refused->status.code == 60);

  auto mismatch = io::HttpServer::start({.cert_pem = ca->cert_pem, .key_pem = cert->key_pem}, echo);
  REQUIRE_FALSE(mismatch);
  CHECK(mismatch.error().kind == ErrorKind::invalid);
}

TEST_CASE("secrets are compared whole") {
  CHECK(io::equal_secrets("abc", "abc"));
  CHECK_FALSE(io::equal_secrets("abc", "abd"));
  CHECK_FALSE(io::equal_secrets("abc", "abcd"));
  CHECK_FALSE(io::equal_secrets("", "a"));
}
