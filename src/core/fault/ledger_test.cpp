#include "core/fault/ledger.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/fault/classify.hpp"

using namespace homeostat;
using namespace homeostat::fault;

namespace {

TimePoint at(int seconds) { return TimePoint(std::chrono::seconds(1'700'000'000 + seconds)); }

Change see(Ledger& ledger, std::string_view line, int seconds = 0) {
  const auto finding = classify_text(line);
  REQUIRE(finding);
  return ledger.observe(*finding, at(seconds), line);
}

}  // namespace

TEST_CASE("repetitions fold into one entry with first and last time") {
  Ledger ledger;
  CHECK(see(ledger, "NVRM: Xid (PCI:0000:0a:00): 31, a", 1) == Change::fresh);
  CHECK(see(ledger, "NVRM: Xid (PCI:0000:0a:00): 31, b", 5) == Change::repeated);
  CHECK(see(ledger, "kernel: message repeated 3 times: [ NVRM: Xid (PCI:0000:0a:00): 31, b]", 9) == Change::repeated);
  REQUIRE(ledger.entries().size() == 1);
  const auto& entry = ledger.entries()[0];
  CHECK(entry.id == "gpu-xid:31@0000:0a:00");
  CHECK(entry.count == 5);
  CHECK(entry.first_seen == at(1));
  CHECK(entry.last_seen == at(9));
  CHECK(entry.evidence == "NVRM: Xid (PCI:0000:0a:00): 31, a");
}

TEST_CASE("a graver occurrence is fresh and becomes the evidence") {
  Ledger ledger;
  see(ledger, "[ 12.0] mlx5_core 0000:21:00.1 rail0: Link down");
  CHECK(see(ledger, "[ 9000.0] mlx5_core 0000:21:00.1 rail0: Link down") == Change::fresh);
  REQUIRE(ledger.entries().size() == 1);
  CHECK(ledger.entries()[0].finding.severity == Severity::warn);
}

TEST_CASE("good news takes out what it cures, and only that") {
  Ledger ledger;
  see(ledger, "NVRM: Xid (PCI:0000:0a:00): 119, x");
  see(ledger,
      "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)");
  see(ledger, "NVRM: Xid (PCI:0000:0b:00): 119, x");
  see(ledger, "NVRM: Xid (PCI:0000:0a:00): 79, x");
  CHECK(
      see(ledger,
          "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)") ==
      Change::resolved);
  REQUIRE(ledger.entries().size() == 2);
  CHECK(ledger.entries()[0].id == "gpu-xid:119@0000:0b:00");
  CHECK(ledger.entries()[1].id == "gpu-xid:79@0000:0a:00");
  CHECK(see(ledger, "NVRM: Xid (PCI:0000:0c:00): 154, GPU recovery action changed from 0x1 (x) to 0x0 (None)") ==
        Change::none);
}

TEST_CASE("a new recovery action replaces the one before it") {
  Ledger ledger;
  see(ledger, "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)");
  see(ledger,
      "NVRM: Xid (PCI:0000:0a:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset "
      "Required)");
  REQUIRE(ledger.entries().size() == 1);
  CHECK(ledger.entries()[0].finding.code == "154/0x1");
}

TEST_CASE("a reset acknowledged under a UUID cures the GPU of that name") {
  Ledger ledger;
  ledger.name_device("GPU-1-2", "0000:0a:00");
  see(ledger, "NVRM: Xid (PCI:0000:0a:00): 109, x");
  CHECK(see(ledger, "GPU reset executed: GPU-1-2, success: true") == Change::resolved);
  CHECK(ledger.entries().empty());
}

TEST_CASE("the number of entries is bounded; the grave ones stay") {
  Ledger ledger;
  for (int i = 0; i < 300; ++i) {
    Finding finding;
    finding.component = "nic";
    finding.code = "C" + std::to_string(i);
    finding.severity = Severity::info;
    ledger.observe(finding, at(i), "line");
  }
  CHECK(ledger.entries().size() == Ledger::max_entries);
  CHECK(ledger.dropped() == 300 - Ledger::max_entries);
  CHECK(see(ledger, "NVRM: Xid (PCI:0000:0a:00): 79, x") == Change::fresh);
  CHECK(ledger.entries().size() == Ledger::max_entries);
  CHECK(ledger.entries().back().finding.code == "79");
}

TEST_CASE("what does not fit is counted once, however often a probe says it") {
  Ledger ledger;
  for (int look = 0; look < 100; ++look)
    for (int i = 0; i < 70; ++i) {
      Finding finding;
      finding.component = "infiniband";
      finding.code = "C" + std::to_string(i);
      finding.severity = Severity::error;
      ledger.observe(finding, at(5 * look), "");
    }
  CHECK(ledger.entries().size() == Ledger::max_entries);
  CHECK(ledger.dropped() == 70 - Ledger::max_entries);
}

TEST_CASE("evidence is printable and short") {
  Ledger ledger;
  const auto line = "NVRM: Xid (PCI:0000:0a:00): 79, \xff\x01" + std::string(5000, 'z');
  see(ledger, line);
  CHECK(ledger.entries()[0].evidence.size() == 300);
  CHECK(ledger.entries()[0].evidence.starts_with("NVRM: Xid (PCI:0000:0a:00): 79, ??zz"));
}

TEST_CASE("states of a probe end when the probe no longer reports them") {
  Ledger ledger;
  Finding lost;
  lost.component = "gpu-nvml";
  lost.code = "LOST";
  lost.device = "0000:0a:00";
  lost.severity = Severity::fatal;
  ledger.observe(lost, at(0), "");
  const std::string keep[] = {finding_id(lost)};
  CHECK_FALSE(ledger.retain("gpu-nvml", keep));
  CHECK(ledger.retain("gpu-nvml", {}));
  CHECK(ledger.entries().empty());
}
