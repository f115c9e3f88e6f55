// Slow, not dead: which node of a job holds the others up, and when it is not one node. Pure.
//
// In synchronous training every rank waits for the slowest, so that all steps last equally long and name nobody. What
// tells is the time that a node computes, from a step's start until it begins to wait for the others: the slow node
// computes long and waits little. Where a job reports whole steps only, a node is named by its hardware facts alone,
// and only while the job is slower than it was.
//
// Thresholds: 10 % is what GREYHOUND calls fail-slow, four minutes of continuity is what Minder found to be needed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

struct SpeedParams {
  double slow_ratio = 1.10;       // to the median of the job's other nodes
  double recovered_ratio = 1.05;  // below it a node is as fast as the others
  double least_cost = 0.05;  // what it takes longer must be this part of the job's step: else it costs nobody anything
  double slow_clock = 0.90;  // an SM clock below this part of the other nodes' is a fact
  Duration continuity{240'000};
  Duration corroborated_continuity{60'000};  // a hardware fact of this node alone says the same
  Duration recovery{120'000};
  Duration smoothing{60'000};  // one moment's value is the median over this
  Duration warm_up{60'000};    // a node's first reports in a job: caches, compilation, autotuning
  Duration silence{120'000};   // and 5 steps: without a new step nobody can say
  Duration hang{600'000};      // and 10 steps: without a new step on any node it may hang
};

// Something about a node's hardware that can make it slow. Nodes that share a key share a cause (a power cap of the
// whole rack, a driver): such a fact singles out none of them.
struct HardwareFact {
  std::string key;   // "gpu-nvml/THERMAL"
  std::string text;  // for people
};

// nullopt: a finding that says nothing about speed.
std::optional<HardwareFact> hardware_fact(std::string_view component, std::string_view code, std::string_view device,
                                          std::string_view title);

// What one node last reported of a job. Ranks of one node count by the slowest.
struct NodeSpeed {
  std::string node;
  double compute_s = 0;  // per step; 0: the job does not report it
  double wait_s = 0;     // of the same rank
  double step_s = 0;
  std::int64_t step = 0;
  TimePoint updated_at{};         // by the node's clock: used to see that it has moved, never compared with ours
  std::int64_t sm_clock_mhz = 0;  // 0: unknown
  std::int64_t utilisation_percent = -1;  // -1: unknown
  std::vector<HardwareFact> facts;
};

enum class Pace { ok, suspect, straggler, unknown };
enum class JobPace {
  ok,
  straggling,      // at least one node is a straggler
  slower,          // than its own baseline, and no node stands out
  uneven,          // half of its nodes or more differ from the rest: not the fault of one
  hang_suspected,  // no step on any node for long
  unknown,         // too few reports
};
std::string_view to_string(Pace pace);
std::string_view to_string(JobPace pace);

struct NodePace {
  std::string node;
  Pace pace = Pace::unknown;
  double ratio = 0;     // to the other nodes' median; 0: not compared
  std::string reason;   // CamelCase, for conditions
  std::string message;  // a sentence
};

struct JobVerdict {
  JobPace pace = JobPace::unknown;
  double slowdown = 0;  // to the job's own baseline; 0: none yet
  std::string message;
  std::vector<NodePace> nodes;  // in the order of the reports
};

// The history of one job (of the ranks that do the same work) and the verdict on it. Bounded: 128 values per node.
class JobSpeed {
 public:
  explicit JobSpeed(std::string job, SpeedParams params = {}) : job_(std::move(job)), params_(params) {}

  // After a restart: this node was called a straggler before. It stays one until it is seen to be as fast as the rest.
  void recall_straggler(const std::string& node);
  // `now` only goes forward. Nodes that are not among the reports are forgotten. Each node once.
  JobVerdict judge(std::span<const NodeSpeed> reports, TimePoint now);

 private:
  struct Value {
    TimePoint at{};
    double compute_s = 0, step_s = 0, wait_s = 0;
  };
  struct History {
    std::deque<Value> values;            // none of the warm-up
    TimePoint reported_at{};             // the look that it was last among the reports
    TimePoint first_seen{}, moved_at{};  // by our clock: first report, newest step
    TimePoint updated_at{};              // by the node's clock
    std::optional<TimePoint> slow_since, fast_since;
    bool straggler = false;
  };
  struct Member;  // a node that reports, beside the others at this moment
  struct Job;     // what holds for all of them

  void take_in(std::span<const NodeSpeed> reports, TimePoint now);
  bool silent(const NodeSpeed& report, TimePoint now) const;
  JobVerdict nobody_moves(std::span<const NodeSpeed> reports, TimePoint now) const;
  Value value_over(const History& history, Duration window, TimePoint now) const;
  void compare(std::vector<Member>& members, bool by_compute, Duration window, TimePoint now) const;
  void single_out_facts(std::vector<Member>& members) const;
  std::vector<Member> members_of(std::span<const NodeSpeed> reports, TimePoint now);
  Job follow(std::vector<Member>& members, TimePoint now);
  void learn_baseline(double measure_s, TimePoint now);
  void sum_up(JobVerdict& verdict, const Job& job) const;
  Job follow_job(const std::vector<Member>& members, bool by_compute, TimePoint now);
  void follow_node(Member& member, const Job& job, TimePoint now);
  bool confirmed(std::vector<Member>& members, size_t index, const Job& job, TimePoint now) const;
  NodePace pace_of(const Member& member, const Job& job, TimePoint now) const;
  NodePace not_compared(const NodeSpeed& report, TimePoint now) const;

  std::string job_;
  SpeedParams params_;
  std::map<std::string, History, std::less<>> nodes_;
  // The job as a whole: medians over its nodes, begun anew when nodes join or leave.
  std::deque<Value> job_values_;
  size_t job_nodes_ = 0;
  bool job_by_compute_ = false;
  double baseline_s_ = 0;  // the fastest that it has been for a whole continuity
  std::optional<TimePoint> slower_since_;
};

}  // namespace homeostat::fault
