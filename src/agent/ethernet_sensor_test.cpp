#include "agent/ethernet_sensor.hpp"

#include "agent/sys_test_helpers.hpp"

using namespace homeostat;
using namespace homeostat::agent;
using namespace std::chrono_literals;
using fault::ProbeState;

namespace {

constexpr auto pci0 = "0000:21:00.0";

std::string file(const char* name) { return std::string("class/net/eth0/") + name; }

}  // namespace

TEST_CASE("virtual interfaces, representors and InfiniBand ones are not Ethernet cards") {
  TestTree tree;
  for (const auto* name : {"lo", "veth1", "cali0", "bond0"}) {
    tree.sys.set(std::string("class/net/") + name + "/flags", "0x1003");
    tree.sys.set(std::string("class/net/") + name + "/carrier", "0");
  }
  const auto sensor = make_ethernet_sensor(tree.roots());
  CHECK(looks(*sensor, 0s, 60s).state == ProbeState::absent);
  tree.sys.add_ethernet("eth0", pci0);
  tree.sys.add_ethernet("rep0", pci0);
  tree.sys.set("class/net/rep0/phys_port_name", "pf0vf1");
  tree.sys.add_ethernet("ib0", "0000:41:00.0");
  tree.sys.set("class/net/ib0/type", "32");
  const auto report = looks(*sensor, 65s, 120s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
  CHECK(report.samples.size() == 6);
  using Names = std::vector<std::pair<std::string, std::string>>;
  CHECK(report.names == Names{{"eth0", pci0}, {"ib0", "0000:41:00.0"}, {"rep0", pci0}});
  CHECK(sample_of(report, "homeostat_ethernet_speed_bits_per_second")->value == 400e9);
}

TEST_CASE("a cable is pulled, put back, and pulled again") {
  TestTree tree;
  tree.sys.add_ethernet("eth0", pci0);
  const auto sensor = make_ethernet_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.ethernet_down("eth0");
  tree.sys.set(file("speed"), "-1");
  CHECK(codes_of(looks(*sensor, 5s, 35s)) == "LINK_DOWN/eth0:error@0000:21:00.0");
  tree.sys.ethernet_up("eth0");
  tree.sys.set(file("speed"), "400000");
  CHECK(codes_of(looks(*sensor, 40s, 60s)) == "");
  tree.sys.ethernet_down("eth0");
  CHECK(codes_of(sensor->look(at(65s))) == "LINK_FLAPPING/eth0:error@0000:21:00.0 LINK_DOWN/eth0:warn@0000:21:00.0");
}

TEST_CASE("an interface that somebody takes down, whose carrier the kernel then refuses to tell") {
  TestTree tree;
  tree.sys.add_ethernet("eth0", pci0);
  const auto sensor = make_ethernet_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.set(file("flags"), "0x1002");
  tree.sys.bump(file("carrier_down_count"), 1);
  tree.sys.break_file(file("carrier"));
  const auto report = looks(*sensor, 5s, 120s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
}

TEST_CASE("the twin of an RDMA device is grave at any speed, a bond's slave only when the bond falls") {
  TestTree tree;
  tree.sys.add_ethernet("eth0", pci0, 1'000);
  tree.sys.add_infiniband("mlx5_0", pci0, true);
  tree.sys.add_ethernet("eth1", "0000:23:00.0");
  tree.sys.add_ethernet("eth2", "0000:25:00.0");
  for (const auto* slave : {"eth1", "eth2"}) {
    tree.sys.set(std::string("class/net/") + slave + "/bonding_slave/state", "active");
    tree.sys.link(std::string("class/net/") + slave + "/master", "../../../../virtual/net/bond0");
  }
  const auto sensor = make_ethernet_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.ethernet_down("eth0");
  tree.sys.ethernet_down("eth1");
  CHECK(codes_of(looks(*sensor, 5s, 60s)) == "LINK_DOWN/eth0:error@0000:21:00.0 LINK_DOWN/eth1:warn@0000:23:00.0");
}

TEST_CASE("every unreadable state of a port's files") {
  struct Row {
    const char* what;
    void (*bend)(io::FakeSys&);
  };
  const Row rows[] = {
      {"flags give an error", [](io::FakeSys& sys) { sys.break_file(file("flags")); }},
      {"flags empty", [](io::FakeSys& sys) { sys.set_bytes(file("flags"), ""); }},
      {"flags garbled", [](io::FakeSys& sys) { sys.set(file("flags"), "up"); }},
      {"flags huge", [](io::FakeSys& sys) { sys.set(file("flags"), std::string(1 << 16, '1')); }},
      {"carrier gives an error", [](io::FakeSys& sys) { sys.break_file(file("carrier")); }},
      {"carrier missing", [](io::FakeSys& sys) { sys.remove(file("carrier")); }},
      {"carrier garbled", [](io::FakeSys& sys) { sys.set(file("carrier"), "yes"); }},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    TestTree tree;
    tree.sys.add_ethernet("eth0", pci0);
    const auto sensor = make_ethernet_sensor(tree.roots());
    (void)sensor->look(at(0s));
    row.bend(tree.sys);
    const auto report = looks(*sensor, 5s, 30s);
    CHECK(report.state == ProbeState::failed);
    CHECK(report.message.find("eth0") != std::string::npos);
    CHECK(codes_of(report) == "NO_ANSWER/eth0:error@0000:21:00.0");
  }
  TestTree tree;
  tree.sys.add_ethernet("eth0", pci0);
  for (const auto* name : {"speed", "duplex", "statistics", "carrier_down_count"}) tree.sys.remove(file(name));
  const auto sensor = make_ethernet_sensor(tree.roots());
  const auto report = looks(*sensor, 0s, 60s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
}

TEST_CASE("a card that falls off the bus, one given to a container, one whose driver is loaded anew") {
  TestTree tree;
  tree.sys.add_ethernet("eth0", pci0);
  const auto sensor = make_ethernet_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.remove_device(pci0);
  CHECK(codes_of(looks(*sensor, 5s, 65s)) == "DEVICE_GONE/eth0:fatal@0000:21:00.0");
  tree.sys.add_ethernet("eth0", pci0);
  CHECK(codes_of(looks(*sensor, 70s, 90s)) == "");
  tree.sys.remove("class/net/eth0");
  CHECK(codes_of(looks(*sensor, 95s, 300s)) == "");
}

TEST_CASE("a port that hangs is named") {
  TestTree tree;
  tree.sys.add_ethernet("eth0", pci0);
  const auto sensor = make_ethernet_sensor(tree.roots());
  (void)sensor->look(at(0s));
  int now = 5;
  for (const auto* name : {"flags", "carrier", "speed", "duplex", "statistics/rx_errors"})
    check_hang(*sensor, tree.sys, file(name), std::chrono::seconds(now += 5));
  CHECK(codes_of(looks(*sensor, 60s, 120s)) == "");
}
