#include "controller/notify/notifier.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "io/http_server.hpp"
#include "io/json.hpp"

using namespace homeostat;
using namespace homeostat::controller;

namespace {

repair::Record sick() {
  repair::Record record;
  record.name = "rep-1", record.node = "n1", record.pool = "gpu";
  record.fault.component = "gpu-xid", record.fault.code = "79", record.fault.device = "0000:17:00";
  return record;
}

std::string text_of(const repair::Record& record) {
  return io::string_at(*io::parse_json_object(notification_body(record)), {"text"});
}

}  // namespace

TEST_CASE("people are told what happened and whether they have to do anything") {
  repair::Record record = sick();
  CHECK(text_of(record) == "Node n1 of pool gpu: xid 79 on 0000:17:00. Its repair has begun. No action is needed.");
  record.fault.drill = true;
  CHECK(text_of(record).starts_with("DRILL: node n1 of pool gpu: xid 79"));
  record.fault.drill = false;
  record.phase = repair::Phase::failed;
  record.message = "failed: 3 new machines in a row did not become fit";
  CHECK(text_of(record).find("kubectl describe repair rep-1") != std::string::npos);
  CHECK(io::bool_at(*io::parse_json_object(notification_body(record)), {"actionNeeded"}));
}

TEST_CASE("the signature is HMAC-SHA256 (RFC 4231, case 2)") {
  CHECK(sign_body("Jefe", "what do ya want for nothing?") ==
        "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("a webhook that fails at first is told again, and sending never waits for it") {
  std::atomic<int> calls{0};
  std::mutex mutex;
  std::condition_variable arrived;
  std::string body;
  auto server = io::HttpServer::start({}, [&](const io::ServerRequest& request) {
    io::ServerResponse response;
    std::lock_guard lock(mutex);
    if (++calls == 1)
      response.status = 503;
    else
      body = request.body, arrived.notify_all();
    return response;
  });
  REQUIRE(server);
  io::SystemClock clock;
  auto notifier = make_notifier([] { return std::unique_ptr<kube::Client>(); }, clock);
  Duration before = clock.monotonic();
  notifier->send(sick(), {{"http://127.0.0.1:" + std::to_string((*server)->port()) + "/hook", "", ""}});
  CHECK(clock.monotonic() - before < Duration{200});
  std::unique_lock lock(mutex);
  CHECK(arrived.wait_for(lock, std::chrono::seconds(10), [&] { return !body.empty(); }));
  CHECK(body == notification_body(sick()));
  CHECK(calls == 2);
}
