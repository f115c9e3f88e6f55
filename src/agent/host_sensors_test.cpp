// PCIe, memory and disk sensors on a tree of their own.
#include "agent/disk_sensor.hpp"
#include "agent/memory_sensor.hpp"
#include "agent/pcie_sensor.hpp"
#include "agent/sys_test_helpers.hpp"

using namespace homeostat;
using namespace homeostat::agent;
using namespace std::chrono_literals;
using fault::ProbeState;

namespace {

constexpr auto gpu = "0000:c1:00.0";
constexpr auto nic = "0000:41:00.0";
constexpr auto bridge_of_gpu = "0000:c0:00.0";

std::string pci(const char* address, const char* file) {
  return std::string("bus/pci/devices/") + address + "/" + file;
}

void add_gpu_and_nic(io::FakeSys& sys) {
  sys.add_pci(gpu, "0x030200", "0x10de", "0x2330", "nvidia");
  sys.add_infiniband("mlx5_0", nic);
}

struct Bend {
  const char* what;
  void (*bend)(io::FakeSys&, const std::string&);
};

constexpr Bend unreadable[] = {
    {"gives an error", [](io::FakeSys& sys, const std::string& path) { sys.break_file(path); }},
    {"empty", [](io::FakeSys& sys, const std::string& path) { sys.set_bytes(path, ""); }},
    {"garbled", [](io::FakeSys& sys, const std::string& path) { sys.set(path, "\x01\x80 what"); }},
    {"huge", [](io::FakeSys& sys, const std::string& path) { sys.set(path, std::string(2 << 20, '1')); }},
};

}  // namespace

TEST_CASE("pcie: a machine without devices, and one whose devices are of other kinds") {
  TestTree tree;
  const auto sensor = make_pcie_sensor(tree.roots());
  CHECK(sensor->look(at(0s)).state == ProbeState::absent);
  CHECK(make_pcie_sensor({"/nonexistent", "/nonexistent"})->look(at(0s)).state == ProbeState::absent);
  tree.sys.add_pci("0000:03:00.0", "0x030000", "0x1a03", "0x2000", "ast");  // a server's display
  tree.sys.add_nvme(0, "0000:81:00.0");
  CHECK(looks(*sensor, 5s, 60s).state == ProbeState::absent);
}

TEST_CASE("pcie: errors of a GPU, of a card and of the bridge above; unsupported requests are none") {
  TestTree tree;
  add_gpu_and_nic(tree.sys);
  const auto sensor = make_pcie_sensor(tree.roots());
  CHECK(codes_of(looks(*sensor, 0s, 60s)) == "");
  tree.sys.set(pci(gpu, "aer_dev_fatal"), "DLP 1\nTOTAL_ERR_FATAL 1");
  tree.sys.set(pci(nic, "aer_dev_nonfatal"), "UnsupReq 3\nTOTAL_ERR_NONFATAL 3");
  tree.sys.set(pci(bridge_of_gpu, "aer_dev_correctable"), "RxErr 700\nTOTAL_ERR_COR 700");
  const auto report = sensor->look(at(65s));
  CHECK(codes_of(report) == "AER_CORRECTABLE:warn@0000:c0:00.0 AER_FATAL:error@0000:c1:00");
  CHECK(report.findings[0].component == "pcie-counters");
  CHECK(sample_of(report, "homeostat_pcie_link_lanes")->value == 16);
}

TEST_CASE("pcie: the width that the port above allows is all that is asked for") {
  TestTree tree;
  add_gpu_and_nic(tree.sys);
  tree.sys.set(pci(gpu, "current_link_width"), "8");
  tree.sys.set(pci(bridge_of_gpu, "max_link_width"), "8");
  const auto sensor = make_pcie_sensor(tree.roots());
  CHECK(codes_of(looks(*sensor, 0s, 120s)) == "");
  tree.sys.set(pci(gpu, "current_link_width"), "4");
  tree.sys.set(pci(nic, "current_link_speed"), "2.5 GT/s PCIe");
  CHECK(codes_of(looks(*sensor, 125s, 250s)) == "SPEED_REDUCED:error@0000:41:00.0 WIDTH_REDUCED:error@0000:c1:00");
}

