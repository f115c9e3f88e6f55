// Lets the fake hardware of a machine fail as real hardware would: counters and states first, then the driver's words.
// Any process may call it; they take turns through a lock file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/fault/drill.hpp"
#include "core/result.hpp"

namespace homeostat::lab {

struct Injection {
  fault::DrillFault fault;
  std::string device;  // index or PCI address; "" for the first one
};
// The words of a command line: {"xid=79", "count=2", "device=1"}.
Result<Injection> parse_injection(const std::vector<std::string>& words);

// nvml.json after that fault struck that GPU (or the whole driver). not_found: there is no such GPU.
Result<std::string> after_fault(std::string_view nvml_json, const fault::DrillFault& fault, int gpu);

// Gives the sentence that tells what was done.
Result<std::string> inject(const std::string& run_folder, const Injection& injection);

}  // namespace homeostat::lab
