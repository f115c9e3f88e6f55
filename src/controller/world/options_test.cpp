#include "controller/world/options.hpp"

#include <doctest/doctest.h>

#include "controller/world/session.hpp"

using namespace homeostat::controller;

TEST_CASE("the command line") {
  auto options = parse_options(
      {"--kubeconfig", "f", "--leader-elect=false", "--metrics-addr=127.0.0.1:9", "--identity=me", "--debug"});
  REQUIRE(options);
  CHECK(options->kubeconfig == "f");
  CHECK_FALSE(options->leader_elect);
  CHECK(options->http_address == "127.0.0.1");
  CHECK(options->http_port == 9);
  CHECK(options->identity == "me");
  CHECK(options->debug);
  CHECK(parse_options({})->leader_elect);
  CHECK(parse_options({"--metrics-addr="})->http_port == 0);
  CHECK(parse_options({"--metrics-addr=:81"})->http_address == "0.0.0.0");
  for (const char* bad : {"--no-such", "run", "--metrics-addr=8080", "--metrics-addr=:0", "--metrics-addr=:99999",
                          "--leader-elect=maybe", "--kubeconfig"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_options({bad}));
  }
}

TEST_CASE("the workers label names a namespace, a cluster and a group") {
  auto label = parse_workers_label("slurm.demo.gpu");
  REQUIRE(label);
  CHECK(label->ns == "slurm");
  CHECK(label->cluster == "demo");
  CHECK(label->group == "gpu");
  for (const char* bad : {"", "a", "a.b", "..", "a..b", ".a.b", "a.b."}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_workers_label(bad));
  }
}
