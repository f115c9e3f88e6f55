#include "core/fault/counter_codes.hpp"

#include "core/fault/catalog.hpp"

namespace homeostat::fault {

Finding counter_finding(const CounterCode& code, std::string_view device, std::string title, std::string_view part) {
  Finding finding;
  finding.component = code.component;
  finding.code = code.code;
  if (!part.empty()) {
    finding.code += '/';
    finding.code += part;
  }
  finding.device = device;
  finding.severity = code.severity;
  finding.action = code.action;
  finding.title = std::move(title);
  set_repair_class(finding);
  return finding;
}

}  // namespace homeostat::fault
