#include "core/fault/link_counters.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/test_findings.hpp"

using namespace homeostat;
using namespace homeostat::fault;
using namespace std::chrono_literals;

namespace {

PortReading active_port() {
  PortReading port;
  port.device = "mlx5_0";
  port.port = "1";
  port.pci = "0000:41:00.0";
  port.state = PortState::active;
  port.phys = PhysState::link_up;
  port.rate_gbps = 400;
  port.counters.fill(0);
  return port;
}

PortReading down_port() {
  auto port = active_port();
  port.state = PortState::down;
  port.phys = PhysState::polling;
  return port;
}

std::uint64_t& counter(PortReading& port, PortCounter which) { return *port.counters[static_cast<size_t>(which)]; }

// Looks every 5 s from `from` to `to`; the findings of the last look.
template <class Watch, class Reading>
std::string looks(Watch& watch, const std::vector<Reading>& readings, Duration from, Duration to) {
  std::string last;
  for (auto now = from; now <= to; now += 5s) last = codes_of(watch.look(readings, now), false);
  return last;
}

}  // namespace

//   ACTIVE ────┐ DOWN            ┌─ ACTIVE
//              └─────────────────┘
//   finding     warn │ error 30 s  │ gone 15 s after
TEST_CASE("a port that was active and goes down: seen at once, grave after 30 s, over 15 s after it is back") {
  PortWatch watch;
  CHECK(looks(watch, std::vector{active_port()}, 0s, 20s) == "");
  CHECK(looks(watch, std::vector{down_port()}, 25s, 25s) == "LINK_DOWN:warn");
  CHECK(looks(watch, std::vector{down_port()}, 30s, 50s) == "LINK_DOWN:warn");
  CHECK(looks(watch, std::vector{down_port()}, 55s, 300s) == "LINK_DOWN:error");
  CHECK(looks(watch, std::vector{active_port()}, 305s, 315s) == "LINK_DOWN:error");
  CHECK(looks(watch, std::vector{active_port()}, 320s, 325s) == "");
}

TEST_CASE("a port that was never active is unused, whatever its state") {
  for (const auto phys : {PhysState::polling, PhysState::disabled, PhysState::sleep, PhysState::training}) {
    PortWatch watch;
    auto port = down_port();
    port.phys = phys;
    port.counters = {};
    CHECK(looks(watch, std::vector{port}, 0s, 3600s) == "");
  }
}

TEST_CASE("an agent that starts after the link fell knows by the traffic that it was in use") {
  PortWatch watch;
  auto port = down_port();
  counter(port, PortCounter::receive_data) = 1ull << 30;
  CHECK(looks(watch, std::vector{port}, 0s, 60s) == "LINK_DOWN:error");
}

//   downs:   1      1
//   time     0 s   240 s          840 s: ten quiet minutes
TEST_CASE("two downs within five minutes are a flapping link, even when each is back before the next look") {
  PortWatch watch;
  auto port = active_port();
  CHECK(looks(watch, std::vector{port}, 0s, 5s) == "");
  counter(port, PortCounter::link_downed) += 1;
  CHECK(looks(watch, std::vector{port}, 10s, 240s) == "");
  counter(port, PortCounter::link_downed) += 1;
  CHECK(looks(watch, std::vector{port}, 245s, 840s) == "LINK_FLAPPING:error");
  CHECK(looks(watch, std::vector{port}, 845s, 850s) == "");
}

TEST_CASE("one down is counted once, though state and counter show it in different looks") {
  PortWatch watch;
  auto port = active_port();
  (void)watch.look({port}, 0s);
  counter(port, PortCounter::link_downed) += 1;  // fell after its state was read
  CHECK(codes_of(watch.look({port}, 5s), false) == "");
  auto down = down_port();
  counter(down, PortCounter::link_downed) = 1;
  CHECK(codes_of(watch.look({down}, 10s), false) == "LINK_DOWN:warn");
}

TEST_CASE("a saturated or missing link_downed does not hide a flap") {
  for (const bool saturated : {true, false}) {
    PortWatch watch;
    auto up = active_port(), down = down_port();
    for (auto* port : {&up, &down}) port->counters[0] = saturated ? std::optional<std::uint64_t>(255) : std::nullopt;
    Duration now = 0s;
    (void)looks(watch, std::vector{up}, now, now + 5s);
    std::string last;
    for (int i = 0; i < 2; ++i) {
      (void)watch.look({down}, now += 10s);
      last = codes_of(watch.look({up}, now += 5s), false);
    }
    CHECK(last == "LINK_FLAPPING:error LINK_DOWN:warn");
  }
}