TEST_CASE("pcie: virtual devices without link or AER, and those that show nonsense") {
  TestTree tree;
  add_gpu_and_nic(tree.sys);
  for (const auto* file : {"aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal", "max_link_speed"})
    tree.sys.remove(pci(gpu, file));
  tree.sys.set(pci(gpu, "current_link_width"), "63");
  tree.sys.set(pci(gpu, "max_link_width"), "255");
  tree.sys.set(pci(gpu, "current_link_speed"), "Unknown");
  const auto sensor = make_pcie_sensor(tree.roots());
  const auto report = looks(*sensor, 0s, 300s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
}

TEST_CASE("pcie: every unreadable state of each file, and each hang") {
  for (const auto* file : {"aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal", "current_link_width"})
    for (const auto& row : unreadable) {
      CAPTURE(file);
      CAPTURE(row.what);
      TestTree tree;
      add_gpu_and_nic(tree.sys);
      const auto sensor = make_pcie_sensor(tree.roots());
      (void)sensor->look(at(0s));
      row.bend(tree.sys, pci(gpu, file));
      const auto report = looks(*sensor, 5s, 35s);
      CHECK(report.state == ProbeState::good);
      CHECK(codes_of(report) == "NO_ANSWER:warn@0000:c1:00");
    }
  TestTree tree;
  add_gpu_and_nic(tree.sys);
  const auto sensor = make_pcie_sensor(tree.roots());
  (void)sensor->look(at(0s));
  int now = 5;
  for (const auto* file :
       {"aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal", "current_link_width", "current_link_speed"})
    check_hang(*sensor, tree.sys, pci(gpu, file), std::chrono::seconds(now += 5));
  CHECK(codes_of(looks(*sensor, 60s, 200s)) == "");
}

TEST_CASE("pcie: a device that goes is another sensor's matter, and is known when it comes back") {
  TestTree tree;
  add_gpu_and_nic(tree.sys);
  const auto sensor = make_pcie_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.remove_device(gpu);
  CHECK(codes_of(looks(*sensor, 5s, 100s)) == "");
  tree.sys.add_pci(gpu, "0x030200", "0x10de", "0x2330", "nvidia");
  tree.sys.set(pci(gpu, "current_link_width"), "1");
  CHECK(codes_of(looks(*sensor, 105s, 200s)) == "WIDTH_REDUCED:warn@0000:c1:00");
}

TEST_CASE("memory: counts by controller, the worst module, every unreadable state, each hang") {
  constexpr auto mc0 = "devices/system/edac/mc/mc0/";
  TestTree tree;
  const auto none = make_memory_sensor(tree.roots());
  CHECK(none->look(at(0s)).state == ProbeState::absent);
  tree.sys.add_edac(0);
  tree.sys.add_edac(1);
  const auto sensor = make_memory_sensor(tree.roots());
  CHECK(looks(*sensor, 0s, 60s).state == ProbeState::good);
  tree.sys.set(std::string(mc0) + "ce_count", "2000");
  tree.sys.set(std::string(mc0) + "dimm0/dimm_ce_count", "1990");
  tree.sys.set(std::string(mc0) + "dimm1/dimm_ue_count", "1");
  tree.sys.set(std::string(mc0) + "ue_count", "1");
  const auto report = sensor->look(at(65s));
  CHECK(codes_of(report) == "CORRECTED_RATE:warn@mc0 UNCORRECTED:error@mc0");
  CHECK(report.findings[1].title.find("DIMM#1") != std::string::npos);
  CHECK(report.findings[1].repair_class == fault::RepairClass::drain_after_job);

  for (const auto* file : {"ce_count", "ue_count"})
    for (const auto& row : unreadable) {
      CAPTURE(file);
      CAPTURE(row.what);
      TestTree fresh;
      fresh.sys.add_edac(0);
      const auto one = make_memory_sensor(fresh.roots());
      (void)one->look(at(0s));
      row.bend(fresh.sys, std::string(mc0) + file);
      const auto bad = looks(*one, 5s, 35s);
      CHECK(bad.state == ProbeState::failed);
      CHECK(bad.message.find(file) != std::string::npos);
      CHECK(codes_of(bad) == "NO_ANSWER:warn@mc0");
    }
  TestTree fresh;
  fresh.sys.add_edac(0);
  const auto one = make_memory_sensor(fresh.roots());
  check_hang(*one, fresh.sys, std::string(mc0) + "ce_count", 0s);
  check_hang(*one, fresh.sys, std::string(mc0) + "ue_count", 5s);
}

TEST_CASE("disk: a good machine, and one without anything") {
  TestTree tree;
  tree.sys.add_machine(0, 0, 0, 4);
  tree.sys.add_ext4("nvme0n1", "/");
  const auto sensor = make_disk_sensor(tree.roots());
  const auto report = looks(*sensor, 0s, 600s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
  CHECK(report.samples.size() == 5);
  TestTree empty;
  CHECK(make_disk_sensor(empty.roots())->look(at(0s)).state == ProbeState::absent);
  CHECK(make_disk_sensor({"/nonexistent", "/nonexistent"})->look(at(0s)).state == ProbeState::failed);
}

TEST_CASE("disk: controllers that die or go, filesystems that turn read-only or have errors, arrays, stalls") {
  TestTree tree;
  tree.sys.add_machine(0, 0, 0, 2);
  tree.sys.add_ext4("nvme1n1", "/scratch");
  const auto sensor = make_disk_sensor(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.set("class/nvme/nvme0/state", "dead");
  CHECK(codes_of(sensor->look(at(5s))) == "NVME_DEAD:fatal@nvme0");
  tree.sys.remove_device("0000:81:00.0");
  tree.sys.remove("block/nvme0n1");
  (void)sensor->look(at(10s));
  tree.sys.set_proc("1/mounts", "/dev/nvme1n1 /scratch ext4 ro 0 0");
  tree.sys.bump("fs/ext4/nvme1n1/errors_count", 1);
  tree.sys.set_proc("mdstat", "md0 : active raid1 sdb1[1]\n      100 blocks [2/1] [_U]");
  CHECK(codes_of(looks(*sensor, 15s, 20s)) ==
        "NVME_GONE:error@nvme0 READ_ONLY:error@nvme1n1 FS_ERRORS:error@nvme1n1 RAID_DEGRADED:warn@md0");
  TestTree live;
  live.sys.add_nvme(0, "0000:81:00.0");
  const auto other = make_disk_sensor(live.roots());
  (void)other->look(at(0s));
  live.sys.set("block/nvme0n1/stat", "100 0 800 10 100 0 800 10 5 10 20");
  CHECK(codes_of(looks(*other, 5s, 125s)) == "IO_STALLED:error@nvme0n1");
  live.sys.remove("block/nvme0n1");
  live.sys.remove_device("0000:81:00.0");
  CHECK(codes_of(looks(*other, 130s, 140s)) == "NVME_GONE:error@nvme0");
}

TEST_CASE("disk: every unreadable state, each hang") {
  for (const auto& row : unreadable) {
    CAPTURE(row.what);
    TestTree tree;
    tree.sys.add_machine(0, 0, 0, 1);
    tree.sys.add_ext4("nvme0n1", "/");
    const auto sensor = make_disk_sensor(tree.roots());
    (void)sensor->look(at(0s));
    row.bend(tree.sys, "block/nvme0n1/stat");
    row.bend(tree.sys, "fs/ext4/nvme0n1/errors_count");
    CHECK(codes_of(looks(*sensor, 5s, 35s)) == "NO_ANSWER:warn@");
    const bool text_is_garbled = std::string_view(row.what) == "garbled";  // any short text is a state
    if (!text_is_garbled) {
      row.bend(tree.sys, "class/nvme/nvme0/state");
      CHECK(codes_of(looks(*sensor, 40s, 70s)) == "NO_ANSWER:warn@nvme0 NO_ANSWER:warn@");
    }
  }
  TestTree tree;
  tree.sys.add_machine(0, 0, 0, 1);
  tree.sys.add_ext4("nvme0n1", "/");
  const auto sensor = make_disk_sensor(tree.roots());
  (void)sensor->look(at(0s));
  check_hang(*sensor, tree.sys, "class/nvme/nvme0/state", 5s);
  check_hang(*sensor, tree.sys, "block/nvme0n1/stat", 10s);
  check_hang(*sensor, tree.sys, "fs/ext4/nvme0n1/errors_count", 15s);
  check_hang(*sensor, tree.sys, "../proc/1/mounts", 20s);
  CHECK(codes_of(looks(*sensor, 25s, 60s)) == "");
}
