#include "io/sysfs.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <future>
#include <thread>

#include "io/ethernet.hpp"
#include "io/fake_sys.hpp"
#include "io/infiniband.hpp"
#include "io/pcie.hpp"
#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::io;
using namespace std::chrono_literals;

TEST_CASE("every way in which a file cannot be had has its name") {
  TestFolder folder;
  FakeSys sys(folder.path / "sys");
  sys.set("d/good", " 42 ");
  sys.set("d/hex", "0x1f");
  sys.set("d/empty", "");
  sys.set("d/garbled", "4x2");
  sys.set("d/huge", std::string(SysTree::page + 1, '1'));
  sys.set("d/broken", "1");
  sys.break_file("d/broken");
  sys.set_bytes("d/full", std::string(SysTree::page, '1'));
  SysTree tree(sys.root().string());
  const auto d = tree.open("d");
  REQUIRE(d);
  struct Row {
    const char* name;
    SysFault fault;
    std::optional<std::uint64_t> value;
  };
  for (const auto& row : {Row{"good", SysFault::none, 42},
                          {"hex", SysFault::none, 31},
                          {"missing", SysFault::missing, {}},
                          {"empty", SysFault::empty, {}},
                          {"garbled", SysFault::garbled, {}},
                          {"huge", SysFault::huge, {}},
                          {"broken", SysFault::failed, {}},
                          {"good/below", SysFault::missing, {}}}) {
    CAPTURE(row.name);
    SysFault why = SysFault::none;
    CHECK(tree.number(d, row.name, &why) == row.value);
    CHECK(why == row.fault);
  }
  CHECK(tree.read(d, "full").text.size() == SysTree::page);
  CHECK(tree.read_long(d, "huge", 1u << 16));
  SysFault why = SysFault::none;
  CHECK_FALSE(tree.open("nowhere", &why));
  CHECK(why == SysFault::missing);
  CHECK(tree.read(SysFolder(), "x").fault == SysFault::missing);
  // root may read what is forbidden, so the reasons of the kernel are mapped here.
  CHECK(fault_of_errno(EACCES) == SysFault::denied);
  CHECK(fault_of_errno(EPERM) == SysFault::denied);
  CHECK(fault_of_errno(ENODEV) == SysFault::missing);
  CHECK(fault_of_errno(EIO) == SysFault::failed);
  CHECK(fault_of_errno(0) == SysFault::none);
}

TEST_CASE("a read that hangs can be named from another thread") {
  TestFolder folder;
  FakeSys sys(folder.path / "sys");
  sys.set("class/thing/state", "good");
  sys.hang("class/thing/state");
  SysTree tree(sys.root().string());
  const auto now = tree.now_reading();
  CHECK(now->text().empty());
  auto answer = std::async(std::launch::async, [&] { return tree.read(tree.open("class/thing"), "state").fault; });
  std::string text;
  for (int i = 0; i < 400 && !text.ends_with("class/thing/state"); ++i) {
    text = now->text();
    std::this_thread::sleep_for(5ms);
  }
  CHECK(text.ends_with("class/thing/state"));
  sys.release("class/thing/state");
  CHECK(answer.get() == SysFault::empty);
  CHECK(now->text().empty());
  CHECK(tree.read(tree.open("class/thing"), "state").text == "good");
}

TEST_CASE("a name as long as it likes does not overrun what is shown") {
  NowReading now;
  now.begin(std::string(500, 'a'), std::string(500, 'b'));
  CHECK(now.text().size() == 320);
  now.begin(std::string(318, 'a'), "bcd");
  CHECK(now.text().ends_with("a/b"));
  now.end();
  CHECK(now.text().empty());
}

TEST_CASE("numbers, PCI addresses and figures with units") {
  CHECK(parse_number("18446744073709551615") == ~0ull);
  for (const auto* bad : {"", "-1", "1 2", "0x", "18446744073709551616", "1.5", "x"}) CHECK_FALSE(parse_number(bad));
  CHECK(is_pci_address("0000:41:00.1"));
  CHECK(is_pci_address("10000:e1:00.0"));
  for (const auto* bad : {"", "0000:41:00", "0000:41:00.", "0000:41:0g.0", "000:41:00.0", "0000.41:00.0", "virtio0"})
    CHECK_FALSE(is_pci_address(bad));
  CHECK(pci_address_of("../../../0000:41:00.0") == "0000:41:00.0");
  CHECK(pci_address_of("../../../virtio0").empty());
  CHECK(last_pci_address_in("../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0") == "0000:00:03.0");
  CHECK(last_pci_address_in("../../devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/net/usb0").empty());
  CHECK(last_pci_address_in("../../devices/virtual/net/lo").empty());
  CHECK(leading_number("4: ACTIVE") == 4);
  CHECK_FALSE(leading_number("ACTIVE"));
  CHECK(rate_gbps_of("400 Gb/sec (4X NDR)") == 400);
  CHECK(rate_gbps_of("2.5 Gb/sec (1X SDR)") == 2.5);
  CHECK_FALSE(rate_gbps_of("fast"));
  CHECK_FALSE(rate_gbps_of("400 Mb/sec"));
  CHECK(link_speed_of("32.0 GT/s PCIe") == 320);
  CHECK(link_speed_of("2.5 GT/s PCIe") == 25);
  CHECK_FALSE(link_speed_of("Unknown"));
  CHECK_FALSE(link_speed_of(""));
}

TEST_CASE("the fake tree bends and mends") {
  TestFolder folder;
  FakeSys sys(folder.path / "sys");
  sys.set("a/count", "7");
  sys.bump("a/count", 3);
  CHECK(sys.get("a/count") == "10");
  sys.break_file("a/count");
  sys.mend_file("a/count");
  CHECK(sys.get("a/count") == "10");
  sys.add_machine(8, 8, 2, 4);
  SysTree tree(sys.root().string());
  CHECK(tree.list(tree.open("class/infiniband")).size() == 8);
  CHECK(tree.list(tree.open("bus/pci/drivers/amdgpu")).size() == 8);
  CHECK(tree.list(tree.open("class/drm")).size() == 8);
  CHECK(tree.number(tree.open("class/infiniband/mlx5_7/device"), "current_link_width") == 16);
  sys.remove_device("0000:41:00.0");
  CHECK(tree.list(tree.open("class/infiniband")).size() == 7);
  CHECK_FALSE(tree.open("bus/pci/devices/0000:41:00.0"));
}
