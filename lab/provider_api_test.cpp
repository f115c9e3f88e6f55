#include "lab/provider_api.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>

using namespace homeostat;
using namespace homeostat::lab;

namespace {

// The provider without machines: it notes what it was told to do.
struct World {
  std::vector<std::string> done;
  bool save_fails = false, fence_fails = false, stopping = false;
  std::string no_room;
  MachineBook book{[this](const Machine& m) -> Result<void> {
                     if (save_fails) return fail(ErrorKind::internal, "the disk is full");
                     done.push_back("save " + m.order.name + " " + std::string(to_string(m.state)));
                     return {};
                   },
                   [this](const std::string& name) { done.push_back("forget " + name); }};
  ProviderApi api{
      book,
      "secret",
      {[this](const Machine& m) { done.push_back("make " + m.order.name); },
       [this](const Machine& m) -> Result<void> {
         if (fence_fails) return fail(ErrorKind::timeout, "still alive");
         done.push_back("fence " + m.order.name);
         return {};
       },
       [this](const Machine& m) { done.push_back("clean " + m.order.name); },
       [] { return *parse_rfc3339("2026-11-30T07:00:00Z"); }, [this] { return no_room; }, [this] { return stopping; }}};

  io::ServerResponse call(std::string method, const std::string& path, std::string body = {},
                          std::string authorization = "Bearer secret") {
    io::ServerRequest request;
    request.method = std::move(method);
    auto question = path.find("?token=");
    request.path = path.substr(0, question);
    if (question != std::string::npos) request.query = {{"token", path.substr(question + 7)}};
    request.body = std::move(body);
    request.headers = {{"authorization", std::move(authorization)}};
    return api.handle(request);
  }
};

std::string order(const std::string& token, const std::string& name, int gpus = 8) {
  return R"({"token":")" + token + R"(","name":")" + name + R"(","pool":"gpu","gpus":)" + std::to_string(gpus) +
         R"(,"labels":{"a":"b"},"taints":["homeostat.dev/spare=true:NoSchedule"]})";
}

}  // namespace

TEST_CASE("an order is made once, whatever is repeated") {
  World w;
  auto first = w.call("POST", "/v1/machines", order("t1", "gpu-1"));
  CHECK(first.status == 201);
  CHECK(first.body.find(R"("state":"Creating")") != std::string::npos);
  CHECK(first.body.find(R"("createdAt":"2026-11-30T07:00:00.000Z")") != std::string::npos);
  CHECK(w.call("POST", "/v1/machines", order("t1", "gpu-1")).status == 200);
  CHECK(w.done == std::vector<std::string>{"save gpu-1 Creating", "make gpu-1"});

  CHECK(w.call("POST", "/v1/machines", order("t1", "gpu-1", 4)).status == 409);  // same token, other order
  CHECK(w.call("POST", "/v1/machines", order("t1", "gpu-2")).status == 409);
  CHECK(w.call("POST", "/v1/machines", order("t2", "gpu-1")).status == 409);  // the name is taken
  CHECK(w.call("POST", "/v1/machines", order("t2", "gpu-2")).status == 201);
  CHECK(w.book.find("gpu-1")->number != w.book.find("gpu-2")->number);
}

TEST_CASE("machines are listed, all or by token") {
  World w;
  w.call("POST", "/v1/machines", order("t1", "gpu-1"));
  w.call("POST", "/v1/machines", order("t2", "gpu-2"));
  w.book.set_state("gpu-2", MachineState::running, "");
  auto all = boost::json::parse(w.call("GET", "/v1/machines").body);
  CHECK(all.at("machines").as_array().size() == 2);
  auto one = boost::json::parse(w.call("GET", "/v1/machines?token=t2").body);
  REQUIRE(one.at("machines").as_array().size() == 1);
  CHECK(one.at("machines").as_array()[0].at("state").as_string() == "Running");
  CHECK(boost::json::parse(w.call("GET", "/v1/machines?token=t3").body).at("machines").as_array().empty());
}

TEST_CASE("a delete is answered when the processes are dead; what is being deleted never runs again") {
  World w;
  w.call("POST", "/v1/machines", order("t1", "gpu-1"));
  w.done.clear();
  CHECK(w.call("DELETE", "/v1/machines/gpu-1").status == 202);
  CHECK(w.done == std::vector<std::string>{"save gpu-1 Deleting", "fence gpu-1", "clean gpu-1"});
  w.book.set_state("gpu-1", MachineState::running, "");  // the maker was still at work
  CHECK(w.book.find("gpu-1")->state == MachineState::deleting);
  CHECK(w.call("DELETE", "/v1/machines/gpu-1").status == 202);  // again is fine
  auto repeated = w.call("POST", "/v1/machines", order("t1", "gpu-1"));
  CHECK(repeated.status == 200);
  CHECK(repeated.body.find("Deleting") != std::string::npos);
  w.book.forget("gpu-1");
  CHECK(w.call("DELETE", "/v1/machines/gpu-1").status == 404);
  CHECK(w.call("DELETE", "/v1/machines/never").status == 404);
}

