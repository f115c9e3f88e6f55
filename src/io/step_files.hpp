// Reads what training processes report in a folder that anybody on the machine may write to (mode 1777), and so trusts
// nothing in it: names, owners, kinds, sizes and contents are checked, links are never followed, nothing in it can make
// a reader wait, and at most 512 reports are read. Documented in docs/users/step-times.md. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/fault/step_report.hpp"
#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::io {

inline constexpr size_t max_step_files = 512;
inline constexpr size_t max_step_file_bytes = 4096;
inline constexpr Duration step_file_lifetime{3'600'000};  // of one that no process holds any more

struct StepFolder {
  std::vector<fault::StepReport> reports;
  size_t refused = 0;   // names, kinds or contents that make no sense, and reports beyond the bound
  std::string example;  // why one of them was refused
};

// What a file of this name and content says, all but its owner and whether it is held; refused unless everything in it
// makes sense.
Result<fault::StepReport> parse_step_report(std::string_view name, std::string_view text, TimePoint now);

// Makes the folder fit to be reported to: there, and of mode 1777. One that somebody else owns is left as it is.
Result<void> prepare_step_folder(const std::string& folder);

// not_found when there is no such folder. Reports whose process is gone are removed after an hour, if they can be.
Result<StepFolder> read_step_folder(const std::string& folder, TimePoint now);

}  // namespace homeostat::io
