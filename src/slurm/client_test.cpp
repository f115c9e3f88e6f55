// The client against answers as slurmrestd 24.11.5 gave them, and against everything that goes wrong on the way.
#include "slurm/client.hpp"

#include <doctest/doctest.h>

#include <deque>

#include "io/fake_clock.hpp"
#include "io/jwt.hpp"
#include "tests/test_clock.hpp"

using namespace homeostat;
using namespace homeostat::slurm;

namespace {

// What slurmrestd is asked, and what it answers. Pings are answered by version; the rest in the order given.
struct Script {
  std::string version = "v0.0.42";
  std::deque<Result<io::HttpResponse>> answers;
  std::vector<io::HttpRequest> requests;
  int pings = 0;

  void answer(int status, std::string body) { answers.push_back(io::HttpResponse{status, {}, std::move(body)}); }
};

class ScriptedTransport final : public io::HttpTransport {
 public:
  explicit ScriptedTransport(Script& script) : script_(script) {}
  Result<io::HttpResponse> send(const io::HttpRequest& request, std::stop_token) override {
    if (request.url.ends_with("/ping/")) {
      ++script_.pings;
      const bool known = request.url.find("/" + script_.version + "/") != std::string::npos;
      return known
                 ? io::HttpResponse{200,
                                    {},
                                    R"({"pings":[{"hostname":"c","pinged":"UP"}],"meta":{"slurm":{"release":"24.11.5"}},"errors":[]})"}
                 : io::HttpResponse{404, {}, "Unable find requested URL. Please view /openapi/v3 for API reference."};
    }
    script_.requests.push_back(request);
    if (script_.answers.empty()) return fail(ErrorKind::internal, "the test has no answer left");
    auto next = std::move(script_.answers.front());
    script_.answers.pop_front();
    return next;
  }
  Result<io::HttpResponse> stream(const io::HttpRequest&, Duration, const std::function<bool(std::string_view)>&,
                                  std::stop_token) override {
    return fail(ErrorKind::internal, "not streamed");
  }

 private:
  Script& script_;
};

struct World {
  Script script;
  io::FakeClock clock;
  std::unique_ptr<Client> client = make_rest_client({.base_url = "https://rest:6820", .jwt_key = "secret-key-bytes"},
                                                    std::make_unique<ScriptedTransport>(script), clock);
};

std::string header(const io::HttpRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.headers)
    if (key == name) return value;
  return {};
}

constexpr const char* node_n2 =
    R"({"nodes":[{"name":"n2","state":["DOWN","DRAIN","DYNAMIC_NORM"],"reason":"homeostat: rep-1",
  "reason_changed_at":{"set":true,"infinite":false,"number":1796021161},"boot_time":{"set":true,"infinite":false,"number":1796021137},
  "gres":"gpu:2","gres_used":"gpu:1","address":"10.9.0.12","features":["gpu"],"partitions":["main"],"cpus":2,"a_field_of_the_future":{"x":[1]}}],
  "errors":[],"warnings":[{"description":"deprecated"}]})";

constexpr const char* job_1 = R"json({"jobs":[{"job_id":1,"name":"job.sh","user_name":"researcher","partition":"main",
  "array_job_id":{"set":true,"infinite":false,"number":0},"het_job_id":{"set":true,"infinite":false,"number":0},
  "job_state":["PENDING","COMPLETING"],"state_reason":"None","restart_cnt":1,"requeue":true,"batch_flag":true,"nodes":"n[1-2]",
  "gres_detail":["gpu:1(IDX:0)","gpu:h100:2(IDX:0-1)"],"cpus":{"set":true,"infinite":false,"number":2},
  "eligible_time":{"set":true,"infinite":false,"number":1796021140},"start_time":{"set":true,"infinite":false,"number":0},
  "end_time":{"set":true,"infinite":true,"number":0},"admin_comment":"x"}],"errors":[],"warnings":[]})json";

std::string error_body(long number, const char* text) {
  return R"({"errors":[{"description":"Failure","error_number":)" + std::to_string(number) + R"(,"error":")" + text +
         R"("}],"warnings":[]})";
}

}  // namespace

TEST_CASE("the data_parser is negotiated once, and again when slurmrestd was changed") {
  for (const char* version : {"v0.0.40", "v0.0.42", "v0.0.44"}) {
    World w;
    w.script.version = version;
    const auto ping = w.client->ping();
    REQUIRE(ping.has_value());
    CHECK(ping->data_parser == version);
    CHECK(ping->release == "24.11.5");
    CHECK(ping->controller_up);
  }
  World w;
  w.script.answer(200, R"({"nodes":[],"errors":[]})");
  w.script.answer(200, R"({"nodes":[],"errors":[]})");
  REQUIRE(w.client->nodes().has_value());
  REQUIRE(w.client->nodes().has_value());
  CHECK(w.script.pings == 1);
  w.script.answer(404, "Unable find requested URL.");
  CHECK(w.client->nodes().error().kind == ErrorKind::unavailable);
  w.script.version = "v0.0.43";
  w.script.answer(200, R"({"nodes":[],"errors":[]})");
  CHECK(w.client->nodes().has_value());
  CHECK(w.script.requests.back().url == "https://rest:6820/slurm/v0.0.43/nodes/");
}

