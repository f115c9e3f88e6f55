#include "agent/infiniband_sensor.hpp"

#include "agent/sys_test_helpers.hpp"

using namespace homeostat;
using namespace homeostat::agent;
using namespace std::chrono_literals;
using fault::ProbeState;

namespace {

constexpr auto port0 = "class/infiniband/mlx5_0/ports/1/";
constexpr auto pci0 = "0000:41:00.0";

std::string file(const char* name) { return std::string(port0) + name; }

}  // namespace

TEST_CASE("a machine without RDMA devices has nothing to watch") {
  TestTree tree;
  const auto sensor = make_infiniband_sensor(tree.roots());
  CHECK(sensor->look(at(0s)).state == ProbeState::absent);
  CHECK(sensor->name() == "infiniband");
  CHECK(make_infiniband_sensor({"/nonexistent", "/nonexistent"})->look(at(0s)).state == ProbeState::absent);
}

TEST_CASE("eight good ports: no finding, a few figures each") {
  TestTree tree;
  tree.sys.add_machine(0, 8, 0, 0);
  const auto sensor = make_infiniband_sensor(tree.roots());
  tree.sys.set(file("counters/port_rcv_data"), "1000");
  const auto report = looks(*sensor, 0s, 600s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
  CHECK(report.samples.size() == 8 * 9);
  REQUIRE(sample_of(report, "homeostat_infiniband_rate_bits_per_second"));
  CHECK(sample_of(report, "homeostat_infiniband_rate_bits_per_second")->value == 400e9);
  CHECK(sample_of(report, "homeostat_infiniband_receive_bytes_total")->value == 4000);
}

TEST_CASE("a cable is pulled and put back") {
  TestTree tree;
  tree.sys.add_infiniband("mlx5_0", pci0);
  const auto sensor = make_infiniband_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.infiniband_down("mlx5_0");
  const auto down = sensor->look(at(5s));
  REQUIRE(down.findings.size() == 1);
  CHECK(down.findings[0].component == "infiniband");
  CHECK(codes_of(down) == "LINK_DOWN:warn@0000:41:00.0");
  const auto lasting = looks(*sensor, 10s, 40s);
  CHECK(codes_of(lasting) == "LINK_DOWN:error@0000:41:00.0");
  CHECK(lasting.findings[0].repair_class == fault::RepairClass::drain_after_job);
  tree.sys.infiniband_up("mlx5_0");
  CHECK(codes_of(looks(*sensor, 45s, 60s)) == "");
}

TEST_CASE("flaps that are over before the next look are seen by the counter") {
  TestTree tree;
  tree.sys.add_infiniband("mlx5_0", pci0);
  const auto sensor = make_infiniband_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.bump(file("counters/link_downed"), 1);
  CHECK(codes_of(sensor->look(at(5s))) == "");
  tree.sys.bump(file("counters/link_downed"), 1);
  CHECK(codes_of(sensor->look(at(100s))) == "LINK_FLAPPING:error@0000:41:00.0");
}

TEST_CASE("every unreadable state of a port's state file is no answer, never health") {
  struct Row {
    const char* what;
    void (*bend)(io::FakeSys&);
  };
  const Row rows[] = {
      {"gives an error", [](io::FakeSys& sys) { sys.break_file(file("state")); }},
      {"empty", [](io::FakeSys& sys) { sys.set_bytes(file("state"), ""); }},
      {"garbled", [](io::FakeSys& sys) { sys.set(file("state"), "ACTIVE?"); }},
      {"out of range", [](io::FakeSys& sys) { sys.set(file("state"), "77: ACTIVE"); }},
      {"binary", [](io::FakeSys& sys) { sys.set_bytes(file("state"), std::string_view("\0\xff\x80", 3)); }},
      {"huge", [](io::FakeSys& sys) { sys.set(file("state"), std::string(1 << 16, '4')); }},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    TestTree tree;
    tree.sys.add_infiniband("mlx5_0", pci0);
    tree.sys.add_infiniband("mlx5_1", "0000:43:00.0");
    const auto sensor = make_infiniband_sensor(tree.roots());
    CHECK(codes_of(looks(*sensor, 0s, 10s)) == "");
    row.bend(tree.sys);
    const auto report = looks(*sensor, 15s, 30s);
    CHECK(report.state == ProbeState::good);  // the other port answers
    CHECK(codes_of(report) == "NO_ANSWER:error@0000:41:00.0");
    tree.sys.remove_device("0000:43:00.0");
    tree.sys.add_pci("0000:43:00.0", "0x020700", "0x15b3", "0x1021", "mlx5_core");  // given to a container
    // A moment of silence is a driver that resets its device.
    CHECK(looks(*sensor, 35s, 40s).state == ProbeState::good);
    const auto alone = looks(*sensor, 45s, 50s);
    CHECK(alone.state == ProbeState::failed);
    CHECK(alone.message.find("mlx5_0/1") != std::string::npos);
  }
}

TEST_CASE("counters that are missing, denied or garbled take nothing away from the state") {
  TestTree tree;
  tree.sys.add_infiniband("mlx5_0", pci0);
  tree.sys.remove(file("counters"));
  tree.sys.remove(file("rate"));
  tree.sys.set(file("phys_state"), "what");
  const auto sensor = make_infiniband_sensor(tree.roots());
  CHECK(looks(*sensor, 0s, 20s).state == ProbeState::good);
  tree.sys.set(file("state"), "1: DOWN");
  CHECK(codes_of(sensor->look(at(25s))) == "LINK_DOWN:warn@0000:41:00.0");
}

TEST_CASE("a device that falls off the bus, and one whose driver is loaded anew") {
  TestTree tree;
  tree.sys.add_infiniband("mlx5_0", pci0);
  const auto sensor = make_infiniband_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.remove_device(pci0);
  CHECK(codes_of(sensor->look(at(5s))) == "DEVICE_GONE:warn@0000:41:00.0");
  const auto gone = looks(*sensor, 10s, 70s);
  CHECK(codes_of(gone) == "DEVICE_GONE:fatal@0000:41:00.0");
  CHECK(gone.findings[0].repair_class == fault::RepairClass::replace_node);
  CHECK(gone.state == ProbeState::good);
  tree.sys.add_infiniband("mlx5_0", pci0);
  CHECK(codes_of(looks(*sensor, 75s, 90s)) == "");
  // Under another name after the reload: the same function.
  tree.sys.remove_device(pci0);
  tree.sys.add_infiniband("mlx5_7", pci0);
  CHECK(codes_of(looks(*sensor, 95s, 300s)) == "");
}

TEST_CASE("a RoCE port is silent while somebody has its interface down") {
  TestTree tree;
  tree.sys.add_ethernet("eth0", pci0);
  tree.sys.add_infiniband("mlx5_0", pci0, true);
  const auto sensor = make_infiniband_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.set("class/net/eth0/flags", "0x1002");
  tree.sys.set(file("state"), "1: DOWN");
  tree.sys.set(file("phys_state"), "3: Disabled");
  CHECK(codes_of(looks(*sensor, 5s, 120s)) == "");
  tree.sys.set("class/net/eth0/flags", "0x1003");
  CHECK(codes_of(looks(*sensor, 125s, 160s)) == "LINK_DOWN:error@0000:41:00.0");
}

TEST_CASE("a port that hangs is named") {
  TestTree tree;
  tree.sys.add_infiniband("mlx5_0", pci0);
  const auto sensor = make_infiniband_sensor(tree.roots());
  (void)sensor->look(at(0s));
  int now = 5;
  for (const auto* name : {"state", "phys_state", "rate", "link_layer", "counters/link_downed"})
    check_hang(*sensor, tree.sys, file(name), std::chrono::seconds(now += 5));
  CHECK(codes_of(looks(*sensor, 60s, 120s)) == "");
}
