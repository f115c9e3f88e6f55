// From a kernel line to what it says about the node. Pure: no state, no clock, any bytes, linear in the line's length.
#pragma once

#include <optional>

#include "core/fault/finding.hpp"
#include "core/fault/kernel_line.hpp"

namespace homeostat::fault {

// nullopt: no fault, or not written by the kernel.
std::optional<Finding> classify(const KernelLine& line);
std::optional<Finding> classify_text(std::string_view raw_line);

// Remembers the little that spans lines: a lost GPU is reported in three lines, of which only the first names it; of an
// out-of-memory kill one line names the control group and later ones the process. Those later ones are the same event:
// they give the finding of the first with `repeats` 0.
class Classifier {
 public:
  std::optional<Finding> operator()(const KernelLine& line);

 private:
  struct Kill {
    Finding finding;
    std::uint64_t pid = 0;  // of the process that is killed; 0: whichever is named next
    std::optional<std::uint64_t> uptime_us;
    int lines_left = 0;  // until it is forgotten
  };

  void join_kill(Finding& finding, const KernelLine& line);
  bool tells_of_kill(const Finding& finding, const KernelLine& line) const;

  std::string announced_gpu_;
  int lines_left_ = 0;
  Kill kill_;
};

// "component<TAB>code<TAB>device<TAB>severity<TAB>action"; without a finding "none<TAB><TAB><TAB>none<TAB>".
void append_row(std::string& out, const std::optional<Finding>& finding);

}  // namespace homeostat::fault
