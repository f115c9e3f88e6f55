#include "lab/kernel_log.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "io/files.hpp"
#include "tests/test_folder.hpp"

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

TEST_CASE("a boot begins a new log under a new id; the GPUs are the same hardware") {
  TestFolder folder;
  auto run = folder.file("run");
  REQUIRE(io::make_folders(run));
  REQUIRE(begin_boot(run, {2, false}));
  CHECK(read_machine(run)->gpus == 2);
  auto id = io::read_file(run + "/boot_id"), gpus = io::read_file(run + "/nvml.json");
  REQUIRE(append_lines(run, {{3, "NVRM: x"}}));
  REQUIRE(io::write_file(run + "/steps/12.0.json", "{}"));
  CHECK(io::read_file(run + "/kmsg")->find(",-;NVRM: x\n") != std::string::npos);

  REQUIRE(begin_boot(run, {2, false}));
  CHECK(*io::read_file(run + "/boot_id") != *id);
  CHECK(*io::read_file(run + "/nvml.json") == *gpus);
  CHECK(io::read_file(run + "/kmsg")->starts_with("5,0,"));
  CHECK(io::exists(run + "/steps"));
  CHECK(io::list_folder(run + "/steps").empty());  // what jobs reported before

  // A pod holds the folder that it has mounted: what is reported after the boot is there too.
  const int mounted = ::open((run + "/steps").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(mounted >= 0);
  REQUIRE(begin_boot(run, {2, false}));
  REQUIRE(io::write_file(run + "/steps/13.0.json", "{}"));
  CHECK(::faccessat(mounted, "13.0.json", F_OK, 0) == 0);
  ::close(mounted);
}

TEST_CASE("a machine has ports, memory controllers and a disk; AMD GPUs stand in sys, NVIDIA's in nvml.json") {
  TestFolder folder;
  auto run = folder.file("run");
  REQUIRE(io::make_folders(run));
  REQUIRE(begin_boot(run, {2, true}));
  CHECK(read_machine(run)->amd);
  CHECK(io::list_folder(run + "/sys/class/infiniband") == std::vector<std::string>{"mlx5_0", "mlx5_1"});
  CHECK(io::list_folder(run + "/sys/class/drm") == std::vector<std::string>{"card0", "card1"});
  CHECK(io::list_folder(run + "/sys/class/net").size() == 2);
  CHECK(io::list_folder(run + "/sys/class/nvme").size() == 1);
  CHECK_FALSE(io::exists(run + "/nvml.json"));
  CHECK(io::read_file(run + "/kmsg")->find("NVRM") == std::string::npos);
}
