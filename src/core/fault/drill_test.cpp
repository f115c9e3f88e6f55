#include "core/fault/drill.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "core/fault/classify.hpp"
#include "core/fault/ledger.hpp"

using namespace homeostat;
using namespace homeostat::fault;

namespace {

constexpr TimePoint now{Duration{1'764'483'000'000}};
const std::string token = "0123456789abcdef0123456789abcdef";

DrillPlan must_plan(std::string_view fault, bool fake_hardware = false) {
  auto parsed = parse_drill(fault);
  REQUIRE_MESSAGE(parsed, fault);
  auto plan = plan_drill(*parsed, {"0000:17:00", "GPU-u", fake_hardware});
  REQUIRE_MESSAGE(plan, fault);
  return *plan;
}

ArmedDrill armed(std::string_view fault = "xid=79") {
  ArmedDrill drill{"d", token, {}, {}, now + Duration{60'000}};
  const auto plan = must_plan(fault);
  for (const auto& line : plan.lines) drill.lines.push_back(line.text);
  drill.findings = plan.findings;
  return drill;
}

std::string signed_line(std::string_view secret, std::string_view line) {
  return std::string(drill_marker).append(secret).append(" ").append(line);
}

}  // namespace

TEST_CASE("a fault has one spelling, whatever it was ordered as") {
  struct Case {
    std::string_view text, canonical;
  };
  constexpr Case cases[] = {
      {"xid=79", "xid=79"},
      {"  xid=079  ", "xid=79"},
      {"xid=154", "xid=154/0x1"},
      {"xid=154/0x02", "xid=154/0x2"},
      {"sxid=12028 count=3", "sxid=12028 count=3"},
      {"nvlink5=149", "nvlink5=149"},
      {"nvlink5=149/NETIR_LINK_EVT driver=580", "nvlink5=149/NETIR_LINK_EVT driver=580"},
      {"link=flap count=5 port=mlx5_0:1", "link=flap port=mlx5_0:1 count=5"},
      {"link=down", "link=down"},
      {"ecc=row-remap-pending count=1", "ecc=row-remap-pending"},
      {"thermal", "thermal"},
      {"hang", "hang"},
      {"lost", "lost"},
      {"amd=reset-failed", "amd=reset-failed"},
      {"clear", "clear"},
  };
  for (const auto& [text, canonical] : cases) {
    const auto fault = parse_drill(text);
    REQUIRE_MESSAGE(fault, text);
    CHECK(to_text(*fault) == canonical);
    CHECK(parse_drill(to_text(*fault)) == *fault);
  }
}

TEST_CASE("what cannot be ordered is refused with what to write instead") {
  struct Case {
    std::string_view text, says;
  };
  const std::string long_text(200, 'x');
  const Case cases[] = {
      {"", "write which fault"},
      {"bang", "write which fault"},
      {"xid", "write which fault"},
      {"thermal=3", "write which fault"},
      {"xid=", "1 to 999"},
      {"xid=0", "1 to 999"},
      {"xid=1000", "1 to 999"},
      {"xid=-79", "1 to 999"},
      {"xid=79/0x1", "only XID 154"},
      {"xid=154/0x9", "0x0 to 0x7"},
      {"sxid=79", "five digits"},
      {"nvlink5=79", "144 to 150"},
      {"nvlink5=149/lower", "144 to 150"},
      {"link=up", "link=down, link=flap"},
      {"ecc=", "ecc=uncorrectable"},
      {"amd=melted", "amd=ue, amd=poison"},
      {"xid=79 count=0", "count=100"},
      {"xid=79 count=101", "count=100"},
      {"xid=79 port=mlx5_0:1", "'port' is no setting"},
      {"link=flap port=mlx5_0", "device:number"},
      {"link=flap port=a/b:1", "device:number"},
      {"xid=79 again", "'again' is no setting"},
      {"xid=79 driver=1", "driver=580"},
      {"xid=79; reboot", "1 to 999"},
      {"xid=79 \"", "one short line"},
      {"xid=79\nNVRM: x", "one short line"},
      {long_text, "one short line"},
  };
  for (const auto& [text, says] : cases) {
    const auto fault = parse_drill(text);
    REQUIRE_FALSE_MESSAGE(fault.has_value(), text);
    CHECK(fault.error().kind == ErrorKind::invalid);
    CHECK_MESSAGE(fault.error().message.find(says) != std::string::npos, fault.error().message);
  }
}

TEST_CASE("a device is an index or a PCI address") {
  for (std::string_view good : {"", "0", "15", "0000:17:00", "0000:17:00.0"})
    CHECK_MESSAGE(is_drill_device(good), good);
  for (std::string_view bad : {"64", "-1", "gpu0", "17:zz", "0000:17:00 x", "0000:17:00.0.0", "../x"})
    CHECK_FALSE_MESSAGE(is_drill_device(bad), bad);
}

//  what is ordered -> the finding that the agent makes of the planned lines, by the same code that reads real ones
TEST_CASE("the planned lines are taken for the fault that was ordered") {
  struct Case {
    std::string_view fault, id;
    Severity severity;
  };
  constexpr Case cases[] = {
      {"xid=79", "gpu-xid:79@0000:17:00", Severity::fatal},
      {"xid=13", "gpu-xid:13@0000:17:00", Severity::error},
      {"xid=154/0x2", "gpu-xid:154/0x2@0000:17:00", Severity::fatal},
      {"xid=74", "nvlink:74@0000:17:00", Severity::fatal},
      {"xid=998", "gpu-xid:998@0000:17:00", Severity::warn},
      {"nvlink5=149", "nvlink:149/NETIR@0000:17:00", Severity::fatal},
      {"nvlink5=149/NETIR_LINK_EVT", "nvlink:149/NETIR_LINK_EVT@0000:17:00", Severity::fatal},
      {"nvlink5=149/NETIR_LINK_EVT driver=580", "nvlink:149/NETIR_LINK_EVT@0000:17:00", Severity::fatal},
      {"nvlink5=144", "nvlink:144/SAW_MVB@0000:17:00", Severity::fatal},
      {"sxid=12020", "gpu-sxid:12020@0000:17:00.0", Severity::fatal},
      {"lost", "gpu-lost:79@0000:17:00", Severity::fatal},
      {"ecc=uncorrectable", "gpu-xid:48@0000:17:00", Severity::fatal},
      {"ecc=row-remap-failure", "gpu-xid:64@0000:17:00", Severity::fatal},
      {"amd=ue", "amd-ras:RAS_UE/umc@0000:17:00", Severity::fatal},
      {"amd=poison", "amd-ras:POISON_CONSUMED@0000:17:00", Severity::fatal},
      {"amd=reset-failed", "amd-gpu:RESET_FAILED@0000:17:00", Severity::fatal},
  };
  for (const auto& [fault, id, severity] : cases) {
    const auto plan = must_plan(fault);
    REQUIRE_MESSAGE(!plan.findings.empty(), fault);
    CHECK_MESSAGE(plan.findings.front() == id, fault);
    bool grave = false;
    for (const auto& line : plan.lines)
      if (const auto finding = classify_text(line.text))
        grave |= finding_id(*finding) == id && finding->severity >= severity;
    CHECK_MESSAGE(grave, fault);
  }
}

TEST_CASE("every code of the catalogue's kinds can be ordered, on drivers old and new, and each line fits a record") {
  for (int xid = 1; xid < 1000; ++xid)
    for (const auto* driver : {"", " driver=580"}) {
      const auto plan = must_plan("xid=" + std::to_string(xid) + driver);
      CHECK(plan.findings.size() >= 1);
      for (const auto& line : plan.lines) {
        CHECK(line.text.size() < 400);
        CHECK(line.level <= 6);
      }
    }
  for (int code = 144; code <= 150; ++code)
    for (const auto* driver : {"", " driver=580"}) must_plan("nvlink5=" + std::to_string(code) + driver);
  for (const auto* code : {"10001", "12028", "26006", "99999"}) must_plan(std::string("sxid=") + code);
}

TEST_CASE("newer drivers say channel where older ones said Ch") {
  const auto has = [](const DrillPlan& plan, std::string_view text) {
    return std::any_of(plan.lines.begin(), plan.lines.end(),
                       [&](const DrillLine& line) { return line.text.find(text) != std::string::npos; });
  };
  CHECK(has(must_plan("xid=43"), ", Ch 00000008"));
  CHECK(has(must_plan("xid=43 driver=580"), ", channel 0x00000008"));
}

TEST_CASE("count repeats the lines and the expectation stays one") {
  const auto once = must_plan("xid=43"), often = must_plan("xid=43 count=9");
  CHECK(often.lines.size() == once.lines.size() + 8);
  CHECK(often.findings == once.findings);
  CHECK_FALSE(plan_drill(*parse_drill("xid=79 count=100"), {"0000:17:00"}));
}

TEST_CASE("only fake hardware can be hot, hang or lose a link; there, what its sensors see is expected, too") {
  for (std::string_view fault : {"thermal", "hang", "link=down", "link=flap"}) {
    const auto refused = plan_drill(*parse_drill(fault), {"0000:17:00"});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("xid=79") != std::string::npos);
    CHECK_FALSE(must_plan(fault, true).findings.empty());
    CHECK(must_plan(fault, true).lines.empty());
  }
  const auto lost = must_plan("xid=79", true);
  CHECK(lost.findings.front() == "gpu-xid:79@0000:17:00");
  CHECK(matches_expected("gpu-nvml:GPU_LOST@0000:17:00", lost.findings));
  CHECK_FALSE(matches_expected("gpu-nvml:GPU_LOST@0000:3d:00", lost.findings));
  CHECK_FALSE(matches_expected("gpu-xid:79@0000:3d:00", lost.findings));
  CHECK_FALSE(matches_expected("gpu-nvml:GPU_LOST@0000:17:00", must_plan("xid=79").findings));
}

TEST_CASE("clearing expects nothing and says that no recovery is asked for any more") {
  const auto plan = must_plan("clear");
  CHECK(plan.findings.empty());
  REQUIRE(plan.lines.size() == 1);
  const auto finding = classify_text(plan.lines.front().text);
  REQUIRE(finding);
  CHECK(finding->code == "154/0x0");
  const auto of_amd = plan_drill(*parse_drill("clear"), {.device = "0000:c3:00", .amd = true});
  REQUIRE(of_amd);
  REQUIRE(of_amd->lines.size() == 1);
  const auto reset = classify_text(of_amd->lines.front().text);
  REQUIRE(reset);
  CHECK(finding_id(*reset) == "amd-gpu:RESET_OK@0000:c3:00");
}

TEST_CASE("patterns: a star stands for any run of characters") {
  struct Case {
    std::string_view id, pattern;
    bool fits;
  };
  constexpr Case cases[] = {{"a:b@c", "a:b@c", true},
                            {"a:b@c", "a:*@c", true},
                            {"a:b@c", "a:*@d", false},
                            {"a:b@c", "*", true},
                            {"", "*", true},
                            {"", "a", false},
                            {"a:bb@c", "a:*b@*c", true},
                            {"aXbXc", "*X*X*", true},
                            {"ab", "a*b*c", false},
                            {"gpu-xid:790", "gpu-xid:79", false}};
  for (const auto& [id, pattern, fits] : cases) {
    const std::vector<std::string> expected{std::string(pattern)};
    CHECK_MESSAGE(matches_expected(id, expected) == fits, pattern);
  }
  CHECK_FALSE(matches_expected("a", {}));
}

TEST_CASE("help names only faults that can be ordered") {
  CHECK(drill_catalog().size() > 15);
  for (const auto& row : drill_catalog()) {
    std::string usage(row.usage.substr(0, row.usage.find(" [")));
    if (const auto at = usage.find("CODE"); at != std::string::npos) usage.replace(at, 4, "79");
    const auto fault = parse_drill(usage);
    REQUIRE_MESSAGE(fault, usage);
    CHECK(plan_drill(*fault, {"0000:17:00"}).has_value() != row.lab_only);
    CHECK(plan_drill(*fault, {"0000:17:00", "", true}).has_value());
  }
}

TEST_CASE("a planned line with the right token is the fault, once") {
  std::vector<ArmedDrill> held{armed()};
  const auto line = held[0].lines[1];
  const auto first = judge_user_line(signed_line(token, line), held, now);
  CHECK(first.what == UserLine::drill);
  CHECK(first.line == line);
  CHECK(judge_user_line(signed_line(token, line), held, now).what == UserLine::forgery);
  // The other lines of the same drill still count.
  CHECK(judge_user_line(signed_line(token, held[0].lines[2]), held, now).what == UserLine::drill);
}

TEST_CASE("a line that is planned several times counts as often") {
  std::vector<ArmedDrill> held{armed("xid=43 count=3")};
  const auto line = held[0].lines.back();
  for (int i = 0; i < 3; ++i) CHECK(judge_user_line(signed_line(token, line), held, now).what == UserLine::drill);
  CHECK(judge_user_line(signed_line(token, line), held, now).what == UserLine::forgery);
}

TEST_CASE("everything else that a process writes is a forgery when it looks like a fault, and nothing otherwise") {
  struct Case {
    std::string text;
    UserLine what;
  };
  const std::string fault = armed().lines[1];
  const std::string other_gpu =
      "NVRM: Xid (PCI:0000:3d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
  const Case cases[] = {
      {fault, UserLine::forgery},                                     // without any token
      {signed_line("", fault), UserLine::forgery},                    // an empty one
      {signed_line(std::string(32, '0'), fault), UserLine::forgery},  // a wrong one
      {signed_line(token.substr(0, 31), fault), UserLine::forgery},   // a part of it
      {signed_line(token + "0", fault), UserLine::forgery},           // more than it
      {signed_line(token, other_gpu), UserLine::forgery},             // the right one for another line
      {signed_line(token, fault + " "), UserLine::forgery},           // nearly the line
      {signed_line(token, ""), UserLine::forgery},                    // no line
      {std::string(drill_marker) + token, UserLine::forgery},         // not even a space
      {"homeostat-drill", UserLine::nothing},                         // a word that means nothing yet
      {"systemd[1]: Started Session 3 of user ada.", UserLine::nothing},
      {" " + signed_line(token, fault), UserLine::nothing},  // does not begin like a drill, nor like a fault
      {"", UserLine::nothing},
      {std::string(100'000, 'A'), UserLine::nothing},
  };
  for (const auto& [text, what] : cases) {
    std::vector<ArmedDrill> held{armed()};
    CHECK_MESSAGE(judge_user_line(text, held, now).what == what, text.substr(0, 80));
    CHECK(std::none_of(held[0].used.begin(), held[0].used.end(), [](bool used) { return used; }));
  }
}

TEST_CASE("a token is good for a minute, for its own drill, and never when there is none") {
  std::vector<ArmedDrill> held{armed(), armed("xid=43")};
  held[1].name = "e", held[1].token = std::string(32, 'b');
  const auto line = held[0].lines[1];
  CHECK(judge_user_line(signed_line(held[1].token, line), held, now).what == UserLine::forgery);
  CHECK(judge_user_line(signed_line(token, line), held, held[0].expires_at).what == UserLine::forgery);
  CHECK(judge_user_line(signed_line(token, line), held, held[0].expires_at - Duration{1}).what == UserLine::drill);
  CHECK(judge_user_line(signed_line(token, line), {}, now).what == UserLine::forgery);
  held[0].token.clear();  // a drill that was never armed properly
  held[0].used.clear();
  CHECK(judge_user_line(std::string(drill_marker) + " " + line, held, now).what == UserLine::forgery);
}

TEST_CASE("whatever is written, only a planned line with its token is taken, and never twice") {
  CHECK(rc::check("any bytes, with and without the right token in front", [](const std::string& bytes, bool signs) {
    std::vector<ArmedDrill> held{armed("xid=43 count=2")};
    const auto text = signs ? signed_line(token, bytes) : bytes;
    const auto verdict = judge_user_line(text, held, now);
    const bool planned = std::find(held[0].lines.begin(), held[0].lines.end(), bytes) != held[0].lines.end();
    RC_ASSERT((verdict.what == UserLine::drill) == (signs && planned));
    RC_ASSERT(verdict.line.empty() || verdict.line == bytes);
    if (text.starts_with(drill_marker) && !planned) RC_ASSERT(verdict.what == UserLine::forgery);
  }));
  CHECK(rc::check("any token that is not the right one", [](const std::string& wrong) {
    RC_PRE(wrong != token && wrong.find(' ') == std::string::npos);
    std::vector<ArmedDrill> held{armed()};
    for (const auto& line : held[0].lines)
      RC_ASSERT(judge_user_line(signed_line(wrong, line), held, now).what == UserLine::forgery);
  }));
  CHECK(rc::check("in any order, each line counts as often as it is planned", [] {
    const auto repeats = *rc::gen::inRange(1, 5);
    std::vector<ArmedDrill> held{armed("xid=43 count=" + std::to_string(repeats))};
    auto lines = held[0].lines;
    const auto& repeated = held[0].lines.back();
    lines.push_back(repeated);  // once more than planned
    int taken = 0;
    for (const auto index : *rc::gen::container<std::vector<size_t>>(40, rc::gen::inRange<size_t>(0, lines.size())))
      if (lines[index] == repeated && judge_user_line(signed_line(token, repeated), held, now).what == UserLine::drill)
        ++taken;
    RC_ASSERT(taken <= repeats);
  }));
}

TEST_CASE("any words as a fault: refused with a sentence, or one spelling that means the same") {
  CHECK(rc::check("any bytes", [](const std::string& text) {
    const auto fault = parse_drill(text);
    if (!fault) {
      RC_ASSERT(fault.error().kind == ErrorKind::invalid && !fault.error().message.empty());
      return;
    }
    RC_ASSERT((parse_drill(to_text(*fault)) == *fault));
  }));
  CHECK(rc::check("any known kind with any value and settings", [] {
    const auto word =
        *rc::gen::element<std::string>("xid=", "sxid=", "nvlink5=", "link=", "ecc=", "amd=", "hang", "xid=154/");
    const auto value =
        *rc::gen::element<std::string>("79", "48", "12028", "149", "flap", "ue", "0x3", "", "correctable");
    const auto count = *rc::gen::inRange(-2, 200);
    const auto fault = parse_drill(word + value + " count=" + std::to_string(count));
    if (!fault) return;
    RC_ASSERT((parse_drill(to_text(*fault)) == *fault));
    RC_ASSERT(fault->count >= 1 && fault->count <= max_drill_count);
    const auto plan = plan_drill(*fault, {"0000:17:00", "GPU-u", true});
    if (plan) RC_ASSERT(plan->lines.size() <= max_drill_lines);
  }));
}