TEST_CASE("a delete whose fence fails is no success") {
  World w;
  w.call("POST", "/v1/machines", order("t1", "gpu-1"));
  w.fence_fails = true;
  CHECK(w.call("DELETE", "/v1/machines/gpu-1").status == 500);
  CHECK(w.done.back() == "save gpu-1 Deleting");
}

TEST_CASE("callers without the token learn nothing") {
  World w;
  w.call("POST", "/v1/machines", order("t1", "gpu-1"));
  for (const char* authorization : {"", "Bearer ", "Bearer wrong", "secret", "Basic secret"}) {
    CAPTURE(authorization);
    auto answer = w.call("GET", "/v1/machines", "", authorization);
    CHECK(answer.status == 401);
    CHECK(answer.body.find("gpu-1") == std::string::npos);
    CHECK(w.call("DELETE", "/v1/machines/gpu-1", "", authorization).status == 401);
  }
  CHECK(w.book.find("gpu-1")->state == MachineState::creating);
}

TEST_CASE("refusals say why") {
  World w;
  struct Case {
    const char* body;
    const char* expected;
  };
  for (auto [body, expected] :
       {Case{"", "must be JSON"}, Case{"[]", "must be JSON"}, Case{R"({"token":"t"})", "must be JSON"},
        Case{R"({"token":"","name":"a"})", "token"}, Case{R"({"token":"t","name":"../../etc"})", "name"},
        Case{R"({"token":"t","name":"control-plane"})", "lab's own"},
        Case{R"({"token":"t","name":"a","gpus":17})", "gpus"}, Case{R"({"token":"t","name":"a","gpus":-1})", "gpus"},
        Case{R"({"token":"t","name":"a","labels":{"k":"v,x=y"}})", "label"},
        Case{R"({"token":"t","name":"a","taints":["k=v"]})", "taint"},
        Case{R"({"token":"t","name":"a","taints":["k=v:Never"]})", "taint"}}) {
    CAPTURE(body);
    auto answer = w.call("POST", "/v1/machines", body);
    CHECK(answer.status == 400);
    CHECK(answer.body.find(expected) != std::string::npos);
  }
  CHECK(w.call("PUT", "/v1/machines").status == 404);
  CHECK(w.call("GET", "/v2").status == 404);
  w.no_room = "the disk is nearly full";
  CHECK(w.call("POST", "/v1/machines", order("t9", "gpu-9")).status == 507);
  w.no_room.clear();
  w.save_fails = true;
  CHECK(w.call("POST", "/v1/machines", order("t9", "gpu-9")).status == 500);
  CHECK_FALSE(w.book.find("gpu-9"));  // what could not be written down was not promised
  w.stopping = true;
  CHECK(w.call("GET", "/v1/machines").status == 503);
}

TEST_CASE("addresses go round and run out at last") {
  World w;
  for (int i = 0; i < 241; ++i)
    REQUIRE(w.call("POST", "/v1/machines", order("t" + std::to_string(i), "m-" + std::to_string(i))).status == 201);
  CHECK(w.call("POST", "/v1/machines", order("one-more", "one-more")).status == 507);
  int number = w.book.find("m-7")->number;
  w.book.forget("m-7");
  CHECK(w.call("POST", "/v1/machines", order("one-more", "one-more")).status == 201);
  CHECK(w.book.find("one-more")->number == number);
}

TEST_CASE("a machine's record survives the way through its file, damage is seen") {
  World w;
  w.call("POST", "/v1/machines", order("t1", "gpu-1"));
  auto machine = *w.book.find("gpu-1");
  auto text = machine_record(machine);
  auto read = parse_machine_record(text);
  REQUIRE(read);
  CHECK(read->order == machine.order);
  CHECK(read->number == machine.number);
  CHECK(read->created_at == machine.created_at);
  World after;
  after.book.restore({*read});
  CHECK(after.call("POST", "/v1/machines", order("t1", "gpu-1")).status == 200);  // known after a restart too
  CHECK_FALSE(parse_machine_record(text.substr(0, text.size() / 2)));
  CHECK_FALSE(parse_machine_record("{}"));
}
