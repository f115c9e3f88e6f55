#include "controller/world/plan_book.hpp"

#include <algorithm>

namespace homeostat::controller {

namespace {
// By then every node has been looked at once after a start.
constexpr Duration first_round{60'000};
}  // namespace

void PlanBook::note(const std::string& node, Verdict verdict) {
  std::lock_guard lock(mutex_);
  auto index = std::ranges::find(repair::all_answers, verdict.answer) - std::begin(repair::all_answers);
  ++answers_[static_cast<size_t>(index)];
  bool worth_it = verdict.answer != repair::Answer::nothing || !verdict.detected.empty();
  if (worth_it)
    nodes_[node] = std::move(verdict);
  else
    nodes_.erase(node);
}

void PlanBook::forget(const std::string& node) {
  std::lock_guard lock(mutex_);
  nodes_.erase(node);
}

std::optional<PlanBook::Breaker> PlanBook::breaker(const std::string& pool) const {
  std::lock_guard lock(mutex_);
  for (const auto& [node, verdict] : nodes_) {
    if (verdict.pool != pool) continue;
    if (verdict.answer == repair::Answer::breaker) return Breaker{true, "OneCauseManyNodes", verdict.reason};
    if (!verdict.held_for_many.empty()) return Breaker{true, "ManyNodesSilent", verdict.held_for_many};
  }
  if (clock_.monotonic() - started_ < first_round) return std::nullopt;
  return Breaker{};
}

std::array<std::uint64_t, std::size(repair::all_answers)> PlanBook::answers() const {
  std::lock_guard lock(mutex_);
  return answers_;
}

bool PlanBook::unwatched(const std::string& node) const {
  std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  return found != nodes_.end() && std::ranges::any_of(found->second.detected, [](const repair::Finding& finding) {
           return finding.fault.component == "agent" && finding.fault.source == repair::silence_source;
         });
}

std::map<PlanBook::Seen, int> PlanBook::detected() const {
  std::lock_guard lock(mutex_);
  std::map<Seen, int> seen;
  for (const auto& [node, verdict] : nodes_)
    for (const repair::Finding& finding : verdict.detected)
      ++seen[{finding.fault.component, finding.fault.code, std::string(fault::to_string(finding.repair_class))}];
  return seen;
}

}  // namespace homeostat::controller
