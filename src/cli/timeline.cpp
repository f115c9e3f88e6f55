#include "cli/timeline.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace homeostat::cli {
namespace {

using Kind = TrainEvent::Kind;
using repair::Record;

double seconds(Duration duration) { return static_cast<double>(duration.count()) / 1000.0; }

class Rows {
 public:
  void add(std::string what, std::optional<TimePoint> at, std::string detail = {}) {
    if (at) rows_.push_back({std::move(what), std::move(detail), *at});
  }
  std::vector<TimelineRow> sorted() {
    std::stable_sort(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
    return std::move(rows_);
  }

 private:
  std::vector<TimelineRow> rows_;
};

// The first step whose name begins so, once it is closed.
std::optional<TimePoint> step_done(const Record& record, std::string_view name) {
  for (const auto& step : record.steps)
    if (step.name.starts_with(name) && step.finished_at) return step.finished_at;
  return std::nullopt;
}

std::optional<TimePoint> entered(const Record& record, repair::Phase phase) {
  for (const auto& entry : record.phases)
    if (entry.phase == phase) return entry.entered_at;
  return std::nullopt;
}

// The first event of a kind at or after an instant.
const TrainEvent* first_after(const std::vector<TrainEvent>& log, Kind kind, TimePoint from) {
  for (const auto& event : log)
    if (event.kind == kind && event.at >= from) return &event;
  return nullptr;
}

void add_training(Rows& rows, const std::vector<TrainEvent>& log) {
  if (const auto* started = first_after(log, Kind::started, TimePoint::min()))
    rows.add("training from step 0", started->at);
}

void add_job_after_fault(Rows& rows, const std::vector<TrainEvent>& log, TimePoint fault_at) {
  if (const auto* told = first_after(log, Kind::sigterm, fault_at)) {
    std::set<int> ranks;
    for (const auto& event : log)
      if (event.kind == Kind::sigterm && event.at >= fault_at) ranks.insert(event.rank);
    rows.add("SIGTERM", told->at, fmt::format("heard by {} rank(s) at step {}", ranks.size(), told->step));
    if (const auto* saved = first_after(log, Kind::saved, told->at))
      rows.add("checkpoint saved", saved->at, fmt::format("step {}", saved->step));
  }
  if (const auto* resumed = first_after(log, Kind::resumed, fault_at))
    rows.add("resumed", resumed->at, fmt::format("from step {}", resumed->step));
}

void add_repair(Rows& rows, const Record& record) {
  rows.add("detected", record.fault.observed_at,
           fmt::format("{} {} on {}", record.fault.component, record.fault.code, record.fault.device));
  rows.add("people notified", step_done(record, "notify"), "no action is needed");
  rows.add("Slurm node DOWN", record.slurm_down_at, record.node);
  rows.add("processes gone", record.processes_gone_at);
  rows.add("requeued", step_done(record, "make_job_eligible"), "eligible now");
  rows.add("node cordoned", step_done(record, "cordon"), record.node);
  rows.add("drained", entered(record, repair::Phase::replacing));
  rows.add("spare joined", step_done(record, "promote_spare"), record.spare_node);
  rows.add("machine replaced", entered(record, repair::Phase::verifying),
           fmt::format("{} -> {}", record.node, record.replacement.machine));
  rows.add("job running again", record.running_again_at);
  rows.add("pool whole", record.pool_whole_at, record.replacement.node);
  if (record.phase == repair::Phase::blocked)
    rows.add("blocked", entered(record, repair::Phase::blocked), record.message);
  if (record.phase == repair::Phase::failed) rows.add("failed", entered(record, repair::Phase::failed), record.message);
}

}  // namespace

std::vector<TimelineRow> timeline(const HealFacts& facts, const Record* record, const std::vector<TrainEvent>& log) {
  Rows rows;
  rows.add("submit", facts.submitted_at, fmt::format("job {}", facts.job));
  add_training(rows, log);
  if (facts.fault_at) {
    rows.add("fault injected", facts.fault_at, facts.sick_node);
    add_job_after_fault(rows, log, *facts.fault_at);
  }
  if (record) add_repair(rows, *record);
  return rows.sorted();
}

std::string format_row(const TimelineRow& row, std::optional<TimePoint> fault_at) {
  const std::string when =
      fault_at ? fmt::format("{:+.1f}s", seconds(row.at - *fault_at)) : format_rfc3339(row.at).substr(11, 8);
  return fmt::format("{:>9}  {:<21} {}", when, row.what, row.detail);
}

HealFigures figures(const HealFacts& facts, const Record& record, const std::vector<TrainEvent>& log) {
  HealFigures out;
  if (!facts.fault_at) return out;
  const TimePoint fault = *facts.fault_at;
  const auto since_fault = [&](std::optional<TimePoint> at) -> std::optional<double> {
    if (!at) return std::nullopt;
    return seconds(*at - fault);
  };
  out.fault_to_down_s = since_fault(record.slurm_down_at);
  out.fault_to_running_s = since_fault(record.running_again_at);
  out.pool_whole_s = since_fault(record.pool_whole_at);
  if (record.processes_gone_at && record.running_again_at)
    out.end_to_running_s = seconds(*record.running_again_at - *record.processes_gone_at);

  std::set<int> told;
  const auto* resumed = first_after(log, Kind::resumed, fault);
  int last_step = 0;
  for (const auto& event : log) {
    const bool before_resume = !resumed || event.at < resumed->at;
    if (event.kind == Kind::sigterm && event.at >= fault && before_resume) told.insert(event.rank);
    if (event.kind == Kind::step && before_resume) last_step = std::max(last_step, event.step);
    if (event.kind == Kind::saved && event.at >= fault && before_resume) out.saved_step = event.step;
  }
  out.ranks_told = static_cast<int>(told.size());
  if (resumed) {
    out.resumed_step = resumed->step;
    out.steps_lost = last_step - resumed->step;
  }
  return out;
}

std::string summary(const HealFigures& f) {
  const auto cell = [](std::optional<double> value) {
    return value ? fmt::format("{:.1f} s", *value) : std::string("not seen");
  };
  const auto whole = [](std::optional<int> value) { return value ? std::to_string(*value) : std::string("not seen"); };
  std::string out;
  const auto row = [&](std::string_view what, const std::string& value, std::string_view peer) {
    out += fmt::format("  {:<44} {:>10}   {}\n", what, value, peer);
  };
  row("fault -> Slurm node DOWN", cell(f.fault_to_down_s), "");
  row("last process ended -> job running again", cell(f.end_to_running_s), "");
  row("fault -> job running again", cell(f.fault_to_running_s), "the talk: under 15 min");
  row("fault -> pool whole, node replaced", cell(f.pool_whole_s), "the talk: about 5 min");
  row("steps lost", whole(f.steps_lost), f.resumed_step ? fmt::format("resumed at step {}", *f.resumed_step) : "");
  return out;
}

}  // namespace homeostat::cli
