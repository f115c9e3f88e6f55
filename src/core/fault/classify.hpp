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
// out-of-memory kill one line names the control group and a later one the process.
class Classifier {
 public:
  std::optional<Finding> operator()(const KernelLine& line);

 private:
  // A dump of the memory's use, a line for each process, can stand between the two lines of a kill.
  static constexpr int max_lines_between = 64;

  void name_victim(Finding& finding, std::string_view text);
  void remember_victim(const Finding& finding, std::string_view text);

  std::string announced_gpu_;
  int lines_left_ = 0;
  std::string victim_device_, victim_pod_, victim_job_;
  std::uint64_t victim_pid_ = 0;
  int victim_lines_left_ = 0;
};

// "component<TAB>code<TAB>device<TAB>severity<TAB>action"; without a finding "none<TAB><TAB><TAB>none<TAB>".
void append_row(std::string& out, const std::optional<Finding>& finding);

}  // namespace homeostat::fault