TEST_CASE("a slurmrestd that speaks nothing we know says so") {
  World w;
  w.script.version = "v0.0.99";
  const auto ping = w.client->ping();
  REQUIRE_FALSE(ping.has_value());
  CHECK(ping.error().kind == ErrorKind::unavailable);
  CHECK(ping.error().message.find("v0.0.40 to v0.0.45") != std::string::npos);
}

TEST_CASE("a node is read, unknown fields are skipped, warnings are no errors") {
  World w;
  w.script.answer(200, node_n2);
  const auto node = w.client->node("n2");
  REQUIRE(node.has_value());
  REQUIRE(node->has_value());
  CHECK((*node)->states == StateSet{"DOWN", "DRAIN", "DYNAMIC_NORM"});
  CHECK((*node)->reason == "homeostat: rep-1");
  CHECK((*node)->boot_time == TimePoint{std::chrono::seconds{1'796'021'137}});
  CHECK((*node)->gres == "gpu:2");
  CHECK((*node)->features == std::vector<std::string>{"gpu"});
}

TEST_CASE("fields that are missing or of another type read as not set") {
  World w;
  w.script.answer(
      200, R"({"nodes":[{"name":"n1"},{"name":7,"state":"IDLE","boot_time":5,"reason":null},"nonsense"],"errors":[]})");
  const auto nodes = w.client->nodes();
  REQUIRE(nodes.has_value());
  REQUIRE(nodes->size() == 2);
  CHECK((*nodes)[0].states.empty());
  CHECK_FALSE((*nodes)[0].boot_time.has_value());
  CHECK((*nodes)[1].states == StateSet{"IDLE"});
  CHECK((*nodes)[1].boot_time == TimePoint{std::chrono::seconds{5}});
}

// An unknown node: HTTP 200, no nodes, error number 0 (24.11), or number 2018.
TEST_CASE("an unknown node is surely absent; any other error is not") {
  World w;
  w.script.answer(200, error_body(0, "No error"));
  w.script.answer(500, error_body(2018, "Invalid node name specified"));
  w.script.answer(200, error_body(1, "Unspecified error"));
  w.script.answer(200, R"({"errors":[]})");
  CHECK(*w.client->node("nx") == std::nullopt);
  CHECK(*w.client->node("nx") == std::nullopt);
  CHECK_FALSE(w.client->node("nx").has_value());
  CHECK(w.client->node("nx").error().kind == ErrorKind::internal);
  CHECK(w.client->node("../job/1").error().kind == ErrorKind::invalid);
  CHECK(w.script.requests.size() == 4);
}

TEST_CASE("a job is read") {
  World w;
  w.script.answer(200, job_1);
  const auto job = w.client->job(1);
  REQUIRE(job.has_value());
  REQUIRE(job->has_value());
  const auto& j = **job;
  CHECK(job_is_completing(j.states));
  CHECK(j.restart_count == 1);
  CHECK(j.requeueable());
  CHECK(j.nodes == std::vector<std::string>{"n1", "n2"});
  CHECK(j.gpus == 3);
  CHECK(j.cpus == 2);
  CHECK(j.begin_time == TimePoint{std::chrono::seconds{1'796'021'140}});
  CHECK_FALSE(j.start_time.has_value());
  CHECK_FALSE(j.end_time.has_value());
}

TEST_CASE("a job that slurmctld forgot is nothing, not an error") {
  World w;
  w.script.answer(404, error_body(2017, "Invalid job id specified"));
  CHECK(*w.client->job(777) == std::nullopt);
}

TEST_CASE("an error inside HTTP 200 is an error") {
  World w;
  w.script.answer(200, error_body(1007, "Protocol authentication error"));
  w.script.answer(200, error_body(1007, "Protocol authentication error"));
  w.script.answer(200, error_body(1007, "Protocol authentication error"));
  CHECK_FALSE(w.client->jobs().has_value());
  const auto done = w.client->set_node_state("n1", NodeOrder::down, "homeostat: x");
  REQUIRE_FALSE(done.has_value());
  CHECK(done.error().message.find("Protocol authentication error") != std::string::npos);
  CHECK_FALSE(w.client->delete_node("n1").has_value());
}

TEST_CASE("orders are sent one state at a time with the reason") {
  World w;
  w.script.answer(200, R"({"errors":[]})");
  REQUIRE(w.client->set_node_state("gpu-x7f2k", NodeOrder::drain, "homeostat: rep-1 xid 79").has_value());
  const auto& request = w.script.requests.back();
  CHECK(request.method == "POST");
  CHECK(request.url == "https://rest:6820/slurm/v0.0.42/node/gpu-x7f2k");
  CHECK(request.body == R"({"state":["DRAIN"],"reason":"homeostat: rep-1 xid 79"})");
  CHECK(request.timeout == Duration{5'000});
}

// RESUME on an idle node is refused with 2028: success only when a second look shows that nothing is left to resume.
TEST_CASE("a resume that is refused because the node needs none is success") {
  World w;
  w.script.answer(500, error_body(2028, "Invalid node state specified"));
  w.script.answer(200, R"({"nodes":[{"name":"n1","state":["IDLE"]}],"errors":[]})");
  CHECK(w.client->set_node_state("n1", NodeOrder::resume, "").has_value());
  w.script.answer(500, error_body(2028, "Invalid node state specified"));
  w.script.answer(200, node_n2);
  CHECK(w.client->set_node_state("n2", NodeOrder::resume, "").error().kind == ErrorKind::conflict);
  w.script.answer(500, error_body(2028, "Invalid node state specified"));
  CHECK(w.client->set_node_state("n2", NodeOrder::down, "x").error().kind == ErrorKind::conflict);
}

TEST_CASE("deleting a node that is gone is success, a busy one is a conflict") {
  World w;
  w.script.answer(500, error_body(2018, "Invalid node name specified"));
  CHECK(w.client->delete_node("n1").has_value());
  w.script.answer(500, error_body(2016, "Requested nodes are busy"));
  CHECK(w.client->delete_node("n1").error().kind == ErrorKind::conflict);
}

TEST_CASE("a job becomes eligible by a begin time in the past, whatever the clocks say") {
  World w;
  w.script.answer(200, R"({"errors":[]})");
  REQUIRE(w.client->make_job_eligible_now(7).has_value());
  CHECK(w.script.requests.back().body == R"({"begin_time":{"set":true,"infinite":false,"number":1}})");
  // Already running: nothing is left to do.
  w.script.answer(500, error_body(2073, "Job is no longer pending execution"));
  w.script.answer(200, R"({"jobs":[{"job_id":7,"job_state":["RUNNING"]}],"errors":[]})");
  CHECK(w.client->make_job_eligible_now(7).has_value());
  // Ended meanwhile: the caller must know.
  w.script.answer(500, error_body(2073, "Job is no longer pending execution"));
  w.script.answer(200, R"({"jobs":[{"job_id":7,"job_state":["CANCELLED"]}],"errors":[]})");
  CHECK(w.client->make_job_eligible_now(7).error().kind == ErrorKind::conflict);
  w.script.answer(404, error_body(2017, "Invalid job id specified"));
  CHECK(w.client->make_job_eligible_now(7).error().kind == ErrorKind::not_found);
}

TEST_CASE("tokens are short-lived, kept while fresh and minted anew in time") {
  World w;
  for (int i = 0; i < 4; ++i) w.script.answer(200, R"({"jobs":[],"errors":[]})");
  REQUIRE(w.client->jobs().has_value());
  REQUIRE(w.client->jobs().has_value());
  const auto first = header(w.script.requests[0], "X-SLURM-USER-TOKEN");
  CHECK(first == io::mint_jwt("secret-key-bytes", {"slurm", w.clock.time - std::chrono::seconds{30},
                                                   w.clock.time + std::chrono::seconds{300}}));
  CHECK(header(w.script.requests[1], "X-SLURM-USER-TOKEN") == first);
  w.clock.time += std::chrono::seconds{151};
  REQUIRE(w.client->jobs().has_value());
  CHECK(header(w.script.requests[2], "X-SLURM-USER-TOKEN") != first);
  w.clock.time -= std::chrono::hours{1};  // the clock was set back: a token from the future would be refused
  REQUIRE(w.client->jobs().has_value());
  CHECK(header(w.script.requests[3], "X-SLURM-USER-TOKEN") != header(w.script.requests[2], "X-SLURM-USER-TOKEN"));
}

TEST_CASE("bad answers and a broken way end in a sentence, and the key is in none") {
  World w;
  w.script.answer(200, "<html>not JSON</html>");
  w.script.answer(502, "bad gateway");
  w.script.answer(200, "[1,2,3]");
  w.script.answer(401, "Authentication failure");
  w.script.answers.push_back(fail(ErrorKind::unreachable, "connection refused."));
  w.script.answers.push_back(fail(ErrorKind::timeout, "no answer within 5 s."));
  const ErrorKind kinds[] = {ErrorKind::internal,     ErrorKind::unavailable, ErrorKind::internal,
                             ErrorKind::unauthorized, ErrorKind::unreachable, ErrorKind::timeout};
  for (const auto kind : kinds) {
    const auto jobs = w.client->jobs();
    REQUIRE_FALSE(jobs.has_value());
    CAPTURE(jobs.error().message);
    CHECK(jobs.error().kind == kind);
    CHECK((jobs.error().message.ends_with(".") || jobs.error().message.ends_with("?")));
    CHECK(jobs.error().message.find("secret-key-bytes") == std::string::npos);
  }
}
