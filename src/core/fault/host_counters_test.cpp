#include "core/fault/host_counters.hpp"

#include <doctest/doctest.h>

#include "tests/test_findings.hpp"

using namespace homeostat;
using namespace homeostat::fault;
using namespace std::chrono_literals;

namespace {

template <class Watch, class Reading>
std::string looks(Watch& watch, const Reading& reading, Duration from, Duration to) {
  std::string last;
  for (auto now = from; now <= to; now += 5s) last = codes_of(watch.look(reading, now));
  return last;
}

PciReading card(PciKind kind = PciKind::accelerator, std::string address = "0000:c1:00.0") {
  PciReading device;
  device.address = std::move(address);
  device.kind = kind;
  device.model = "10de:2330";
  device.correctable = device.nonfatal = device.fatal = 0;
  device.lanes = device.max_lanes = 16;
  device.speed = device.max_speed = 320;
  return device;
}

}  // namespace

TEST_CASE("AER totals are read from every shape of the file") {
  CHECK(aer_total("RxErr 0\nBadTLP 2\nTOTAL_ERR_COR 2") == 2);
  CHECK(aer_total("Undefined 0\nUnsupReq 5\nTOTAL_ERR_NONFATAL 7", "UnsupReq") == 2);
  CHECK(aer_total("UnsupReq 9\nTOTAL_ERR_NONFATAL 7", "UnsupReq") == 0);
  CHECK(aer_total("TOTAL_ERR_FATAL 18446744073709551615") == ~0ull);
  CHECK_FALSE(aer_total("RxErr 0\nBadTLP 2"));
  CHECK_FALSE(aer_total("TOTAL_ERR_COR many"));
  CHECK_FALSE(aer_total(""));
  CHECK_FALSE(aer_total("\n\n\n"));
}

