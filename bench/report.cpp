#include "report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "io/json.hpp"

namespace homeostat::bench {
namespace {

double rounded(double value) { return std::round(value * 1000.0) / 1000.0; }

std::string number(double value) {
  return value == std::floor(value) && value < 1e6 ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
}

}  // namespace

double Measure::median() const {
  if (runs.empty()) return 0;
  auto sorted = runs;
  std::sort(sorted.begin(), sorted.end());
  const auto middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Measure::worst() const { return runs.empty() ? 0 : *std::max_element(runs.begin(), runs.end()); }

bool Measure::holds() const {
  return !runs.empty() && (!bound || worst() <= *bound) && (!median_bound || median() <= *median_bound);
}

std::string table(const std::vector<Measure>& measures) {
  std::string out =
      fmt::format("{:<40} {:>9} {:>9} {:>7} {:>5} {:>5}\n", "", "median", "worst", "bound", "unit", "runs");
  for (const auto& m : measures)
    out += fmt::format("{:<40} {:>9} {:>9} {:>7} {:>5} {:>5}{}\n", m.name, number(m.median()), number(m.worst()),
                       m.bound ? number(*m.bound) : "-", m.unit, m.runs.size(),
                       m.holds()        ? ""
                       : m.runs.empty() ? "  NOT MEASURED"
                                        : "  BROKEN");
  return out;
}

std::string to_json(const std::vector<Measure>& measures) {
  boost::json::object out;
  for (const auto& m : measures) {
    boost::json::object row{{"median", rounded(m.median())},
                            {"worst", rounded(m.worst())},
                            {"bound", m.bound ? boost::json::value(*m.bound) : boost::json::value(nullptr)},
                            {"unit", m.unit},
                            {"runs", m.runs.size()}};
    if (m.median_bound) row["median_bound"] = *m.median_bound;
    out[m.name] = std::move(row);
  }
  return io::to_text(out);
}

bool all_hold(const std::vector<Measure>& measures) {
  return std::all_of(measures.begin(), measures.end(), [](const auto& m) { return m.holds(); });
}

}  // namespace homeostat::bench
