// Every form of a line that we know (tests/lines/kernel.tsv), alone and behind whatever may have written it down.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "core/fault/catalog.hpp"
#include "core/fault/classify.hpp"

using namespace homeostat::fault;

namespace {

struct Row {
  std::string wanted, line;
};

std::vector<Row> read_rows() {
  std::ifstream file(HOMEOSTAT_SOURCE_DIR "/tests/lines/kernel.tsv");
  std::vector<Row> rows;
  for (std::string text; std::getline(file, text);) {
    const auto tab = text.find('\t');
    if (text.empty() || text.front() == '#' || tab == std::string::npos) continue;
    rows.push_back({text.substr(0, tab), text.substr(tab + 1)});
  }
  return rows;
}

const std::vector<Row>& rows() {
  static const auto all = read_rows();
  return all;
}

std::string short_row(const std::optional<Finding>& finding) {
  if (!finding) return "none";
  std::string out;
  append_row(out, finding);
  for (char& c : out)
    if (c == '\t') c = '|';
  return out;
}

std::string bracketed(std::uint64_t us) {
  const auto fraction = std::to_string(1'000'000 + us % 1'000'000).substr(1);
  auto seconds = std::to_string(us / 1'000'000);
  if (seconds.size() < 5) seconds.insert(0, 5 - seconds.size(), ' ');
  return "[" + seconds + "." + fraction + "]";
}

rc::Gen<std::string> one_of(std::vector<std::string> texts) { return rc::gen::elementOf(std::move(texts)); }

// Two hours after the boot and later, so that no link is merely starting.
std::uint64_t some_uptime() { return *rc::gen::inRange<std::uint64_t>(7'200'000'000, 9'000'000'000'000); }

std::string some_clock() { return *one_of({"05:49:34", "23:59:59", "00:00:00", "12:00:01"}); }

std::string some_host() {
  return *one_of({"node-7", "ip-10-0-0-12", "gpu07.cluster.local", "n", "h100-001", "localhost"});
}

// Months as glibc's locales print them, with and without a full stop, before or behind the day.
std::string some_date() {
  return *one_of({"Nov 30", "Nov  3", "nov. 30", "30 nov.", "d\303\251c. 30", "30. Nov", "kwi 15", "april 19", "Ter  7",
                  "30 Ara", "f\303\251vr. 3", "M\xc3\xa4r 12", "11\xe6\x9c\x88 30", "\xd1\x84\xd0\xb5\xd0\xb2 12",
                  "Okt  1", "lis 30", "Kas 30", "marras 30"});
}

std::string some_weekday_time() {
  return *one_of({"Mon Nov 30 05:49:34 2026", "Mo Nov 30 05:49:34 2026", "lun. nov. 30 05:49:34 2026",
                  "pon lis 30 05:49:34 2026", "lun 30 nov 2026 05:49:34", "Mon Nov 30 17:49:34 UTC 2026",
                  "\xd0\x9f\xd0\xbd \xd0\xbd\xd0\xbe\xd1\x8f 30 05:49:34 2026", "Nov30 05:49"});
}

// What stands before the message when it was printed by dmesg, in one of its styles, or read raw.
std::string some_dmesg_prefix() {
  const auto us = some_uptime();
  const auto caller = *one_of({"", "[ T1946] ", "[    C3] ", "[T77] "});
  switch (*rc::gen::inRange(0, 12)) {
    case 9:
      return some_host() + ": " + *one_of({bracketed(us), "[" + some_weekday_time() + "]"}) + " " + caller;
    case 10:
      return *one_of({"", "10.0.0.7: ", "fd00::7: "}) +
             "kern: " + *one_of({"warning", "   info", "  debug", "  emerg"}) + ": [2026-11-30T05:49:34.000001Z]: ";
    case 11:
      return bracketed(us) + " kernel: ";
    case 8:
      return *one_of(
          {"[ 7812.000001 <    0.000844>] ", "[Mon Nov 30 05:49:34 2026 <    0.000844>] ", "[<    0.000844>] "});
    case 0:
      return "";
    case 1:
      return bracketed(us) + " " + caller;
    case 2:
      return "<" + std::to_string(*rc::gen::inRange(0, 8)) + ">" + *one_of({"", bracketed(us) + " "});
    case 3:
      return "[" + some_weekday_time() + "] " + caller;
    case 4:
      return *one_of({"[  +0.000844] ", "[ +12.000000] ", "[  +0.000000] "});
    case 5:
      return "kern  :" + *one_of({"emerg", "alert", "crit ", "err  ", "warn ", "notice", "info ", "debug"}) + " : " +
             *one_of({"", bracketed(us) + " ", "2026-11-30T05:49:34,000001+00:00 ", "[" + some_weekday_time() + "] "});
    case 6:
      return "2026-11-30T05:49:34,145363-04:00 ";
    default:
      return *one_of({"  ", "\t", "[" + bracketed(us).substr(1) + " "});
  }
}

// What syslog or the journal puts before it.
std::string some_syslog_prefix() {
  auto kernel = *one_of({"kernel: ", "kernel: " + bracketed(some_uptime()) + " ", "kernel: <4>"});
  switch (*rc::gen::inRange(0, 13)) {
    case 9:
      return some_date() + " " + some_clock() + " " + some_host() + " " + *one_of({"kern.warn ", "kern.err "}) + kernel;
    case 10:
      return "<" + std::to_string(*rc::gen::inRange(0, 8)) +
             ">1 2026-11-30T05:49:34.000001Z node-7 kernel - - [timeQuality tzKnown=\"1\"] ";
    case 11:
      return *one_of({"2026-11-30 ", "2026/11/30 ", "11/30/2026 ", "Nov 30 2026 "}) + some_clock() +
             *one_of({"", ".123", ",123456"}) + *one_of({" ", " UTC ", " +0100 "}) + some_host() + " " + kernel;
    case 12:
      return *one_of({"/var/log/syslog:", "/var/log/messages-20261130:", "17:", "node-7: "}) + some_date() + " " +
             some_clock() + " " + some_host() + " " + kernel;
    case 6:
      return bracketed(some_uptime()) + " " + some_host() + " " + kernel;
    case 7:
      return "1764481774.000001 " + some_host() + " " + kernel;
    case 8:
      return "<" + std::to_string(*rc::gen::inRange(0, 8)) + ">" +
             *one_of({"1 2026-11-30T05:49:34.000001+00:00 node-7 kernel - - - ", "Nov 30 05:49:34 node-7 kernel: ",
                      "1 2026-11-30T05:49:34.000001Z node-7 kernel - - - [ 7812.000001] "});
    case 0:
      return some_date() + " " + some_clock() + " " + some_host() + " " + kernel;
    case 1:
      return "2026-11-30T05:49:34.000001+00:00 " + some_host() + " " + kernel;
    case 2:
      return some_date() + " " + some_clock() + ".123456 " + kernel;
    case 3:
      return kernel;
    case 4:
      return some_host() + " " + kernel;
    default:
      return "Mon 2026-11-30 05:49:34 UTC " + some_host() + " " + kernel;
  }
}

std::string in_journal_json(const std::string& message, const std::string& transport) {
  std::string text;
  for (char c : message) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  const auto colon = *one_of({":", ": ", " : "});
  return *one_of({"{", "{ "}) + "\"_SOURCE_MONOTONIC_TIMESTAMP\"" + colon + "\"" + std::to_string(some_uptime()) +
         "\",\"MESSAGE\"" + colon + "\"" + text + "\",\"_TRANSPORT\"" + colon + "\"" + transport +
         "\",\"SYSLOG_IDENTIFIER\":\"kernel\"}";
}

struct Written {
  std::string line;
  std::uint32_t repeats = 1;
};

Written write_down(const std::string& message) {
  const auto times = *rc::gen::inRange<std::uint32_t>(2, 5000);
  switch (*rc::gen::inRange(0, 5)) {
    case 3:
      return {in_journal_json(message, "kernel")};
    case 0:
      return {some_dmesg_prefix() + message};
    case 1:
      return {some_syslog_prefix() + message};
    case 2:
      return {some_syslog_prefix() + "message repeated " + std::to_string(times) + " times: [ " +
                  *one_of({"", bracketed(some_uptime()) + " "}) + message + "]",
              times};
    default:
      return {std::to_string(*rc::gen::inRange(0, 8)) + "," + std::to_string(*rc::gen::inRange(0, 1 << 30)) + "," +
              std::to_string(some_uptime()) + "," + *one_of({"-", "c", "-,caller=T77"}) + ";" + message +
              *one_of({"", "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:1b:00.0\n"})};
  }
}

// What the form shows to be of another facility or of a program; a tag without a number in brackets shows neither.
std::string written_by_a_program(const std::string& message) {
  const auto facility = *rc::gen::inRange(1, 24);
  const auto priority = std::to_string(facility * 8 + *rc::gen::inRange(0, 8));
  switch (*rc::gen::inRange(0, 9)) {
    case 5:
      return in_journal_json(message, *one_of({"syslog", "stdout", "journal", "audit"}));
    case 6:
      return "{\"log\":\"x\",\"MESSAGE\":\"" + message + "\\n\",\"stream\":\"stdout\"}";
    case 7:
      return *one_of({"2026-11-30T05:49:34.000001Z stdout F ", "2026-11-30T05:49:34.000001Z stderr P ",
                      "2026-11-30 05:49:34,123 - INFO - ", "2026-11-30 05:49:34 ERROR ",
                      "11/30/2026 05:49:34 | WARN | ", "W1130 05:49:34.000001    4711 watch.go:88] "}) +
             message;
    case 8:
      return *one_of({"user: warning: ", "daemon:    err: "}) + "[2026-11-30T05:49:34Z]: " + message;
    case 4:
      return bracketed(some_uptime()) + " " + some_host() + " train[99]: " + message;
    case 0:
      return priority + ",12," + std::to_string(some_uptime()) + ",-;" + message;
    case 1:
      return "<" + priority + ">" + *one_of({"", bracketed(some_uptime()) + " "}) + message;
    case 2:
      return *one_of({"user  ", "daemon", "syslog", "auth  ", "local0", "authpriv"}) + ":" +
             *one_of({"err   ", "crit  ", "info  ", "warn  "}) + ": " +
             *one_of({"", bracketed(some_uptime()) + " ", "[" + some_weekday_time() + "] "}) + message;
    default:
      return some_date() + " " + some_clock() + " " + some_host() + " " +
             *one_of({"train[99]: ", "python3[1]: ", "systemd[1]: "}) + message;
  }
}

}  // namespace

TEST_CASE("each known form is taken for what it is") {
  REQUIRE(rows().size() > 350);
  for (const auto& row : rows()) {
    CAPTURE(row.line);
    CHECK(short_row(classify_text(row.line)) == row.wanted);
  }
}

TEST_CASE("each action word of a finding is explained, and good news ask for nothing") {
  for (const auto& row : rows()) {
    const auto finding = classify_text(row.line);
    if (!finding) continue;
    CAPTURE(row.line);
    CHECK((finding->action.empty() || Catalog::instance().action(finding->action)));
    if (finding->action == "CLEAR") CHECK(finding->repair_class == RepairClass::ignore);
    if (finding->severity == Severity::info)
      CHECK((finding->repair_class == RepairClass::ignore || finding->repair_class == RepairClass::watch));
  }
}

TEST_CASE("whatever wrote the line down, the finding is the same") {
  const bool held = rc::check("prefix forms", [] {
    const auto row = *rc::gen::elementOf(rows());
    const auto written = write_down(row.line);
    RC_LOG() << written.line;
    const auto plain = classify_text(row.line), found = classify_text(written.line);
    RC_ASSERT(short_row(found) == short_row(plain));
    if (!plain) return;
    RC_ASSERT(found->repeats == written.repeats);
    RC_ASSERT(found->title == plain->title);
    RC_ASSERT(found->caused_by == plain->caused_by);
    RC_ASSERT(found->gpu_instance == plain->gpu_instance);
    RC_ASSERT(found->repair_class == plain->repair_class);
    RC_ASSERT(found->unambiguous == plain->unambiguous);
  });
  CHECK(held);
}

TEST_CASE("a line of another facility or program is never a finding") {
  const bool held = rc::check("forged lines", [] {
    const auto row = *rc::gen::elementOf(rows());
    const auto line = written_by_a_program(row.line);
    RC_LOG() << line;
    RC_ASSERT_FALSE(classify_text(line).has_value());
  });
  CHECK(held);
}

TEST_CASE("any bytes are survived, and a finding made of them can be carried by the rest of the house") {
  const bool held = rc::check("any bytes", [] {
    auto text = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    if (*rc::gen::arbitrary<bool>()) {
      // A known line with a hole, a doubled part or a foreign byte in it.
      auto line = rc::gen::elementOf(rows()).operator*().line;
      const auto at = *rc::gen::inRange<size_t>(0, line.size());
      const auto length = *rc::gen::inRange<size_t>(0, line.size() - at + 1);
      text = line.substr(0, at) + text + line.substr(at + *rc::gen::inRange<size_t>(0, length + 1));
    }
    if (const auto finding = classify_text(text)) {
      RC_ASSERT(finding->code.size() <= 128u);
      RC_ASSERT(finding->device.size() <= 128u);
      for (char c : finding->component + finding->code + finding->device + finding->action)
        RC_ASSERT((c > ' ' && c <= '~'));
    }
  });
  CHECK(held);
}

// Bytes that make a quadratic reader slow: whatever a search restarts at. 64 lines of the longest length must not take
// longer than reading 8 MB does on a busy machine.
TEST_CASE("the time for a line is linear in its length, and bounded") {
  for (const std::string unit : {"(", ":", "[", "0000:", "pod", "/job_1slurm", " to 0x", "AER:", "error, dev ", " in ",
                                 "a ", "EDAC ", "NVRM: Xid (", "oom-kill:constraint=,task_memcg=/pod", "<3>", "0,"}) {
    std::string line;
    while (line.size() < 1'000'000) line += unit;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 64; ++i) static_cast<void>(classify_text(line));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    CAPTURE(unit);
    CHECK(took.count() < 1.0);
  }
}
