// What a benchmark measured, against what is promised: median and worst of the runs, as a table and as JSON. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace homeostat::bench {

struct Measure {
  std::string name;                  // "heal.fault_to_down_s"
  std::string unit;                  // "s"
  std::optional<double> bound = {};  // no run may be above it; nullopt: for comparison only
  std::vector<double> runs = {};
  std::optional<double> median_bound = {};  // what half of the runs must keep, where that is promised apart

  double median() const;
  double worst() const;
  bool holds() const;  // false without a run
};

std::string table(const std::vector<Measure>& measures);
std::string to_json(const std::vector<Measure>& measures);
bool all_hold(const std::vector<Measure>& measures);

}  // namespace homeostat::bench
