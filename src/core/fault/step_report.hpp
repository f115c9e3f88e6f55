// What the ranks of jobs on one node say of their steps, and what a node makes of it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/time.hpp"

namespace homeostat::fault {

// One rank's newest report, checked for sense (io/step_files).
struct StepReport {
  std::string job, group;
  std::int64_t rank = 0;
  std::int64_t uid = -1;  // who owns the file: a stranger's reports are kept apart from the job's own
  std::int64_t step = 0;
  double step_s = 0, compute_s = 0, wait_s = 0;  // medians; compute 0: not told
  TimePoint updated_at{};
  bool alive = false;  // its process still is
};

// The ranks on this node that do the same work in the same job.
struct NodeSteps {
  std::string job, group;
  std::int64_t uid = -1;
  std::int64_t ranks = 0, step = 0;
  double step_s = 0, compute_s = 0, wait_s = 0;  // of the slowest rank; compute 0 unless every rank tells it
  std::int64_t slowest_rank = -1;                // -1: whole steps do not tell
  TimePoint updated_at{};
  std::string note;
};

// Ranks whose process is gone do not count. Those with the most ranks first, at most `most`.
std::vector<NodeSteps> gather_steps(std::span<const StepReport> reports, size_t most = 16);

}  // namespace homeostat::fault
