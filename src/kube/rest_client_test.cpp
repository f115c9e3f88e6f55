// The client over a real connection: what goes out on the wire, and watches cut anywhere.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <mutex>
#include <thread>

#include "io/http_server.hpp"
#include "kube/connect.hpp"
#include "kube/meta.hpp"

using namespace homeostat;
using namespace homeostat::kube;

namespace {

io::SystemClock clock_;
io::SystemRandom random_;

struct Server {
  explicit Server(io::HttpServer::Handler handler) : http(std::move(*io::HttpServer::start({}, std::move(handler)))) {}
  std::unique_ptr<Client> client() const {
    return make_client({.server = fmt::format("http://127.0.0.1:{}", http->port())}, nullptr, clock_, random_,
                       {.user_agent = "homeostat-test/1 (unit)"});
  }
  std::unique_ptr<io::HttpServer> http;
};

}  // namespace

TEST_CASE("an apply carries one content type, its manager and who is asking") {
  std::mutex mutex;
  io::ServerRequest seen;
  const Server server([&](const io::ServerRequest& request) {
    std::lock_guard lock(mutex);
    seen = request;
    return io::ServerResponse{.body = "{}", .headers = {}};
  });
  Object body = new_object(resources::config_maps, "ns", "name");
  body["metadata"].get_object()["managedFields"] = boost::json::array{1};
  REQUIRE(server.client()
              ->apply(resources::config_maps, "ns", "name", body,
                      {.field_manager = "a&b", .force = true, .subresource = "status"})
              .has_value());
  CHECK(seen.method == "PATCH");
  CHECK(seen.path == "/api/v1/namespaces/ns/configmaps/name/status");
  CHECK(seen.query_value("fieldManager") == "a&b");
  CHECK(seen.query_value("force") == "true");
  CHECK(seen.header("user-agent") == "homeostat-test/1 (unit)");
  CHECK(seen.body.find("managedFields") == std::string::npos);
  int types = 0;
  for (const auto& [name, value] : seen.headers) types += name == "content-type";
  CHECK(types == 1);
  CHECK(seen.header("content-type") == "application/apply-patch+yaml");
}

TEST_CASE("a watch whose chunks are cut anywhere gives whole events, at once") {
  const std::string line = R"({"type":"MODIFIED","object":{"metadata":{"name":"näme","resourceVersion":"7"}}})"
                           "\n";
  const Server server([&](const io::ServerRequest&) {
    io::ServerResponse response;
    auto sent = std::make_shared<size_t>(0);
    response.stream = [sent, line](const std::function<bool(std::string_view)>& write) {
      const std::string all =
          line + line +
          R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})"
          "\n";
      const size_t step = std::min<size_t>(7, all.size() - *sent);
      if (!write(std::string_view(all).substr(*sent, step))) return false;
      *sent += step;
      return *sent < all.size();
    };
    return response;
  });
  int events = 0;
  const auto ended =
      server.client()->watch(resources::pods, "", {.resource_version = "1"},
                             [&](WatchEvent&& event) {
                               events += name_of(event.object) == "näme" && resource_version_of(event.object) == "7";
                               return true;
                             },
                             {});
  CHECK(events == 2);
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().kind == ErrorKind::gone);
}

TEST_CASE("statuses become kinds") {
  struct Case {
    int code;
    const char* body;
    ErrorKind kind;
  };
  const Case cases[] = {
      {409, R"({"reason":"AlreadyExists"})", ErrorKind::already_exists},
      {409, R"({"reason":"Conflict"})", ErrorKind::conflict},
      {422, R"({"reason":"Invalid"})", ErrorKind::invalid},
      {404, "not json", ErrorKind::not_found},
      {403, "", ErrorKind::forbidden},
      {401, "", ErrorKind::unauthorized},
      {410, R"({"reason":"Expired"})", ErrorKind::gone},
      {500, "", ErrorKind::unavailable},
      {429, R"({"details":{"causes":[{"reason":"DisruptionBudget"}]}})", ErrorKind::disruption_budget},
      {302, "", ErrorKind::internal},
  };
  for (const auto& [code, body, kind] : cases) {
    CAPTURE(code);
    const Server server([&, code = code, body = body](const io::ServerRequest&) {
      return io::ServerResponse{.status = code, .body = body, .headers = {}};
    });
    const auto result = server.client()->create(resources::pods, "ns", {});
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().kind == kind);
    CHECK(result.error().message.starts_with("POST /api/v1/namespaces/ns/pods: "));
  }
}

TEST_CASE("a stop request ends a silent watch at once") {
  const Server server([](const io::ServerRequest&) {
    io::ServerResponse response;
    response.stream = [](const std::function<bool(std::string_view)>& write) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return write("\n");
    };
    return response;
  });
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto ended =
      server.client()->watch(resources::pods, "", {}, [](WatchEvent&&) { return true; }, stop.get_token());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().kind == ErrorKind::cancelled);
}
