#include "core/fault/verdict.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/fault/classify.hpp"

using namespace homeostat;
using namespace homeostat::fault;

namespace {

Ledger with(std::initializer_list<std::string_view> lines) {
  Ledger ledger;
  for (auto line : lines) {
    const auto finding = classify_text(line);
    REQUIRE(finding);
    ledger.observe(*finding, TimePoint{}, line);
  }
  return ledger;
}

Judgement judge_lines(std::initializer_list<std::string_view> lines, ProbeState probe = ProbeState::good,
                      std::vector<PolicyRule> rules = {}) {
  const auto ledger = with(lines);
  return judge(ledger.entries(), probe, "", rules);
}

constexpr std::string_view lost = "NVRM: Xid (PCI:0000:0a:00): 79, x";
constexpr std::string_view app_crash = "NVRM: Xid (PCI:0000:0a:00): 13, x";
constexpr std::string_view remap = "NVRM: Xid (PCI:0000:0a:00): 63, x";

}  // namespace

TEST_CASE("the class of repair of each kind of fault") {
  const auto of = [](std::string_view line) {
    const auto finding = classify_text(line);
    REQUIRE(finding);
    const auto how = treatment(*finding, {});
    // What a NodeHealth says of the finding leads to the same treatment.
    const auto again = treatment(finding->component, finding->code, finding->severity, finding->action, {});
    CHECK(how.repair_class == again.repair_class);
    CHECK(how.unambiguous == again.unambiguous);
    return std::string(to_string(how.repair_class)) + (how.unambiguous ? " at once" : "");
  };
  CHECK(of(lost) == "replace-node at once");
  CHECK(of("NVRM: GPU 0000:0a:00.0: GPU has fallen off the bus.") == "replace-node at once");
  CHECK(of(app_crash) == "restart-job");
  CHECK(of("NVRM: Xid (PCI:0000:0a:00): 94, x") == "restart-job");
  CHECK(of("NVRM: Xid (PCI:0000:0a:00): 48, x") == "reset");
  CHECK(of("NVRM: Xid (PCI:0000:0a:00): 74, x") == "replace-node");
  CHECK(of(remap) == "drain-after-job");
  CHECK(of("NVRM: Xid (PCI:0000:0a:00): 43, x") == "ignore");
  CHECK(of("NVRM: Xid (PCI:0000:0a:00): 92, x") == "watch");
  CHECK(of("NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot "
           "Required)") == "replace-node at once");
  CHECK(of("NVRM: Xid (PCI:0000:0a:00): 144, SAW_MVB Fatal XC0 i0 Link 02 (0x00000001 0x00000002 0x0)") == "reset");
  CHECK(of("mlx5_core 0000:d2:00.0: poll_health:1: device's health compromised - reached miss count") ==
        "replace-node at once");
}

TEST_CASE("the gravest finding decides about the node") {
  CHECK(judge_lines({}).verdict == NodeVerdict::healthy);
  CHECK(judge_lines({app_crash}).verdict == NodeVerdict::healthy);
  CHECK(judge_lines({remap}).verdict == NodeVerdict::degraded);
  const auto both = judge_lines({remap, lost});
  CHECK(both.verdict == NodeVerdict::unhealthy);
  CHECK(both.reason == "GpuXid79");
  CHECK(both.message == "gpu-xid 79 on 0000:0a:00: Driver cannot reach the GPU over PCIe (fallen off the bus).");
}

TEST_CASE("a probe that cannot say leaves the node unknown, never healthy; a fault that is sure stays unhealthy") {
  CHECK(judge_lines({}, ProbeState::failed).verdict == NodeVerdict::unknown);
  CHECK(judge_lines({}, ProbeState::pending).verdict == NodeVerdict::unknown);
  CHECK(judge_lines({remap}, ProbeState::failed).verdict == NodeVerdict::unknown);
  CHECK(judge_lines({lost}, ProbeState::failed).verdict == NodeVerdict::unhealthy);
  CHECK(judge_lines({}, ProbeState::absent).verdict == NodeVerdict::healthy);
}

TEST_CASE("rules of a policy override the catalogue, the first that fits decides") {
  const std::vector<PolicyRule> rules = {{"gpu-xid", "63", "", RepairClass::replace_node},
                                         {"", "", "RESTART_BM", RepairClass::watch}};
  CHECK(judge_lines({remap}, ProbeState::good, rules).verdict == NodeVerdict::unhealthy);
  CHECK(judge_lines({lost}, ProbeState::good, rules).verdict == NodeVerdict::degraded);
  const std::vector<PolicyRule> by_code = {{"", "149", "", RepairClass::ignore}};
  const auto link =
      classify_text("NVRM: Xid (PCI:0000:0a:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 02 (0x00000011 0x0 0x0)");
  REQUIRE(link);
  CHECK(treatment(*link, {}).repair_class == RepairClass::reset);
  CHECK(treatment(*link, by_code).repair_class == RepairClass::ignore);
}
