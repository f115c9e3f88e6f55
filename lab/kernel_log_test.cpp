#include "lab/kernel_log.hpp"

#include <doctest/doctest.h>

#include "io/files.hpp"
#include "lab/random.hpp"

using namespace homeostat;
using namespace homeostat::lab;

TEST_CASE("records have the form of /dev/kmsg") {
  CHECK(kmsg_record(3, 17, 1234567, "NVRM: x") == "3,17,1234567,-;NVRM: x\n");
  CHECK(kmsg_record(6, 0, 0, "a\nb\\c\x01") == "6,0,0,-;a\\x0ab\\x5cc\\x01\n");
}

TEST_CASE("sequences go on after the last whole record") {
  CHECK(next_sequence("") == 0);
  CHECK(next_sequence("6,0,1,-;a\n") == 1);
  CHECK(next_sequence("6,0,1,-;a\n3,41,2,-;b, with, commas\n") == 42);
  CHECK(next_sequence("6,7,1,-;a\n3,8,2,-;half") == 8);  // the half line is not a record yet
  CHECK(next_sequence("junk\n") == 0);
}

TEST_CASE("an XID is told in the driver's words, of the right GPU") {
  auto lines = xid_lines(79, 1, "GPU-u");
  REQUIRE(lines.size() >= 3);
  CHECK(lines[0].text == "NVRM: GPU at PCI:0000:3d:00: GPU-u");
  CHECK(lines[1].text ==
        "NVRM: Xid (PCI:0000:3d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
  for (const auto& line : lines) CHECK(line.priority <= 7);  // facility kernel
  CHECK(xid_lines(48, 0, "u").size() == 2);
  CHECK(xid_lines(998, 0, "u")[1].text.find("): 998, ") != std::string::npos);
}

TEST_CASE("an XID changes what NVML shows of that GPU alone") {
  auto healthy = healthy_gpus({"GPU-a", "GPU-b"});
  auto lost = after_xid(healthy, 79, 1);
  REQUIRE(lost);
  CHECK(lost->find(R"("uuid":"GPU-a","pci":"0000:17:00.0","state":"ok")") != std::string::npos);
  CHECK(lost->find(R"("uuid":"GPU-b","pci":"0000:3d:00.0","state":"lost")") != std::string::npos);
  auto ecc = after_xid(healthy, 48, 0);
  REQUIRE(ecc);
  CHECK(ecc->find(R"("ecc_uncorrected":1)") != std::string::npos);
  CHECK(after_xid(healthy, 13, 0) == healthy);
  CHECK(after_xid(healthy, 79, 2).error().kind == ErrorKind::not_found);
  CHECK(after_xid("junk", 79, 0).error().kind == ErrorKind::invalid);
}

TEST_CASE("a boot begins a new log under a new id; the GPUs are the same hardware") {
  auto folder = "/tmp/kernel-log-test-" + random_hex(8);
  auto run = folder + "/run";
  REQUIRE(io::make_folders(run));
  REQUIRE(begin_boot(run, 2));
  auto id = io::read_file(run + "/boot_id"), gpus = io::read_file(run + "/nvml.json");
  REQUIRE(inject_xid(run, 79, 1));
  auto log = io::read_file(run + "/kmsg");
  REQUIRE(log);
  CHECK(log->find(",-;NVRM: Xid (PCI:0000:3d:00): 79,") != std::string::npos);
  CHECK(io::read_file(run + "/nvml.json")->find("lost") != std::string::npos);
  CHECK_FALSE(inject_xid(run, 79, 2));
  CHECK_FALSE(inject_xid(run, 0, 0));
  CHECK(*io::read_file(run + "/kmsg") == *log);  // what was refused left no line

  REQUIRE(begin_boot(run, 2));
  CHECK(*io::read_file(run + "/boot_id") != *id);
  CHECK(*io::read_file(run + "/nvml.json") == *gpus);
  CHECK(io::read_file(run + "/kmsg")->starts_with("5,0,"));
  CHECK(io::remove_tree(folder));
}
