#include "agent/options.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace homeostat;
using namespace homeostat::agent;

namespace {
Result<RunOptions> parse(std::vector<std::string_view> arguments) { return parse_run_options(arguments); }
}  // namespace

TEST_CASE("both spellings of an option, and the defaults") {
  const auto options = parse({"--node", "n1", "--kmsg=/run/homeostat/kmsg", "--expected-gpus", "8"});
  REQUIRE(options);
  CHECK(options->node_name == "n1");
  CHECK(options->log.kmsg_path == "/run/homeostat/kmsg");
  CHECK(options->log.boot_id_path == "/proc/sys/kernel/random/boot_id");
  CHECK(options->expected_gpus == 8);
}

TEST_CASE("what is wrong is told in a sentence") {
  const auto message = [](std::vector<std::string_view> arguments) {
    const auto options = parse(std::move(arguments));
    REQUIRE_FALSE(options.has_value());
    CHECK(options.error().kind == ErrorKind::invalid);
    return options.error().message;
  };
  CHECK(message({}) == "Which node is this? Name it with --node.");
  CHECK(message({"n1"}) == "\"n1\" is not an option. See homeostat-agent --help.");
  CHECK(message({"--node"}) == "--node needs a value.");
  CHECK(message({"--node=n", "--nod=x"}) == "There is no option --nod. See homeostat-agent --help.");
  CHECK(message({"--node=n", "--expected-gpus=many"}) == "--expected-gpus takes a number from 0 to 64, not \"many\".");
}

TEST_CASE("check and explain") {
  const auto check = [](std::vector<std::string_view> arguments) { return parse_check_options(arguments); };
  const auto options = check({"--expected-gpus", "8", "-o", "json", "--sys=/x", "--timeout", "3"});
  REQUIRE(options);
  CHECK(options->json);
  CHECK(options->sensors.always_expected);
  CHECK(options->sensors.sys == "/x");
  CHECK(options->time == std::chrono::seconds(3));
  CHECK(check({"-o", "xml"}).error().message == "-o takes text or json, not \"xml\".");
  CHECK(check({"--timeout", "0"}).error().message == "--timeout takes a number from 1 to 300, not \"0\".");
  CHECK(check({"--node", "n1"}).error().message == "There is no option --node. See homeostat-agent --help.");
  const auto explain = [](std::vector<std::string_view> arguments) { return parse_explain_options(arguments); };
  CHECK(explain({"xid", "79", "-o", "json"})->code == "xid 79");
  CHECK(explain({"-o=json", "79"})->json);
  CHECK(explain({}).error().message == "Which code? Write for example: homeostat-agent explain 79.");
}

TEST_CASE("a flag takes no value") {
  CHECK(parse({"--node=n", "--drill-by-kmsg"})->drill_by_kmsg);
  CHECK(parse({"--node=n", "--drill-by-kmsg=yes"}).error().message == "--drill-by-kmsg takes no value.");
}