TEST_CASE("counts since boot, a counter reset and a driver reload are no faults") {
  PortWatch watch;
  auto port = active_port();
  for (auto which : {PortCounter::link_downed, PortCounter::symbol_error, PortCounter::link_error_recovery,
                     PortCounter::receive_errors})
    counter(port, which) = 5000;
  CHECK(looks(watch, std::vector{port}, 0s, 60s) == "");
  port.counters.fill(0);
  CHECK(looks(watch, std::vector{port}, 65s, 120s) == "");
  port.counters.fill(1);
  CHECK(looks(watch, std::vector{port}, 125s, 180s) == "");
}

TEST_CASE("the rates of error counters, each just below and at its limit") {
  struct Row {
    PortCounter counter;
    std::uint64_t below, at;
    std::string finding;
  };
  const Row rows[] = {
      {PortCounter::link_error_recovery, 4, 5, "LINK_RECOVERY:warn"},
      {PortCounter::symbol_error, 119, 120, "SYMBOL_ERRORS:warn"},
      {PortCounter::receive_errors, 99, 100, "RECEIVE_ERRORS:warn"},
      {PortCounter::link_integrity, 2, 3, "LINK_INTEGRITY:warn"},
      {PortCounter::buffer_overrun, 9, 10, "BUFFER_OVERRUN:warn"},
      {PortCounter::transmit_wait, 1u << 30, 1u << 31, ""},
  };
  for (const auto& row : rows)
    for (const bool at : {false, true}) {
      PortWatch watch;
      auto port = active_port();
      (void)watch.look({port}, 0s);
      counter(port, row.counter) += at ? row.at : row.below;
      CAPTURE(row.finding);
      CHECK(codes_of(watch.look({port}, 5s), false) == (at ? row.finding : ""));
    }
}

TEST_CASE("a rate below the port's own best must last") {
  PortWatch watch;
  auto port = active_port();
  CHECK(looks(watch, std::vector{port}, 0s, 10s) == "");
  port.rate_gbps = 200;
  CHECK(looks(watch, std::vector{port}, 15s, 70s) == "");
  CHECK(looks(watch, std::vector{port}, 75s, 75s) == "RATE_REDUCED:error");
  port.rate_gbps = 400;
  CHECK(looks(watch, std::vector{port}, 80s, 135s) == "RATE_REDUCED:error");
  CHECK(looks(watch, std::vector{port}, 140s, 145s) == "");
}

TEST_CASE("slower from the start than most of its kind; half of them are no majority") {
  std::vector<PortReading> ports(8, active_port());
  for (size_t i = 0; i < ports.size(); ++i) {
    ports[i].pci = "0000:4" + std::to_string(i) + ":00.0";
    ports[i].board = "MT_0000000838";
  }
  ports[3].rate_gbps = 200;
  PortWatch watch;
  CHECK(looks(watch, ports, 0s, 55s) == "");
  const auto findings = watch.look(ports, 60s);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].device == "0000:43:00.0");
  for (size_t i = 0; i < 4; ++i) ports[i].rate_gbps = 200;
  PortWatch half;
  CHECK(looks(half, ports, 0s, 120s) == "");
  ports[3].board = "a storage card";
  for (size_t i = 0; i < 3; ++i) ports[i].rate_gbps = 400;
  PortWatch other_kind;
  CHECK(looks(other_kind, ports, 0s, 120s) == "");
}

TEST_CASE("a link without a subnet manager is not a link that is down") {
  PortWatch watch;
  auto port = active_port();
  (void)watch.look({port}, 0s);
  port.state = PortState::init;
  CHECK(looks(watch, std::vector{port}, 5s, 30s) == "");
  CHECK(looks(watch, std::vector{port}, 35s, 120s) == "LINK_NOT_ACTIVE:warn");
  CHECK(looks(watch, std::vector{port}, 125s, 130s) == "LINK_NOT_ACTIVE:error");
  PortWatch from_the_start;
  CHECK(looks(from_the_start, std::vector{port}, 0s, 115s) == "");
  CHECK(looks(from_the_start, std::vector{port}, 120s, 120s) == "LINK_NOT_ACTIVE:warn");
}

