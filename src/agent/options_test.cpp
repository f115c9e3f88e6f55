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
  CHECK(options->kmsg_path == "/run/homeostat/kmsg");
  CHECK(options->boot_id_path == "/proc/sys/kernel/random/boot_id");
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
