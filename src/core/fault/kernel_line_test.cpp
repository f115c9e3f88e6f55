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
      "d\u00e9c. 30 05:49:34 node-7 kernel: ",
      "30 Ara 05:49:34 node-7 kernel: ",
      "2026-11-30T05:49:34.000001+00:00 node-7 kernel: ",
      "Nov 30 05:49:34.123456 kernel: ",
      "kernel: ",
      "node-7 kernel: ",
      "[  812.000001] kernel: ",
      "[  812.000001] node-7 kernel: ",
      "kern: warning: [2026-11-30T05:49:34.000001Z]: ",
      "10.0.0.7: kern:    info: [2026-11-30T05:49:34.000001Z]: ",
      "node-7: [  812.000001] ",
      "node-7: [Mon Nov 30 05:49:34 2026] ",
      "node-7: Nov 30 05:49:34 node-7 kernel: ",
      "Nov 30 05:49:34 node-7 kern.warn kernel: ",
      "Nov 30 05:49:34 node-7 [  812.000001] ",
      "Nov 30 05:49:34 node-7 ",
      "Mon 2026-11-30 05:49:34 UTC node-7 ",
      "2026-11-30 05:49:34.123 node-7 kernel: ",
      "<4>1 2026-11-30T05:49:34.000001Z node-7 kernel - - [timeQuality tzKnown=\"1\" isSynced=\"0\"] ",
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
  for (std::string prefix :
       {"<14>", "14,88,812000001,-;", "user  :err   : [ 8.0] ", "daemon:info  : ", "Nov 30 05:49:34 node-7 train[99]: ",
        "user: warning: [2026-11-30T05:49:34Z]: ", "Nov 30 05:49:34 node-7 user.notice kernel: ",
        "2026-11-30T05:49:34.000001Z stdout F ", "2026-11-30T05:49:34.000001Z stderr P [  812.000001] ",
        "2026-11-30 05:49:34,123 - INFO - ", "2026-11-30 05:49:34 WARNING ",
        "2026-11-30 05:49:34.000 | ERROR    | a:b:1 - ", "E1130 05:49:34.000001       1 monitor.go:12] "}) {
    CAPTURE(prefix);
    const auto input = prefix + "NVRM: Xid (PCI:0000:0a:00): 79, x";
    CHECK_FALSE(parse_kernel_line(input).from_kernel);
  }
}

TEST_CASE("an entry of the journal in JSON is the kernel's when the journal says so") {
  const std::string text = "NVRM: Xid (PCI:0000:0a:00): 79, pid='\\u003cunknown\\u003e', x";
  const auto entry = [&](std::string_view before, std::string_view behind) {
    return std::string(before) + "\"MESSAGE\" : \"" + text + "\"" + std::string(behind);
  };
  const auto own = entry("{\"_SOURCE_MONOTONIC_TIMESTAMP\":\"812000001\", ", ", \"_TRANSPORT\" : \"kernel\"}");
  const auto line = parse_kernel_line(own);
  CHECK(line.from_kernel);
  CHECK(line.text == text);
  CHECK(line.uptime_us == 812'000'001u);
  const auto others = {entry("{ ", ",\"_TRANSPORT\":\"syslog\"}"), entry("{", "}"), entry("{", ""),
                       entry("{\"x\":\"\\\"_TRANSPORT\\\":\\\"kernel\\\"\",", "}")};
  for (const auto& other : others) {
    CAPTURE(other);
    CHECK_FALSE(parse_kernel_line(other).from_kernel);
  }
  const std::string apei = "{12}[Hardware Error]: event severity: fatal";
  CHECK(parse_kernel_line(apei).text == apei);
}

// Not the kernel's words, but nobody's tag either: no message begins there.
TEST_CASE("words far behind a clock begin no message") {
  for (std::string text : {"Nov 30 05:49:34 node-7 python3 says NVRM: Xid (PCI:0000:0a:00): 79, x",
                           "Nov 30 05:49:34 the trainer saw this line NVRM: Xid (PCI:0000:0a:00): 79, x"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_kernel_line(text).text.starts_with("NVRM:"));
  }
  const std::string device = "2026-11-30T05:49:34Z node-7 amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!";
  CHECK(parse_kernel_line(device).text == "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!");
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