TEST_CASE("a device that goes: a fault when it was in use, none when unused, virtual or given to a container") {
  struct Row {
    const char* what;
    bool used, moved, virtual_function;
    std::string at_once, after_a_minute;
  };
  const Row rows[] = {
      {"in use", true, false, false, "DEVICE_GONE:warn", "DEVICE_GONE:fatal"},
      {"unused", false, false, false, "", ""},
      {"given to a container", true, true, false, "", ""},
      {"virtual function", true, false, true, "", ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    PortWatch watch;
    auto port = row.used ? active_port() : down_port();
    port.virtual_function = row.virtual_function;
    (void)watch.look({port}, 0s);
    port.listed = false;
    port.moved = row.moved;
    CHECK(looks(watch, std::vector{port}, 5s, 60s) == row.at_once);
    CHECK(looks(watch, std::vector{port}, 65s, 120s) == row.after_a_minute);
    // Back again.
    const auto back = row.used ? active_port() : down_port();
    CHECK(looks(watch, std::vector{back}, 125s, 200s) == "");
  }
}

TEST_CASE("a port that cannot be asked is not healthy, and keeps what was known of it") {
  PortWatch watch;
  (void)watch.look({active_port()}, 0s);
  (void)looks(watch, std::vector{down_port()}, 5s, 60s);
  auto silent = PortReading();
  silent.device = "mlx5_0";
  silent.port = "1";
  silent.pci = "0000:41:00.0";
  silent.trouble = "its file state is garbled";
  CHECK(looks(watch, std::vector{silent}, 65s, 75s) == "LINK_DOWN:error");
  CHECK(looks(watch, std::vector{silent}, 80s, 90s) == "NO_ANSWER:error LINK_DOWN:error");
}

TEST_CASE("a RoCE port whose interface somebody took down is no fault") {
  PortWatch watch;
  auto port = active_port();
  port.ethernet = true;
  (void)watch.look({port}, 0s);
  port = down_port();
  port.ethernet = port.admin_down = true;
  CHECK(looks(watch, std::vector{port}, 5s, 120s) == "");
}

TEST_CASE("ports of one device have findings of their own") {
  PortWatch watch;
  auto one = active_port(), two = active_port();
  two.port = "2";
  (void)watch.look({one, two}, 0s);
  one.state = two.state = PortState::down;
  const auto findings = watch.look({one, two}, 5s);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].code == "LINK_DOWN");
  CHECK(findings[1].code == "LINK_DOWN/2");
  CHECK(findings[0].device == "0000:41:00.0");
  CHECK(findings[1].device == "0000:41:00.0");
}

// Ethernet.

namespace {

NetReading net(std::string name = "eth0", std::uint64_t speed_mbps = 400'000) {
  NetReading port;
  port.name = std::move(name);
  port.pci = "0000:42:00.0";
  port.carrier = true;
  port.carrier_downs = 3;
  port.speed_mbps = speed_mbps;
  port.receive_errors = 0;
  return port;
}

NetReading without_carrier(NetReading port) {
  port.carrier = false;
  port.speed_mbps.reset();
  port.carrier_downs = *port.carrier_downs + 1;
  return port;
}

}  // namespace

