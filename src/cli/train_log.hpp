// What examples/train.py writes to its train.log, read back: one event per line. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/time.hpp"

namespace homeostat::cli {

struct TrainEvent {
  enum class Kind { started, step, sigterm, saved, resumed, finished, lost_peer, placed };
  Kind kind = Kind::step;
  TimePoint at{};
  int rank = 0;
  int step = 0;      // of started: 0; of placed: the restart count
  std::string node;  // of placed: where the rank runs
};

// Lines that are none of the known ones, or cut short, are skipped.
std::vector<TrainEvent> parse_train_log(std::string_view text);

}  // namespace homeostat::cli
