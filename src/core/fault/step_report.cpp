#include "core/fault/step_report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>

namespace homeostat::fault {

namespace {

// Ours: a rank that computes this much longer than the middle one of its node is worth a word.
constexpr double odd_rank_ratio = 1.10;
constexpr size_t least_ranks_to_compare = 3;

NodeSteps sum_up(std::vector<const StepReport*>& ranks, std::int64_t ended) {
  const bool by_compute = std::ranges::all_of(ranks, [](const StepReport* rank) { return rank->compute_s > 0; });
  auto measure = [&](const StepReport* rank) { return by_compute ? rank->compute_s : rank->step_s; };
  std::ranges::sort(ranks, {}, [&](const StepReport* rank) { return std::pair(measure(rank), -rank->rank); });
  const auto& slowest = *ranks.back();
  NodeSteps steps{slowest.job, slowest.group, slowest.uid, std::ssize(ranks), 0, slowest.step_s, 0, 0, -1, {}, {}};
  if (by_compute) {
    steps.compute_s = slowest.compute_s;
    steps.wait_s = slowest.wait_s;
    steps.slowest_rank = slowest.rank;
  }
  for (const auto* rank : ranks) {
    steps.step = std::max(steps.step, rank->step);
    steps.updated_at = std::max(steps.updated_at, rank->updated_at);
  }
  const double middle = measure(ranks[(ranks.size() - 1) / 2]);
  if (by_compute && ranks.size() >= least_ranks_to_compare && slowest.compute_s > odd_rank_ratio * middle) {
    std::array<char, 96> text{};
    (void)std::snprintf(text.data(), text.size(), "Rank %lld computes %.2f times as long as this node's middle rank.",
                        static_cast<long long>(slowest.rank), slowest.compute_s / middle);  // cut at worst
    steps.note = text.data();
  }
  if (ended > 0) {
    if (!steps.note.empty()) steps.note += ' ';
    steps.note += ended == 1 ? "1 rank has ended." : std::to_string(ended) + " ranks have ended.";
  }
  return steps;
}

}  // namespace

std::vector<NodeSteps> gather_steps(std::span<const StepReport> reports, size_t most) {
  struct Ranks {
    std::vector<const StepReport*> alive;
    std::int64_t ended = 0;
  };
  std::map<std::tuple<std::string_view, std::string_view, std::int64_t>, Ranks> jobs;
  for (const auto& report : reports) {
    auto& ranks = jobs[{report.job, report.group, report.uid}];
    if (report.alive)
      ranks.alive.push_back(&report);
    else
      ++ranks.ended;
  }
  std::vector<NodeSteps> all;
  all.reserve(jobs.size());
  for (auto& [key, ranks] : jobs)
    if (!ranks.alive.empty()) all.push_back(sum_up(ranks.alive, ranks.ended));
  std::ranges::stable_sort(all, std::greater{}, &NodeSteps::ranks);
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace homeostat::fault