TEST_CASE(
    "carrier lost: grave for a fast card, a note for a slow one, for a bond that holds and for none that was up") {
  struct Row {
    const char* what;
    std::uint64_t speed_mbps;
    bool rdma;
    std::string finding;
  };
  for (const auto& row : {Row{"fast", 400'000, false, "LINK_DOWN/eth0:error"},
                          {"slow", 1'000, false, "LINK_DOWN/eth0:warn"},
                          {"unknown speed with RDMA", 0, true, "LINK_DOWN/eth0:error"}}) {
    CAPTURE(row.what);
    NetWatch watch;
    auto port = net("eth0", row.speed_mbps);
    port.rdma = row.rdma;
    (void)watch.look({port}, 0s);
    port = without_carrier(port);
    CHECK(looks(watch, std::vector{port}, 5s, 5s) == "LINK_DOWN/eth0:warn");
    CHECK(looks(watch, std::vector{port}, 10s, 40s) == row.finding);
    auto back = net("eth0", row.speed_mbps);
    back.rdma = row.rdma;
    back.carrier_downs = port.carrier_downs;
    CHECK(looks(watch, std::vector{back}, 45s, 60s) == "");
  }
  // An agent that starts after the link fell knows by the traffic that it was in use.
  NetWatch late;
  auto used = without_carrier(net());
  used.receive_bytes = 1ull << 30;
  used.rdma = true;
  CHECK(looks(late, std::vector{used}, 0s, 60s) == "LINK_DOWN/eth0:error");
  NetWatch never_up;
  CHECK(looks(never_up, std::vector{without_carrier(net())}, 0s, 600s) == "");
}

TEST_CASE("a bond's slave without carrier is grave only when no other slave has one") {
  NetWatch watch;
  auto one = net("eth0"), two = net("eth1");
  one.bond = two.bond = "bond0";
  (void)watch.look({one, two}, 0s);
  one = without_carrier(one);
  CHECK(looks(watch, std::vector{one, two}, 5s, 60s) == "LINK_DOWN/eth0:warn");
  two = without_carrier(two);
  CHECK(looks(watch, std::vector{one, two}, 65s, 120s) == "LINK_DOWN/eth0:error LINK_DOWN/eth1:error");
}

TEST_CASE("taking an interface down on purpose is no fault, and no flap") {
  NetWatch watch;
  auto port = net();
  (void)watch.look({port}, 0s);
  auto off = without_carrier(port);
  off.admin_up = false;
  for (int i = 0; i < 4; ++i) {
    off.carrier_downs = *off.carrier_downs + 1;
    CHECK(looks(watch, std::vector{off}, 5s + 10s * i, 10s + 10s * i) == "");
  }
  port.carrier_downs = off.carrier_downs;
  CHECK(looks(watch, std::vector{port}, 60s, 70s) == "");
}

TEST_CASE("flaps, speed, duplex and errors of an Ethernet port") {
  NetWatch watch;
  auto port = net();
  (void)watch.look({port}, 0s);
  port.carrier_downs = *port.carrier_downs + 2;
  CHECK(looks(watch, std::vector{port}, 5s, 5s) == "LINK_FLAPPING/eth0:error");

  NetWatch slow;
  (void)slow.look({net()}, 0s);
  CHECK(looks(slow, std::vector{net("eth0", 100'000)}, 5s, 60s) == "");
  CHECK(looks(slow, std::vector{net("eth0", 100'000)}, 65s, 65s) == "SPEED_REDUCED/eth0:error");

  NetWatch minor;
  auto small = net("eth9", 1'000);
  (void)minor.look({small}, 0s);
  small.carrier_downs = 9;
  small.speed_mbps = 100;
  small.half_duplex = true;
  CHECK(looks(minor, std::vector{small}, 5s, 65s) ==
        "LINK_FLAPPING/eth9:warn SPEED_REDUCED/eth9:warn HALF_DUPLEX/eth9:warn");

  NetWatch noisy;
  auto damaged = net();
  (void)noisy.look({damaged}, 0s);
  damaged.receive_errors = 1000;
  CHECK(looks(noisy, std::vector{damaged}, 5s, 5s) == "RECEIVE_ERRORS/eth0:warn");
}

TEST_CASE("an Ethernet card that goes, and one that cannot be asked") {
  NetWatch watch;
  auto port = net();
  (void)watch.look({port}, 0s);
  port.listed = false;
  CHECK(looks(watch, std::vector{port}, 5s, 60s) == "DEVICE_GONE/eth0:warn");
  CHECK(looks(watch, std::vector{port}, 65s, 65s) == "DEVICE_GONE/eth0:fatal");
  CHECK(looks(watch, std::vector{net()}, 70s, 90s) == "");
  auto silent = net();
  silent.trouble = "its file flags is garbled";
  CHECK(looks(watch, std::vector{silent}, 95s, 105s) == "");
  CHECK(looks(watch, std::vector{silent}, 110s, 110s) == "NO_ANSWER/eth0:error");
  auto moved = net();
  moved.listed = false;
  moved.moved = true;
  CHECK(looks(watch, std::vector{moved}, 115s, 300s) == "");
}