TEST_CASE("AER counters, each just below and at its limit") {
  struct Row {
    std::optional<std::uint64_t> PciReading::* what;
    std::uint64_t rise;
    std::string finding;
  };
  const Row rows[] = {
      {&PciReading::correctable, 599, ""},
      {&PciReading::correctable, 600, "AER_CORRECTABLE:warn@0000:c1:00"},
      {&PciReading::correctable, 60'000, "AER_CORRECTABLE:error@0000:c1:00"},
      {&PciReading::nonfatal, 1, "AER_NONFATAL:warn@0000:c1:00"},
      {&PciReading::nonfatal, 10, "AER_NONFATAL:error@0000:c1:00"},
      {&PciReading::fatal, 1, "AER_FATAL:error@0000:c1:00"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.finding);
    PcieWatch watch;
    auto device = card();
    device.*row.what = 1'000'000;  // since the boot: says nothing
    CHECK(codes_of(watch.look({device}, 0s)) == "");
    device.*row.what = 1'000'000 + row.rise;
    CHECK(codes_of(watch.look({device}, 5s)) == row.finding);
    CHECK(looks(watch, std::vector{device}, 10s, 3 * 3600s) == "");
  }
}

TEST_CASE("a device without AER or link files is silent, one that cannot be asked is not") {
  PcieWatch watch;
  PciReading bare;
  bare.address = "0000:00:03.0";
  bare.kind = PciKind::network;
  CHECK(looks(watch, std::vector{bare}, 0s, 600s) == "");
  bare.trouble = "its file aer_dev_fatal is garbled";
  CHECK(looks(watch, std::vector{bare}, 605s, 630s) == "");
  CHECK(looks(watch, std::vector{bare}, 635s, 635s) == "NO_ANSWER:warn@0000:00:03.0");
}

//   lanes 16 ──┐ 8          ┌ 16
//   finding    │ 60 s: error │ 60 s: over
TEST_CASE("a link that narrows is a fault once it lasts; one that was narrow from the start is a note") {
  PcieWatch watch;
  auto device = card();
  (void)watch.look({device}, 0s);
  device.lanes = 8;
  CHECK(looks(watch, std::vector{device}, 5s, 60s) == "");
  CHECK(looks(watch, std::vector{device}, 65s, 70s) == "WIDTH_REDUCED:error@0000:c1:00");
  device.lanes = 16;
  CHECK(looks(watch, std::vector{device}, 75s, 130s) == "WIDTH_REDUCED:error@0000:c1:00");
  CHECK(looks(watch, std::vector{device}, 135s, 140s) == "");

  PcieWatch from_the_start;
  device.lanes = 8;
  CHECK(looks(from_the_start, std::vector{device}, 0s, 60s) == "WIDTH_REDUCED:warn@0000:c1:00");
  device.max_lanes = 8;  // the port above has no more
  CHECK(looks(from_the_start, std::vector{device}, 65s, 200s) == "");
}

TEST_CASE("from the start narrower than most of its kind is a fault") {
  PcieWatch watch;
  std::vector<PciReading> gpus;
  gpus.reserve(8);
  for (int i = 0; i < 8; ++i) gpus.push_back(card(PciKind::accelerator, "0000:c" + std::to_string(i) + ":00.0"));
  gpus[3].lanes = 4;
  CHECK(looks(watch, gpus, 0s, 60s) == "WIDTH_REDUCED:error@0000:c3:00");
  // Half of them: that is how the board is.
  PcieWatch half;
  for (int i = 0; i < 4; ++i) gpus[i].lanes = 4;
  CHECK(looks(half, gpus, 0s, 60s).find("error") == std::string::npos);
}

TEST_CASE("speed is judged for network cards only: idle accelerators slow down on purpose") {
  for (const auto kind : {PciKind::accelerator, PciKind::network, PciKind::bridge}) {
    PcieWatch watch;
    auto device = card(kind, "0000:41:00.0");
    (void)watch.look({device}, 0s);
    device.speed = 25;
    CHECK(looks(watch, std::vector{device}, 5s, 120s) == "");
    CHECK(looks(watch, std::vector{device}, 125s, 125s) ==
          (kind == PciKind::network ? "SPEED_REDUCED:error@0000:41:00.0" : ""));
  }
  PcieWatch watch;
  auto device = card(PciKind::network, "0000:41:00.0");
  device.speed = 160;
  CHECK(looks(watch, std::vector{device}, 0s, 120s) == "SPEED_REDUCED:warn@0000:41:00.0");
}

TEST_CASE("memory: corrected errors by rate, uncorrected ones at all") {
  MemoryWatch watch;
  MemoryReading mc{"mc0", 50'000, 0, "", ""};
  CHECK(looks(watch, std::vector{mc}, 0s, 60s) == "");
  mc.corrected = 50'999;
  CHECK(looks(watch, std::vector{mc}, 65s, 65s) == "");
  mc.corrected = 51'000;
  CHECK(looks(watch, std::vector{mc}, 70s, 75s) == "CORRECTED_RATE:warn@mc0");
  mc.uncorrected = 1;
  mc.worst_dimm = "DIMM_A1";
  const auto findings = watch.look({mc}, 80s);
  CHECK(codes_of(findings) == "CORRECTED_RATE:warn@mc0 UNCORRECTED:error@mc0");
  CHECK(findings[1].title.find("DIMM_A1") != std::string::npos);
  MemoryReading silent{"mc1", std::nullopt, std::nullopt, "", "its file ce_count is empty"};
  CHECK(looks(watch, std::vector{silent}, 85s, 110s) == "");
  CHECK(looks(watch, std::vector{silent}, 115s, 115s) == "NO_ANSWER:warn@mc1");
}

TEST_CASE("NVMe controllers in every state") {
  struct Row {
    const char* state;
    bool fabric;
    std::string soon, late;
  };
  const Row rows[] = {
      {"live", false, "", ""},
      {"new", false, "NVME_NOT_LIVE:warn@nvme0", "NVME_NOT_LIVE:error@nvme0"},
      {"resetting", false, "NVME_NOT_LIVE:warn@nvme0", "NVME_NOT_LIVE:error@nvme0"},
      {"connecting", false, "NVME_NOT_LIVE:warn@nvme0", "NVME_NOT_LIVE:error@nvme0"},
      {"connecting", true, "NVME_NOT_LIVE:warn@nvme0", "NVME_NOT_LIVE:warn@nvme0"},
      {"deleting", false, "", ""},
      {"deleting (no IO)", false, "", ""},
      {"dead", false, "NVME_DEAD:fatal@nvme0", "NVME_DEAD:fatal@nvme0"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.state);
    DiskWatch watch;
    DiskReading reading;
    NvmeReading disk;
    disk.name = "nvme0";
    disk.fabric = row.fabric;
    disk.state = row.state;
    reading.nvme = {disk};
    CHECK(looks(watch, reading, 0s, 15s) == row.soon);
    CHECK(looks(watch, reading, 20s, 120s) == row.late);
  }
}

TEST_CASE("an NVMe controller that goes, is given away, or cannot be asked") {
  DiskWatch watch;
  DiskReading reading;
  NvmeReading disk;
  disk.name = "nvme0";
  disk.state = "live";
  reading.nvme = {disk};
  (void)watch.look(reading, 0s);
  reading.nvme[0].trouble = "its file state is empty";
  CHECK(looks(watch, reading, 5s, 30s) == "");
  CHECK(looks(watch, reading, 35s, 40s) == "NO_ANSWER:warn@nvme0");
  reading.nvme[0].trouble.clear();
  reading.nvme[0].listed = false;
  CHECK(looks(watch, reading, 45s, 50s) == "");
  CHECK(looks(watch, reading, 55s, 60s) == "NVME_GONE:error@nvme0");
  reading.nvme[0].moved = true;
  CHECK(looks(watch, reading, 65s, 100s) == "");
}

TEST_CASE("a disk that answers nothing while requests wait has stalled") {
  DiskWatch watch;
  DiskReading reading;
  reading.blocks = {{"nvme0n1", 4, 1000}};
  CHECK(looks(watch, reading, 0s, 120s) == "");  // the first look has nothing to compare with
  CHECK(looks(watch, reading, 125s, 125s) == "IO_STALLED:error@nvme0n1");
  reading.blocks[0].completed = 1001;
  CHECK(looks(watch, reading, 130s, 130s) == "");
  reading.blocks[0].in_flight = 0;
  CHECK(looks(watch, reading, 135s, 900s) == "");
}

TEST_CASE("filesystems that turn read-only, and those that always were") {
  const auto reading = [](std::string_view mounts) {
    DiskReading disks;
    disks.mounts = parse_mounts(mounts);
    return disks;
  };
  DiskWatch watch;
  const auto good = reading("/dev/sda1 / ext4 rw,relatime 0 0\n/dev/sdb1 /media xfs ro 0 0\nproc /proc proc ro 0 0");
  CHECK(codes_of(watch.look(good, 0s)) == "");
  // A pod that mounts the same disk read-only is no fault.
  const auto pod = reading("/dev/sda1 / ext4 rw,relatime 0 0\n/dev/sda1 /var/lib/kubelet/pods/x/subpath ext4 ro 0 0");
  CHECK(codes_of(watch.look(pod, 5s)) == "");
  const auto bad = reading("/dev/sda1 / ext4 ro,relatime 0 0\n/dev/sda1 /var ext4 ro 0 0");
  CHECK(codes_of(watch.look(bad, 10s)) == "READ_ONLY:error@sda1");
  CHECK(codes_of(watch.look(good, 15s)) == "");
  DiskWatch late;  // the agent starts afterwards
  CHECK(codes_of(late.look(bad, 0s)) == "");
  CHECK(codes_of(late.look(reading("/dev/sda1 / ext4 rw,emergency_ro 0 0"), 5s)) == "READ_ONLY:error@sda1");
}

TEST_CASE("ext4 error counts, RAID arrays, and disks that cannot be asked") {
  DiskWatch watch;
  DiskReading reading;
  reading.filesystems = {{"sda1", 0}, {"sdb1", 3}};
  CHECK(codes_of(watch.look(reading, 0s)) == "FS_ERRORS:warn@sdb1");
  reading.filesystems = {{"sda1", 1}, {"sdb1", 4}};
  CHECK(codes_of(watch.look(reading, 5s)) == "FS_ERRORS:error@sda1 FS_ERRORS:error@sdb1");
  reading.filesystems.clear();
  reading.degraded_raids = {"md0"};
  CHECK(codes_of(watch.look(reading, 10s)) == "RAID_DEGRADED:warn@md0");
  reading.degraded_raids.clear();
  reading.troubles = {"1/mounts is garbled"};
  CHECK(looks(watch, reading, 15s, 40s) == "");
  CHECK(looks(watch, reading, 45s, 45s) == "NO_ANSWER:warn@");
}

TEST_CASE("parsers of mounts, mdstat and disk statistics take any text") {
  CHECK(parse_mounts("").empty());
  CHECK(parse_mounts("garbage\n\n \n/dev/sda1\n/dev/sda1 / ext4\n").empty());
  CHECK(parse_mounts("/dev/sda1 / ext4 rw 0 0").size() == 1);
  CHECK_FALSE(parse_mounts("/dev/sda1 /r ext4 rw,errors=remount-ro 0 0").front().read_only);
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "/dev/sda1 /m" + std::to_string(i) + " xfs rw 0 0\n";
  CHECK(parse_mounts(many).size() == DiskWatch::max_known);

  const auto* const mdstat =
      "Personalities : [raid1]\nmd0 : active raid1 sdb1[1] sda1[0](F)\n      976630464 blocks super 1.2 [2/1] [_U]\n"
      "md1 : active raid1 sdb2[1] sda2[0]\n      100 blocks [2/2] [UU]\n\nunused devices: <none>\n";
  CHECK(degraded_raids_of(mdstat) == std::vector<std::string>{"md0"});
  CHECK(degraded_raids_of("]][[ [_] \n[").empty());

  const auto stat = parse_block_stat("sda", "  100 0 800 10 200 0 800 10 3 10 20 5 0 0 0 7 0");
  REQUIRE(stat);
  CHECK(stat->in_flight == 3);
  CHECK(stat->completed == 312);
  CHECK_FALSE(parse_block_stat("sda", "1 2 3"));
  CHECK_FALSE(parse_block_stat("sda", "1 2 3 4 x 6 7 8 9 10 11"));
  CHECK_FALSE(parse_block_stat("sda", ""));
}
