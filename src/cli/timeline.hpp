// The story of one heal: from the repair's record, the training job's log and what the caller did, to the rows that
// people read and to the figures that the benchmark keeps. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/train_log.hpp"
#include "core/repair/record.hpp"
#include "core/time.hpp"

namespace homeostat::cli {

struct HealFacts {
  std::uint32_t job = 0;
  std::string sick_node;
  std::optional<TimePoint> submitted_at, fault_at;
};

struct TimelineRow {
  std::string what;  // "Slurm node DOWN": unique within a timeline
  std::string detail;
  TimePoint at{};
};

// The rows that have happened, in the order of their times.
std::vector<TimelineRow> timeline(const HealFacts& facts, const repair::Record* record,
                                  const std::vector<TrainEvent>& log);

// "  +0.4s  Slurm node DOWN      homeostat: rep-…"; before the fault: "  -12.3s".
std::string format_row(const TimelineRow& row, std::optional<TimePoint> fault_at);

struct HealFigures {
  std::optional<double> fault_to_down_s, end_to_running_s, fault_to_running_s, pool_whole_s;
  std::optional<int> saved_step, resumed_step;
  std::optional<int> steps_lost;  // last step that any rank had finished before the end, less the step it resumed from
  int ranks_told = 0;             // ranks that logged SIGTERM
};

HealFigures figures(const HealFacts& facts, const repair::Record& record, const std::vector<TrainEvent>& log);

// The closing table, beside the published flow of managed Slurm with AutoClusters (5 min to a node, 15 min end to end).
std::string summary(const HealFigures& figures);

}  // namespace homeostat::cli
