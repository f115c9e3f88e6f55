#include "core/fault/straggler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace homeostat::fault {

namespace {

constexpr size_t max_values = 128;
constexpr size_t least_values = 3;       // below it a median is a single report
constexpr double mad_to_sigma = 1.4826;  // of a normal distribution
constexpr double outlier_sigmas = 3;
constexpr double busy_percent = 95, idle_percent = 5;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

// Of sorted values without the one at `left_out`: so that a slow node does not drag its own yardstick along.
double median_without(const std::vector<double>& sorted, size_t left_out) {
  const size_t count = sorted.size() - 1;
  if (count == 0) return 0;
  auto at = [&](size_t i) { return sorted[i < left_out ? i : i + 1]; };
  return count % 2 == 1 ? at(count / 2) : (at(count / 2 - 1) + at(count / 2)) / 2;
}

std::string number(const char* form, double value) {
  std::array<char, 48> text{};
  const int length = std::snprintf(text.data(), text.size(), form, value);
  return {text.data(), static_cast<size_t>(std::clamp(length, 0, static_cast<int>(text.size()) - 1))};
}
std::string seconds(double value) { return number(value < 1 ? "%.3f s" : "%.2f s", value); }
std::string times(double ratio) { return number("%.2f", ratio); }

Duration steps_of(double step_s, int count) {
  return Duration(static_cast<std::int64_t>(std::min(step_s, 86'400.0) * 1000) * count);
}

std::string nodes_word(size_t count) {
  return count == 1 ? "the other node" : "the other " + std::to_string(count) + " nodes";
}

}  // namespace

std::string_view to_string(Pace pace) {
  switch (pace) {
    case Pace::ok:
      return "ok";
    case Pace::suspect:
      return "suspect";
    case Pace::straggler:
      return "straggler";
    case Pace::unknown:
      return "unknown";
  }
  return "unknown";
}

std::string_view to_string(JobPace pace) {
  switch (pace) {
    case JobPace::ok:
      return "ok";
    case JobPace::straggling:
      return "straggling";
    case JobPace::slower:
      return "slower";
    case JobPace::uneven:
      return "uneven";
    case JobPace::hang_suspected:
      return "hang suspected";
    case JobPace::unknown:
      return "unknown";
  }
  return "unknown";
}

// Clocks, power, heat, links and errors that cost retries slow a node down. Memory that waits for a reset, a disk, a
// process killed for memory or an Xid of the program does not, or not so that it would explain a longer step.
std::optional<HardwareFact> hardware_fact(std::string_view component, std::string_view code, std::string_view device,
                                          std::string_view title) {
  constexpr std::array<std::string_view, 10> components = {"gpu-nvml",      "amd-counters",    "infiniband", "ethernet",
                                                           "pcie-counters", "memory-counters", "nvlink",     "nic",
                                                           "pcie-aer",      "pcie-link"};
  constexpr std::array<std::string_view, 18> words = {
      "THROTTLE", "TEMPERATURE", "SLOW_CLOCK", "PCIE_", "WIDTH",   "SPEED",  "GENERATION", "LINK", "CRC",
      "SYMBOL",   "RATE",        "RECEIVE",    "AER",   "OVERRUN", "REPLAY", "DUPLEX",     "XGMI", "POWER"};
  if (std::ranges::find(components, component) == components.end()) return std::nullopt;
  if (std::ranges::none_of(words, [&](std::string_view word) { return code.contains(word); })) return std::nullopt;
  HardwareFact fact;
  fact.key.append(component).append("/").append(code.substr(0, code.find('/')));
  fact.text.append(title.empty() ? std::string_view(fact.key) : title);
  if (!device.empty()) fact.text.append(" (").append(device).append(")");
  return fact;
}

struct JobSpeed::Member {
  const NodeSpeed* report = nullptr;
  History* history = nullptr;
  Value value{};         // at this moment
  double measure_s = 0;  // what is compared: compute time, or the whole step
  double others_s = 0;   // the median of the others' measure
  double others_wait_s = 0;
  double ratio = 0;
  bool outlying = false;            // beyond the others' own spread, and by more than a trifle
  std::vector<HardwareFact> facts;  // that single this node out
};

struct JobSpeed::Job {
  size_t nodes = 0, slow = 0;
  bool by_compute = false;
  double measure_s = 0, baseline_s = 0, slowdown = 0;
  bool slower = false;  // than its own baseline, for a whole continuity
  bool minority() const { return slow * 2 < nodes || (nodes == 2 && slow == 1); }
};

void JobSpeed::recall_straggler(const std::string& node) { nodes_[node].straggler = true; }

void JobSpeed::take_in(std::span<const NodeSpeed> reports, TimePoint now) {
  const Duration kept = std::max({params_.continuity, params_.corroborated_continuity, params_.smoothing});
  for (const auto& report : reports) {
    auto& history = nodes_[report.node];
    history.reported_at = now;
    if (history.first_seen == TimePoint{}) {
      history.first_seen = now;
      history.moved_at = std::clamp(report.updated_at, now - std::chrono::hours(1), now);
    } else if (history.updated_at != report.updated_at) {
      history.moved_at = now;
    } else {
      continue;  // the same report again says nothing new
    }
    history.updated_at = report.updated_at;
    if (now - history.first_seen < params_.warm_up || report.step_s <= 0) continue;
    auto& values = history.values;
    values.push_back({now, report.compute_s, report.step_s, report.wait_s});
    while (values.size() > max_values || (values.size() > least_values && now - values.front().at > kept))
      values.pop_front();
  }
  std::erase_if(nodes_, [&](const auto& entry) { return entry.second.reported_at != now; });
}

bool JobSpeed::silent(const NodeSpeed& report, TimePoint now) const {
  return now - nodes_.find(report.node)->second.moved_at > std::max(params_.silence, steps_of(report.step_s, 5));
}

JobVerdict JobSpeed::nobody_moves(std::span<const NodeSpeed> reports, TimePoint now) const {
  TimePoint moved{};
  std::vector<double> steps;
  steps.reserve(reports.size());
  bool works = false, told = false;
  auto [low, high] = std::ranges::minmax(reports, {}, &NodeSpeed::step);
  size_t behind = 0;
  for (const auto& report : reports) {
    moved = std::max(moved, nodes_.find(report.node)->second.moved_at);
    steps.push_back(report.step_s);
    const auto percent = static_cast<double>(report.utilisation_percent);
    told |= percent >= 0;
    // A collective that never ends shows as 100 %, a process that waits elsewhere as 0 %.
    works |= percent > idle_percent && percent < busy_percent;
    behind += report.step == low.step ? 1 : 0;
  }
  JobVerdict verdict;
  const bool long_enough = now - moved >= std::max(params_.hang, steps_of(median(steps), 10));
  verdict.pace = long_enough && !works ? JobPace::hang_suspected : JobPace::unknown;
  verdict.message = "Job " + job_ + " has reported no step for " + format_duration(now - moved);
  if (works)
    verdict.message += ", but its GPUs work";
  else if (long_enough)
    verdict.message += told ? ": it seems to hang, its GPUs stand at one figure" : ": it seems to hang";
  if (low.step < high.step && behind * 2 < reports.size())
    verdict.message +=
        "; " + low.node + " is at step " + std::to_string(low.step) + ", others at " + std::to_string(high.step);
  verdict.message += ".";
  const std::string reason = verdict.pace == JobPace::hang_suspected ? "HangSuspected" : "NoNewStep";
  verdict.nodes.reserve(reports.size());
  for (const auto& report : reports) verdict.nodes.push_back({report.node, Pace::unknown, 0, reason, verdict.message});
  return verdict;
}

JobSpeed::Value JobSpeed::value_over(const History& history, Duration window, TimePoint now) const {
  std::vector<double> computes, steps, waits;
  for (auto value = history.values.rbegin(); value != history.values.rend(); ++value) {
    if (now - value->at > window && steps.size() >= least_values) break;
    computes.push_back(value->compute_s);
    steps.push_back(value->step_s);
    waits.push_back(value->wait_s);
  }
  return {now, median(std::move(computes)), median(std::move(steps)), median(std::move(waits))};
}

// Each node against the median of the others, and against their spread (median absolute deviation).
void JobSpeed::compare(std::vector<Member>& members, bool by_compute, Duration window, TimePoint now) const {
  std::vector<double> sorted, waits;
  for (auto& member : members) {
    member.value = value_over(*member.history, window, now);
    member.measure_s = by_compute ? member.value.compute_s : member.value.step_s;
    sorted.push_back(member.measure_s);
    waits.push_back(member.value.wait_s);
  }
  std::ranges::sort(sorted);
  std::ranges::sort(waits);
  auto rank = [](const std::vector<double>& in, double value) {
    return static_cast<size_t>(std::ranges::lower_bound(in, value) - in.begin());
  };
  for (auto& member : members) {
    const size_t own = rank(sorted, member.measure_s);
    member.others_s = median_without(sorted, own);
    member.others_wait_s = median_without(waits, rank(waits, member.value.wait_s));
    member.ratio = member.others_s > 0 ? member.measure_s / member.others_s : 0;
    member.outlying = false;
    if (member.ratio <= params_.slow_ratio) continue;
    std::vector<double> distances;
    distances.reserve(sorted.size());
    for (size_t i = 0; i < sorted.size(); ++i)
      if (i != own) distances.push_back(std::abs(sorted[i] - member.others_s));
    const double excess_s = member.measure_s - member.others_s;
    member.outlying = excess_s > outlier_sigmas * mad_to_sigma * median(std::move(distances)) &&
                      excess_s > params_.least_cost * member.value.step_s;
  }
}

// What half of the other nodes have, too, does not explain why this one is slower.
void JobSpeed::single_out_facts(std::vector<Member>& members) const {
  std::map<std::string_view, size_t> carriers;
  std::vector<double> clocks;
  for (const auto& member : members) {
    if (member.report->sm_clock_mhz > 0) clocks.push_back(static_cast<double>(member.report->sm_clock_mhz));
    std::vector<std::string_view> counted;
    for (const auto& fact : member.report->facts) {
      if (std::ranges::find(counted, fact.key) != counted.end()) continue;
      counted.push_back(fact.key);
      ++carriers[fact.key];
    }
  }
  std::ranges::sort(clocks);
  for (auto& member : members) {
    for (const auto& fact : member.report->facts)
      if ((carriers[fact.key] - 1) * 2 < members.size() - 1 && member.facts.size() < 8) member.facts.push_back(fact);
    const auto clock = static_cast<double>(member.report->sm_clock_mhz);
    if (clock <= 0 || clocks.size() < 2) continue;
    const auto own = static_cast<size_t>(std::ranges::lower_bound(clocks, clock) - clocks.begin());
    const double others = median_without(clocks, own);
    if (clock < params_.slow_clock * others)
      member.facts.push_back(
          {"sm-clock", "SM clock " + number("%.0f MHz", clock) + ", the others' " + number("%.0f MHz", others)});
  }
}

void JobSpeed::learn_baseline(double measure_s, TimePoint now) {
  if (job_values_.empty() || now - job_values_.back().at >= params_.continuity / 64)
    job_values_.push_back({now, 0, measure_s, 0});
  if (now - job_values_.front().at < params_.continuity) return;
  std::vector<double> window;
  window.reserve(job_values_.size());
  for (const auto& value : job_values_) window.push_back(value.step_s);
  const double over_window = median(std::move(window));
  if (baseline_s_ <= 0 || over_window < baseline_s_) baseline_s_ = over_window;
  while (job_values_.size() > 1 && now - job_values_[1].at >= params_.continuity) job_values_.pop_front();
}

JobSpeed::Job JobSpeed::follow_job(const std::vector<Member>& members, bool by_compute, TimePoint now) {
  Job job;
  job.nodes = members.size();
  job.by_compute = by_compute;
  if (job_nodes_ != members.size() || job_by_compute_ != by_compute) {
    job_values_.clear();
    baseline_s_ = 0;
    slower_since_.reset();
    job_nodes_ = members.size();
    job_by_compute_ = by_compute;
  }
  std::vector<double> measures;
  measures.reserve(members.size());
  for (const auto& member : members) measures.push_back(member.measure_s);
  job.measure_s = median(std::move(measures));
  learn_baseline(job.measure_s, now);
  if (baseline_s_ > 0) job.slowdown = job.measure_s / baseline_s_;
  job.baseline_s = baseline_s_;
  if (job.slowdown > params_.slow_ratio) {
    if (!slower_since_) slower_since_ = now;
  } else if (job.slowdown < params_.recovered_ratio) {
    slower_since_.reset();
  }
  job.slower = slower_since_ && now - *slower_since_ >= params_.continuity;
  return job;
}

// Slow at this moment; between the two thresholds whatever was goes on.
void JobSpeed::follow_node(Member& member, const Job& job, TimePoint now) {
  auto& history = *member.history;
  const double step_s = member.value.step_s;
  bool slow = false, fast = false;
  if (job.by_compute) {
    // A node that others wait for waits itself no longer than they do. One that does not wait at all (each node of the
    // job works for itself) is slow when its whole step is.
    const double waits_longer_s = member.value.wait_s - member.others_wait_s;
    slow = member.ratio > params_.slow_ratio && member.outlying && waits_longer_s <= 0.02 * step_s;
    fast = member.ratio < params_.recovered_ratio || waits_longer_s > params_.least_cost * step_s ||
           member.measure_s - member.others_s < params_.least_cost / 2 * step_s;
  } else {
    member.ratio = job.slowdown;
    slow = slower_since_ && job.slowdown > params_.slow_ratio && !member.facts.empty();
    fast = job.slowdown < params_.recovered_ratio || member.facts.empty();
  }
  if (slow) {
    if (!history.slow_since) history.slow_since = now;
    history.fast_since.reset();
  } else if (fast) {
    history.slow_since.reset();
    if (!history.fast_since) history.fast_since = now;
    if (now - *history.fast_since >= params_.recovery) history.straggler = false;
  }
}

// Slow without a break for long enough, and over that whole time, not only at its ends.
bool JobSpeed::confirmed(std::vector<Member>& members, size_t index, const Job& job, TimePoint now) const {
  const auto& history = *members[index].history;
  const bool corroborated = !members[index].facts.empty();
  if (!history.slow_since || history.values.size() < least_values) return false;
  const Duration needed = corroborated && job.by_compute ? params_.corroborated_continuity : params_.continuity;
  if (now - *history.slow_since < needed || !job.minority()) return false;
  if (job.nodes < 3 && !corroborated) return false;
  if (!job.by_compute) return job.slower;
  auto over_all = members;
  compare(over_all, true, needed, now);
  return over_all[index].ratio > params_.slow_ratio && over_all[index].outlying;
}

NodePace JobSpeed::pace_of(const Member& member, const Job& job, TimePoint now) const {
  const auto& history = *member.history;
  const auto& node = member.report->node;
  std::string message;
  if (job.by_compute)
    message = node + " computes " + seconds(member.measure_s) + " a step, " + nodes_word(job.nodes - 1) + " of job " +
              job_ + " " + seconds(member.others_s) + " (" + times(member.ratio) + " times as long)";
  else
    message = "Job " + job_ + " is " + times(job.slowdown) + " times slower than its own baseline of " +
              seconds(job.baseline_s) + " a step";
  if (history.slow_since) message += ", for " + format_duration(now - *history.slow_since);
  if (history.straggler || history.slow_since)
    for (const auto& fact : member.facts) message += "; " + fact.text;
  if (history.straggler) return {node, Pace::straggler, member.ratio, "Straggler", message + "."};
  if (history.slow_since && !job.minority())
    return {node, Pace::suspect, member.ratio, "UnevenWork",
            message + ". Half of the job's nodes or more are like this: the work may be uneven, or the cause shared."};
  if (history.slow_since && job.nodes < 3 && member.facts.empty() && now - *history.slow_since >= params_.continuity)
    return {node, Pace::suspect, member.ratio, "OneOfTwo",
            message + ". Of two nodes nobody can say which is wrong, unless the hardware does."};
  if (history.slow_since) return {node, Pace::suspect, member.ratio, "SlowerForNow", message + ". It is watched."};
  if (job.slower)
    return {node, Pace::ok, member.ratio, "JobSlower",
            "All nodes of job " + job_ + " are slower than the job was: " + seconds(job.measure_s) + " a step, " +
                times(job.slowdown) + " times its own baseline. No node stands out."};
  if (!job.by_compute)
    return {
        node, Pace::unknown, 0, "StepsOnly",
        "Job " + job_ + " reports whole steps, which last equally long on all its nodes: report compute times, too."};
  return {node, Pace::ok, member.ratio, "AsFastAsOthers", message + "."};
}

NodePace JobSpeed::not_compared(const NodeSpeed& report, TimePoint now) const {
  const auto& history = nodes_.find(report.node)->second;
  if (silent(report, now))
    return {report.node, Pace::unknown, 0, "NoNewStep",
            report.node + " has reported no step of job " + job_ + " for " + format_duration(now - history.moved_at) +
                ", other nodes have."};
  if (history.straggler)
    return {report.node, Pace::straggler, 0, "Straggler",
            report.node + " was found to hold up job " + job_ + " and is being measured anew."};
  return {report.node, Pace::unknown, 0, "WarmingUp", "Job " + job_ + " has only begun on " + report.node + "."};
}

// Those that can be compared: they move, and are warm.
std::vector<JobSpeed::Member> JobSpeed::members_of(std::span<const NodeSpeed> reports, TimePoint now) {
  std::vector<Member> members;
  members.reserve(reports.size());
  for (const auto& report : reports) {
    auto& history = nodes_.find(report.node)->second;
    if (silent(report, now) || history.values.empty()) continue;
    members.emplace_back();
    members.back().report = &report;
    members.back().history = &history;
  }
  return members;
}

JobSpeed::Job JobSpeed::follow(std::vector<Member>& members, TimePoint now) {
  const bool by_compute = std::ranges::all_of(members, [](const Member& m) { return m.report->compute_s > 0; });
  compare(members, by_compute, params_.smoothing, now);
  single_out_facts(members);
  Job job = follow_job(members, by_compute, now);
  for (auto& member : members) follow_node(member, job, now);
  job.slow = static_cast<size_t>(
      std::ranges::count_if(members, [](const Member& m) { return m.history->slow_since.has_value(); }));
  for (size_t i = 0; i < members.size(); ++i)
    if (!members[i].history->straggler) members[i].history->straggler = confirmed(members, i, job, now);
  return job;
}

// What the nodes' verdicts come to.
void JobSpeed::sum_up(JobVerdict& verdict, const Job& job) const {
  auto count = [&](Pace pace) { return std::ranges::count(verdict.nodes, pace, &NodePace::pace); };
  verdict.slowdown = job.slowdown;
  if (count(Pace::straggler) > 0)
    verdict.pace = JobPace::straggling;
  else if (job.nodes > 2 && job.slow > 0 && !job.minority())
    verdict.pace = JobPace::uneven;
  else if (job.slower)
    verdict.pace = JobPace::slower;
  else
    verdict.pace = count(Pace::unknown) == std::ssize(verdict.nodes) ? JobPace::unknown : JobPace::ok;
  const auto gravest = std::ranges::max_element(verdict.nodes, {}, [](const NodePace& node) {
    return node.pace == Pace::straggler ? 2 : node.pace == Pace::suspect ? 1 : 0;
  });
  verdict.message = gravest->message;
}

JobVerdict JobSpeed::judge(std::span<const NodeSpeed> reports, TimePoint now) {
  take_in(reports, now);
  if (reports.empty()) return {JobPace::unknown, 0, "Nobody reports steps of job " + job_ + ".", {}};
  if (std::ranges::all_of(reports, [&](const NodeSpeed& report) { return silent(report, now); }))
    return nobody_moves(reports, now);
  auto members = members_of(reports, now);
  const bool alone = members.size() < 2;
  const Job job = alone ? Job{} : follow(members, now);
  JobVerdict verdict;
  verdict.nodes.reserve(reports.size());
  auto member = members.begin();
  for (const auto& report : reports) {
    if (member == members.end() || member->report != &report)
      verdict.nodes.push_back(not_compared(report, now));
    else if (alone)
      verdict.nodes.push_back({report.node, Pace::unknown, 0, "Alone",
                               "No other node of job " + job_ + " reports steps: there is nothing to compare with."});
    else
      verdict.nodes.push_back(pace_of(*member, job, now));
    if (member != members.end() && member->report == &report) ++member;
  }
  sum_up(verdict, job);
  return verdict;
}

}  // namespace homeostat::fault
