// Any bytes as a kernel log: nothing crashes, every finding is one that the rest of the house can carry, the ledger
// stays bounded.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/fault/catalog.hpp"
#include "core/fault/classify.hpp"
#include "core/fault/ledger.hpp"
#include "core/fault/verdict.hpp"

using namespace homeostat;

namespace {

void require(bool good) {
  if (!good) std::abort();
}

void check(const fault::Finding& finding) {
  require(!finding.component.empty() && !finding.code.empty());
  require(finding.severity != fault::Severity::none);
  require(finding.action.empty() || fault::Catalog::instance().action(finding.action));
  require(finding.code.size() <= 128 && finding.device.size() <= 128);
  for (char c : finding.component + finding.code + finding.device + finding.action) require(c > ' ' && c <= '~');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  fault::Classifier classifier;
  fault::Ledger ledger;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const auto line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (const auto finding = classifier(fault::parse_kernel_line(line))) {
      check(*finding);
      ledger.observe(*finding, TimePoint{}, line);
    }
  }
  require(ledger.entries().size() <= fault::Ledger::max_entries);
  fault::judge(ledger.entries(), fault::ProbeState::good, "", {});
  return 0;
}
