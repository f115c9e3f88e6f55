#include "core/fault/kernel_line.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace homeostat::fault;

TEST_CASE("whatever wrote the line down, the kernel's own words remain") {
  const std::string text = "NVRM: Xid (PCI:0000:0a:00): 79, pid=7, x";
  const std::string prefixes[] = {
      "",
      "  ",
      "[  812.000001] ",
      "[812.000001][  T77] ",
      "[  812.000001] [ T77] ",
      "[  +0.000123] ",
      "[Mon Nov 30 05:49:34 2026] ",
      "[Nov30 05:49] ",
      "<3>",
      "<4>[  812.000001] ",
      "kern  :err   : ",
      "kern  :crit  : [  812.000001] ",
      "kern  :err   : [Mon Nov 30 05:49:34 2026] ",
      "kern  :err   : 2026-11-30T05:49:34,000001+00:00 ",
      "Nov 30 05:49:34 node-7 kernel: ",
      "Nov  3 05:49:34 node-7 kernel: [  812.000001] ",
      "nov. 30 05:49:34 node-7 kernel: ",
      "d\xc3\xa9"
      "c. 30 05:49:34 node-7 kernel: ",
      "30 Ara 05:49:34 node-7 kernel: ",
      "2026-11-30T05:49:34.000001+00:00 node-7 kernel: ",
      "Nov 30 05:49:34.123456 kernel: ",
      "kernel: ",
      "node-7 kernel: ",
      "3,88,812000001,-;",
      "3,88,812000001,-,caller=T77;",
  };
  for (const auto& prefix : prefixes) {
    CAPTURE(prefix);
    const auto input = prefix + text;
    const auto line = parse_kernel_line(input);
    CHECK(line.text == text);
    CHECK(line.from_kernel);
  }
}

TEST_CASE("the words of another program are not the kernel's") {
  for (std::string prefix : {"<14>", "14,88,812000001,-;", "user  :err   : [ 8.0] ",
                             "daemon:info  : ", "Nov 30 05:49:34 node-7 train[99]: "}) {
    CAPTURE(prefix);
    const auto input = prefix + "NVRM: Xid (PCI:0000:0a:00): 79, x";
    CHECK_FALSE(parse_kernel_line(input).from_kernel);
  }
}

TEST_CASE("a collapsed repetition keeps its number") {
  const auto line = parse_kernel_line(
      "Nov 30 05:49:34 node-7 kernel: message repeated 12 times: [ NVRM: Xid (PCI:0000:0a:00): 31, Ch 1]");
  CHECK(line.text == "NVRM: Xid (PCI:0000:0a:00): 31, Ch 1");
  CHECK(line.repeats == 12);
}

TEST_CASE("a message that begins with brackets, a PCI address or a clock of its own is left whole") {
  for (std::string text :
       {"[Hardware Error]: Machine check events logged", "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout",
        "pcieport 0000:00:03.1: AER: Corrected error received: 0000:00:03.1", "0000:29:00.0: hello"}) {
    CHECK(parse_kernel_line(text).text == text);
    const auto with_time = "[    5.100000] " + text;
    CHECK(parse_kernel_line(with_time).text == text);
  }
}

TEST_CASE("time since boot is read where the line tells it") {
  CHECK(parse_kernel_line("[   12.000345] x").uptime_us == 12'000'345u);
  CHECK(parse_kernel_line("6,1,12000345,-;x").uptime_us == 12'000'345u);
  CHECK_FALSE(parse_kernel_line("[  +0.000345] x").uptime_us.has_value());
  CHECK_FALSE(parse_kernel_line("x").uptime_us.has_value());
}

TEST_CASE("a record of /dev/kmsg") {
  const auto record = parse_kmsg_record("30,12345,999,-;systemd[1]: hello\n SUBSYSTEM=x\n");
  REQUIRE(record);
  CHECK(record->sequence == 12345);
  CHECK(record->uptime_us == 999);
  CHECK(record->text == "systemd[1]: hello");
  CHECK_FALSE(record->from_kernel());
  for (std::string_view bad :
       {"", "3", "3,", "3,4,5", "x,4,5,-;t", "3,4,5,-", "99999999999999999999,1,1,-;t", " SUBSYSTEM=x"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_kmsg_record(bad).has_value());
  }
}
