#include "lab/address_plan.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::lab;

TEST_CASE("IPv4 ranges are read strictly") {
  struct Case {
    const char* text;
    const char* expected;  // nullptr: refused
  };
  for (auto [text, expected] :
       {Case{"10.77.0.0/24", "10.77.0.0/24"}, Case{"0.0.0.0/0", "0.0.0.0/0"}, Case{"192.0.2.7", "192.0.2.7/32"},
        Case{"10.77.0.1/24", nullptr}, Case{"10.77.0/24", nullptr}, Case{"10.77.0.0/33", nullptr},
        Case{"256.0.0.0/8", nullptr}, Case{"10.77.0.0/", nullptr}, Case{"", nullptr}, Case{"10.77.0.0/24 ", nullptr},
        Case{"a.b.c.d/8", nullptr}, Case{"-1.0.0.0/8", nullptr}}) {
    CAPTURE(text);
    auto range = parse_cidr(text);
    CHECK(range.has_value() == (expected != nullptr));
    if (range && expected != nullptr) CHECK(to_string(*range) == expected);
  }
}

TEST_CASE("a plan gives each machine its address and its pods") {
  auto plan = make_plan({});
  REQUIRE(plan);
  CHECK(plan->host() == "10.77.0.1");
  CHECK(plan->control_plane() == "10.77.0.2");
  CHECK(plan->machine(250) == "10.77.0.250");
  CHECK(to_string(plan->pods_of(250)) == "10.244.250.0/24");
  CHECK(plan->dns_service() == "10.96.0.10");
}

TEST_CASE("plans that cannot work are refused with the range's name") {
  struct Case {
    RangeTexts texts;
    const char* expected;
  };
  for (const auto& [texts, expected] :
       {Case{{"10.77.0.0/16"}, "node range"}, Case{{"10.77.0.0/24", "junk"}, "pod range"},
        Case{{"10.244.3.0/24"}, "pod range 10.244.0.0/16 overlaps the node range"},
        Case{{"10.77.0.0/24", "10.244.0.0/16", "10.96.0.0/16", "10.96.5.0/24"}, "overlaps the service range"}}) {
    auto plan = make_plan(texts);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().kind == ErrorKind::invalid);
    CHECK(plan.error().message.find(expected) != std::string::npos);
  }
}

//  default ──> no clash      192.0.2.0/24 eth0 ──> no clash
//  10.96.0.0/12 tun0 ──────> holds the services and the balancers: two clashes
//  10.77.0.0/24 hl0 ───────> the lab's own bridge
TEST_CASE("routes of others that a range would take over are clashes") {
  auto plan = make_plan({});
  REQUIRE(plan);
  auto routes = parse_routes(
      "default via 192.0.2.1 dev eth0\n192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2\n10.96.0.0/12 via "
      "192.0.2.9 dev tun0\n"
      "10.77.0.0/24 dev hl0 proto kernel\nlocal 127.0.0.0/8 dev lo table local\n");
  REQUIRE(routes.size() == 3);
  auto found = clashes(*plan, routes, "hl0");
  REQUIRE(found.size() == 2);
  CHECK(found[0].find("10.96.0.0/12 through tun0") != std::string::npos);
  CHECK(found[0].find("--service-range") != std::string::npos);
  CHECK(found[1].find("--balancer-range") != std::string::npos);
  CHECK(clashes(*plan, routes, "other0").size() == 3);
}
