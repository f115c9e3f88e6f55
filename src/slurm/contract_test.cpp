// One suite of what every Client does, run against Slurm in memory always, and against a real slurmrestd when these are
// set: HOMEOSTAT_SLURMREST_URL, HOMEOSTAT_SLURMREST_KEY (file with jwt.key), HOMEOSTAT_SLURMREST_NODE (an idle node
// that may be drained and set DOWN), and for https HOMEOSTAT_SLURMREST_CA (PEM file) and, where the address is no name
// of the certificate, HOMEOSTAT_SLURMREST_SERVER_NAME. So the fake cannot drift from the real one unseen.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>

#include "io/files.hpp"
#include "slurm/fake_slurm.hpp"

using namespace homeostat;
using namespace homeostat::slurm;

namespace {

struct Subject {
  std::unique_ptr<Client> client;
  std::string node;
  std::function<void(Duration)> pass;
};

void wait_for(const Subject& subject, const std::function<bool()>& holds) {
  for (int i = 0; i < 100 && !holds(); ++i) subject.pass(Duration{100});
  CHECK(holds());
}

StateSet states_of(const Subject& subject) {
  const auto node = subject.client->node(subject.node);
  REQUIRE(node.has_value());
  REQUIRE(node->has_value());
  return (*node)->states;
}

void check_reads(const Subject& subject) {
  const auto ping = subject.client->ping();
  REQUIRE(ping.has_value());
  CHECK(ping->controller_up);
  CHECK_FALSE(ping->release.empty());
  CHECK(ping->data_parser.starts_with("v0.0."));
  const auto nodes = subject.client->nodes();
  REQUIRE(nodes.has_value());
  CHECK_FALSE(nodes->empty());
  CHECK(subject.client->jobs().has_value());
  CHECK(subject.client->diag().has_value());
  const auto node = subject.client->node(subject.node);
  REQUIRE(node.has_value());
  REQUIRE(node->has_value());
  CHECK((*node)->name == subject.node);
  CHECK((*node)->boot_time.has_value());
}

void check_what_is_absent(const Subject& subject) {
  CHECK(*subject.client->node("no-such-node") == std::nullopt);
  CHECK(*subject.client->job(999'999) == std::nullopt);
  CHECK(subject.client->set_node_state("no-such-node", NodeOrder::drain, "homeostat: test").error().kind ==
        ErrorKind::not_found);
  CHECK(subject.client->delete_node("no-such-node").has_value());
  CHECK(subject.client->make_job_eligible_now(999'999).error().kind == ErrorKind::not_found);
  CHECK(subject.client->set_job_admin_comment(999'999, "x").error().kind == ErrorKind::not_found);
}

// IDLE -> DRAIN -> DOWN+DRAIN, each twice; UNDRAIN keeps DOWN; RESUME twice -> takes jobs.
void check_orders(const Subject& subject) {
  for (int i = 0; i < 2; ++i)
    REQUIRE(subject.client->set_node_state(subject.node, NodeOrder::drain, "homeostat: contract").has_value());
  wait_for(subject, [&] { return node_is_drain(states_of(subject)); });
  for (int i = 0; i < 2; ++i)
    REQUIRE(subject.client->set_node_state(subject.node, NodeOrder::down, "homeostat: contract").has_value());
  wait_for(subject, [&] { return node_is_down(states_of(subject)) && node_is_drain(states_of(subject)); });
  CHECK(reason_is_ours((*subject.client->node(subject.node))->reason));
  REQUIRE(subject.client->set_node_state(subject.node, NodeOrder::undrain, "").has_value());
  wait_for(subject, [&] { return node_is_down(states_of(subject)) && !node_is_drain(states_of(subject)); });
  for (int i = 0; i < 2; ++i) REQUIRE(subject.client->set_node_state(subject.node, NodeOrder::resume, "").has_value());
  wait_for(subject, [&] { return node_takes_jobs(states_of(subject)); });
}

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string content(const std::string& path) {
  auto text = io::read_file(path);
  REQUIRE_MESSAGE(text.has_value(), (text ? "" : text.error().message));
  return *text;
}

void check_all(const Subject& subject) {
  check_reads(subject);
  check_what_is_absent(subject);
  check_orders(subject);
}

}  // namespace

TEST_CASE("contract: Slurm in memory") {
  TimePoint now{std::chrono::seconds{1'796'000'000}};
  FakeSlurm slurm(now);
  slurm.register_node("n1", 8);
  check_all({slurm.client(), "n1", [&](Duration d) { slurm.advance_to(now += d); }});
}

TEST_CASE("contract: a real slurmrestd" * doctest::skip(setting("HOMEOSTAT_SLURMREST_URL").empty())) {
  const auto ca = setting("HOMEOSTAT_SLURMREST_CA");
  io::SystemClock clock;
  io::TlsOptions tls;
  if (!ca.empty()) tls.ca_pem = content(ca);
  tls.server_name = setting("HOMEOSTAT_SLURMREST_SERVER_NAME");
  auto client = make_rest_client(
      {.base_url = setting("HOMEOSTAT_SLURMREST_URL"), .jwt_key = content(setting("HOMEOSTAT_SLURMREST_KEY"))},
      io::make_curl_transport(tls), clock);
  check_all({std::move(client), setting("HOMEOSTAT_SLURMREST_NODE"), [&](Duration d) { clock.sleep(d, {}); }});
}
