#include "provider/provider.hpp"

#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "io/json.hpp"
#include "provider/fake_provider.hpp"

using namespace homeostat;
using namespace homeostat::provider;

namespace {

MachineOrder order(std::string token, std::string name) {
  return {std::move(token), std::move(name), "pool", 8, {{"a", "b"}}, {"k=:NoSchedule"}};
}

// The local provider's server in memory: contracts.md over a FakeProvider.
class LabTransport final : public io::HttpTransport {
 public:
  explicit LabTransport(FakeProvider& world) : provider_(world.connect()) {}
  std::optional<io::HttpResponse> answer;  // instead of the real one
  io::HttpRequest last;

  Result<io::HttpResponse> send(const io::HttpRequest& request, std::stop_token) override {
    last = request;
    if (answer) return *answer;
    if (request.method == "GET") return list();
    if (request.method == "DELETE") {
      (void)provider_->remove(request.url.substr(request.url.rfind('/') + 1));
      return io::HttpResponse{202, {}, "{}"};
    }
    auto body = io::parse_json_object(request.body);
    MachineOrder wanted{io::string_at(*body, {"token"}),
                        io::string_at(*body, {"name"}),
                        io::string_at(*body, {"pool"}),
                        static_cast<int>(io::int_at(*body, {"gpus"})),
                        {},
                        {}};
    auto made = provider_->create(wanted);
    if (!made)
      return io::HttpResponse{
          made.error().kind == ErrorKind::unavailable ? 507 : 409, {}, R"({"error":{"code":"x","message":"told so"}})"};
    return io::HttpResponse{201, {}, io::to_text(json(*made))};
  }
  Result<io::HttpResponse> stream(const io::HttpRequest&, Duration, const std::function<bool(std::string_view)>&,
                                  std::stop_token) override {
    return fail(ErrorKind::internal, "not used");
  }

 private:
  static boost::json::object json(const Machine& machine) {
    return {{"name", machine.name},
            {"token", machine.token},
            {"pool", machine.pool},
            {"gpus", machine.gpus},
            {"state", "Running"}};
  }
  Result<io::HttpResponse> list() {
    boost::json::array machines;
    auto all = provider_->list();
    for (const Machine& machine : *all) machines.push_back(json(machine));
    return io::HttpResponse{200, {}, io::to_text(boost::json::object{{"machines", std::move(machines)}})};
  }
  std::unique_ptr<Provider> provider_;
};

// What every provider promises.
void conforms(Provider& provider, FakeProvider& world) {
  CHECK(provider.list()->empty());
  auto made = provider.create(order("t1", "pool-aaaaa"));
  REQUIRE(made);
  CHECK(made->name == "pool-aaaaa");
  // The same order again is the same machine; the same token for another is refused.
  REQUIRE(provider.create(order("t1", "pool-aaaaa")));
  CHECK(provider.list()->size() == 1);
  CHECK(provider.create(order("t1", "pool-bbbbb")).error().kind == ErrorKind::already_exists);
  CHECK(provider.create(order("t2", "pool-aaaaa")).error().kind == ErrorKind::already_exists);
  world.slots = 1;
  CHECK(provider.create(order("t3", "pool-ccccc")).error().kind == ErrorKind::unavailable);
  CHECK(provider.remove("pool-aaaaa"));
  CHECK(provider.remove("pool-aaaaa"));
  CHECK(provider.list()->empty());
}

}  // namespace

TEST_CASE("the fake provider conforms") {
  FakeProvider world;
  conforms(*world.connect(), world);
}

TEST_CASE("the local provider conforms") {
  FakeProvider world;
  auto provider = make_local_provider({"https://lab:1/", "secret"}, std::make_unique<LabTransport>(world));
  conforms(*provider, world);
}

TEST_CASE("the local provider proves who it is, and keeps the secret out of its errors") {
  FakeProvider world;
  auto transport = std::make_unique<LabTransport>(world);
  LabTransport& wire = *transport;
  auto provider = make_local_provider({"https://lab:1/", "secret"}, std::move(transport));
  REQUIRE(provider->list());
  CHECK(wire.last.url == "https://lab:1/v1/machines");
  CHECK(wire.last.headers.front() == std::pair<std::string, std::string>{"Authorization", "Bearer secret"});
  wire.answer = io::HttpResponse{401, {}, "<html>"};
  auto refused = provider->list();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::unauthorized);
  CHECK(refused.error().message.find("secret") == std::string::npos);
}

TEST_CASE("an answer that makes no sense is an error, never an empty list") {
  FakeProvider world;
  auto transport = std::make_unique<LabTransport>(world);
  LabTransport& wire = *transport;
  auto provider = make_local_provider({"https://lab:1", "secret"}, std::move(transport));
  for (const char* body : {"", "{}", "[]", R"({"machines":7})", "not json"}) {
    wire.answer = io::HttpResponse{200, {}, body};
    CAPTURE(body);
    CHECK_FALSE(provider->list());
    CHECK_FALSE(provider->create(order("t", "pool-aaaaa")));
  }
  wire.answer = io::HttpResponse{507, {}, R"({"error":{"code":"full","message":"the disk is full"}})"};
  CHECK(provider->create(order("t", "pool-aaaaa")).error().message.find("the disk is full") != std::string::npos);
  CHECK_FALSE(provider->remove("../secrets"));
  CHECK_FALSE(provider->remove(""));
}
