// `homeostat inject`: a fault on purpose, on the way of a real one and marked as a drill in every record.
#pragma once

#include <string>
#include <vector>

#include "cli/context.hpp"
#include "core/result.hpp"

namespace homeostat::cli {

struct InjectOptions {
  std::string node;                // "": of a job
  long job = 0;                    // the last of this Slurm job's nodes
  std::vector<std::string> words;  // "xid=79", "count=2", "device=0"
  bool production = false;
  bool wait = true;  // for what comes of it
  bool as_json = false;
};

int inject_fault(Context& context, const InjectOptions& options);
int list_faults(bool as_json);
// Ends and removes the drills of a node; node "": removes those that are over.
int clear_drills(Context& context, const std::string& node);

// Orders a drill of the lab, strikes and gives the instant just before, for what breaks GPUs as a part of a longer
// story.
Result<TimePoint> strike_in_lab(Context& context, const std::string& node, const std::string& fault,
                                const std::string& device);

}  // namespace homeostat::cli
