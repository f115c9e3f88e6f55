// Any bytes as what follows the code of an NVLink5 error: each of the seven codes, whatever the decoder makes of it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/fault/catalog.hpp"
#include "core/fault/nvidia.hpp"

using namespace homeostat::fault;

namespace {

void require(bool good) {
  if (!good) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string detail(reinterpret_cast<const char*>(data), size);
  for (const std::string_view code : {"144", "145", "146", "147", "148", "149", "150", "74", "154"}) {
    const auto finding =
        parse_xid(std::string("NVRM: Xid (PCI:0000:1b:00): ").append(code).append(", ").append(detail));
    require(finding.has_value());  // detail never costs the event
    require(finding->code.starts_with(code));
    require(finding->device == "0000:1b:00");
    require(finding->action.empty() || Catalog::instance().action(finding->action) != nullptr);
    // A fault that a test has injected takes nothing away.
    require(!finding->injected || finding->severity <= Severity::warn);
    require(finding->title.size() <= 8192);
  }
  return 0;
}
