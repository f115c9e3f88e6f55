#include "core/fault/straggler.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using namespace homeostat;
using namespace homeostat::fault;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// A synchronous job in virtual time: each node computes, then all wait for the slowest. What a node reports is what
// examples/homeostat_steps.py would: medians of the last 20 steps.
class FakeJob {
 public:
  explicit FakeJob(size_t nodes, unsigned seed = 1, double noise = 0.05)
      : noise_(noise), random_(seed), factor(nodes, 1.0), facts(nodes), clock_mhz(nodes, 0), recent_(nodes) {}

  double base_s = 0.5;
  bool reports_compute = true;
  std::int64_t utilisation = -1;

  // Runs steps until `until` has passed; `slowed(node, at)` multiplies a single step's compute time.
  void run(TimePoint until, const std::function<double(size_t, TimePoint)>& slowed = {}) {
    while (at_ < until) {
      std::vector<double> computes;
      computes.reserve(factor.size());
      for (size_t i = 0; i < factor.size(); ++i)
        computes.push_back(base_s * factor[i] * (slowed ? slowed(i, at_) : 1.0) * (1 + noise_ * spread_(random_)));
      const double step = *std::ranges::max_element(computes) + 0.02;
      for (size_t i = 0; i < factor.size(); ++i) {
        recent_[i].push_back(computes[i]);
        if (recent_[i].size() > 20) recent_[i].pop_front();
      }
      ++step_;
      step_s_ = step;
      at_ += Duration(static_cast<std::int64_t>(step * 1000));
    }
  }
  std::vector<NodeSpeed> reports() const {
    std::vector<NodeSpeed> all;
    for (size_t i = 0; i < factor.size(); ++i) {
      auto values = std::vector<double>(recent_[i].begin(), recent_[i].end());
      std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
      NodeSpeed speed;
      speed.node = "n" + std::to_string(i);
      speed.step_s = step_s_;
      speed.compute_s = reports_compute ? values[values.size() / 2] : 0;
      speed.wait_s = reports_compute ? std::max(0.0, step_s_ - speed.compute_s) : 0;
      speed.step = step_;
      speed.updated_at = at_;
      speed.sm_clock_mhz = clock_mhz[i];
      speed.utilisation_percent = utilisation;
      speed.facts = facts[i];
      all.push_back(speed);
    }
    return all;
  }

 private:
  double noise_;
  std::mt19937 random_;
  std::uniform_real_distribution<double> spread_{-1.0, 1.0};

 public:
  std::vector<double> factor;
  std::vector<std::vector<HardwareFact>> facts;
  std::vector<std::int64_t> clock_mhz;

 private:
  std::vector<std::deque<double>> recent_;
  TimePoint at_ = TimePoint(seconds(1'800'000'000));
  std::int64_t step_ = 0;
  double step_s_ = 0;
};

const TimePoint start = TimePoint(seconds(1'800'000'000));
constexpr Duration look_every{10'000};

// Runs the job and looks every 10 s. Calls `seen` after each look.
void watch(FakeJob& job, JobSpeed& speed, TimePoint& now, Duration length,
           const std::function<bool(const JobVerdict&)>& seen = {},
           const std::function<double(size_t, TimePoint)>& slowed = {}) {
  for (const TimePoint end = now + length; now < end;) {
    now += look_every;
    job.run(now, slowed);
    const auto verdict = speed.judge(job.reports(), now);
    if (seen && seen(verdict)) return;
  }
}

JobVerdict last_of(FakeJob& job, JobSpeed& speed, TimePoint& now, Duration length) {
  JobVerdict last;
  watch(job, speed, now, length, [&](const JobVerdict& verdict) { return last = verdict, false; });
  return last;
}

std::vector<std::string> stragglers(const JobVerdict& verdict) {
  std::vector<std::string> names;
  for (const auto& node : verdict.nodes)
    if (node.pace == Pace::straggler) names.push_back(node.node);
  return names;
}

const HardwareFact hot{"gpu-nvml/THERMAL", "The GPU slows down because it is too hot (0000:05:00)"};

}  // namespace

//   n0 ████████░░      all alike: nobody
//   n1 ████████░░
//   n2 ████████░░
TEST_CASE("a job whose nodes are alike has no straggler") {
  FakeJob job(3);
  JobSpeed speed("12");
  TimePoint now = start;
  const auto verdict = last_of(job, speed, now, minutes(15));
  CHECK(verdict.pace == JobPace::ok);
  CHECK(verdict.slowdown == doctest::Approx(1.0).epsilon(0.03));
  for (const auto& node : verdict.nodes) {
    CHECK(node.pace == Pace::ok);
    CHECK(node.reason == "AsFastAsOthers");
  }
}

//   n0 ████████░░      n2 computes 15 % longer from minute 10 on; the others wait for it.
//   n1 ████████░░      Named after the continuity (240 s), within a minute more; never before.
//   n2 █████████▌
TEST_CASE("a node that is 15 % slower is found within the continuity and a minute") {
  for (size_t nodes : {3u, 4u, 16u, 64u}) {
    CAPTURE(nodes);
    FakeJob job(nodes, 7);
    JobSpeed speed("12");
    TimePoint now = start;
    CHECK(stragglers(last_of(job, speed, now, minutes(10))).empty());
    job.factor[2] = 1.15;
    const TimePoint begun = now;
    Duration found{0};
    std::string message;
    watch(job, speed, now, minutes(10), [&](const JobVerdict& verdict) {
      if (stragglers(verdict).empty()) return false;
      found = now - begun;
      CHECK(stragglers(verdict) == std::vector<std::string>{"n2"});
      CHECK(verdict.pace == JobPace::straggling);
      message = verdict.message;
      return true;
    });
    CHECK(found >= Duration(240'000));
    CHECK(found <= Duration(300'000));
    CHECK(message.starts_with("n2 computes 0.5"));
    CHECK(message.contains("of job 12"));
  }
}

//   n2 █████████▌ + its GPU is hot      the hardware says the same: a minute is enough
TEST_CASE("a hardware fact of this node alone shortens the wait") {
  FakeJob job(8, 3);
  JobSpeed speed("12");
  TimePoint now = start;
  watch(job, speed, now, minutes(10));
  job.factor[2] = 1.3;
  job.facts[2] = {hot};
  const TimePoint begun = now;
  watch(job, speed, now, minutes(10), [&](const JobVerdict& verdict) {
    if (stragglers(verdict).empty()) return false;
    CHECK(verdict.message.contains(hot.text));
    return true;
  });
  CHECK(now - begun <= Duration(130'000));
}

//   n0 ████████░░ hot      a cause that half of the others share singles nobody out
//   n1 ████████░░ hot
//   n2 █████████▌ hot
//   n3 ████████░░
TEST_CASE("a hardware fact that other nodes share, too, shortens nothing") {
  FakeJob job(4, 3);
  JobSpeed speed("12");
  TimePoint now = start;
  watch(job, speed, now, minutes(10));
  job.factor[2] = 1.3;
  for (size_t i : {0, 1, 2}) job.facts[i] = {hot};
  const TimePoint begun = now;
  watch(job, speed, now, minutes(10), [&](const JobVerdict& verdict) { return !stragglers(verdict).empty(); });
  CHECK(now - begun >= Duration(240'000));
}

//   n0 ████████░░ 1980 MHz      a clock far below the others' is a fact, too
//   n1 █████████▌ 1095 MHz
TEST_CASE("of two nodes the slower is named only when its hardware says so") {
  for (bool low_clock : {false, true}) {
    CAPTURE(low_clock);
    FakeJob job(2, 5);
    JobSpeed speed("12");
    TimePoint now = start;
    watch(job, speed, now, minutes(10));
    job.factor[1] = 1.4;
    job.clock_mhz = {1980, low_clock ? 1095 : 1965};
    const auto verdict = last_of(job, speed, now, minutes(8));
    CHECK(stragglers(verdict) == (low_clock ? std::vector<std::string>{"n1"} : std::vector<std::string>{}));
    if (low_clock) CHECK(verdict.message.contains("SM clock 1095 MHz, the others' 1980 MHz"));
    if (!low_clock) {
      CHECK(verdict.nodes[1].pace == Pace::suspect);
      CHECK(verdict.nodes[1].reason == "OneOfTwo");
    }
  }
}

//   n0 ████████░░ ████████████████████████ save ████████░░      30 s in each 5 min: not the node's fault
TEST_CASE("a node that is slow only while it saves a checkpoint is no straggler") {
  FakeJob job(4, 11);
  JobSpeed speed("12");
  TimePoint now = start;
  auto saving = [](size_t node, TimePoint at) {
    return node == 0 && (at - start) % Duration(300'000) < Duration(30'000) ? 3.0 : 1.0;
  };
  size_t found = 0;
  watch(
      job, speed, now, minutes(120),
      [&](const JobVerdict& verdict) { return found += stragglers(verdict).size(), false; }, saving);
  CHECK(found == 0);
}

//   all nodes ████████░░ -> ████████████░░      slower than the job was, and none stands out
TEST_CASE("a job that gets slower as a whole has no straggler, and says so") {
  for (bool reports_compute : {true, false}) {
    CAPTURE(reports_compute);
    FakeJob job(6, 2);
    job.reports_compute = reports_compute;
    JobSpeed speed("12");
    TimePoint now = start;
    CHECK(last_of(job, speed, now, minutes(10)).pace == (reports_compute ? JobPace::ok : JobPace::unknown));
    job.base_s = 0.7;
    const auto verdict = last_of(job, speed, now, minutes(8));
    CHECK(stragglers(verdict).empty());
    CHECK(verdict.pace == JobPace::slower);
    CHECK(verdict.slowdown == doctest::Approx(1.4).epsilon(0.05));
    CHECK(verdict.nodes[0].reason == "JobSlower");
    CHECK(verdict.message.contains("No node stands out"));
    job.base_s = 0.5;
    CHECK(last_of(job, speed, now, minutes(8)).pace == (reports_compute ? JobPace::ok : JobPace::unknown));
  }
}

//   n0 ████████████ n1 ████████████ n2 ████████████ n3 ████████████      whole steps last equally long everywhere:
//   the job is slower than it was, and only n3's link runs at half width
TEST_CASE("with whole steps only, the hardware names the node once the job is slower than it was") {
  const HardwareFact narrow{"pcie-counters/WIDTH", "The link runs at x8 instead of x16 (0000:05:00)"};
  FakeJob job(4, 2);
  job.reports_compute = false;
  job.facts[3] = {narrow};
  JobSpeed speed("12");
  TimePoint now = start;
  auto before = last_of(job, speed, now, minutes(10));
  CHECK(stragglers(before).empty());  // a fact without slowness is no straggler
  CHECK(before.nodes[0].reason == "StepsOnly");
  job.factor[3] = 1.5;
  auto verdict = last_of(job, speed, now, minutes(8));
  CHECK(stragglers(verdict) == std::vector<std::string>{"n3"});
  CHECK(verdict.message.contains(narrow.text));
  job.factor[3] = 1;
  job.facts[3].clear();
  CHECK(stragglers(last_of(job, speed, now, minutes(6))).empty());
}

//   n0 ████████░░ n1 ████████░░ n2 ████████████ n3 ████████████      half and half: uneven work or a shared cause
TEST_CASE("when half of the nodes are slower nobody is blamed") {
  FakeJob job(4, 2);
  job.factor = {1, 1, 1.4, 1.4};
  JobSpeed speed("12");
  TimePoint now = start;
  const auto verdict = last_of(job, speed, now, minutes(20));
  CHECK(stragglers(verdict).empty());
  CHECK(verdict.pace == JobPace::uneven);
  CHECK(verdict.nodes[3].reason == "UnevenWork");
}

//   two of seven are slow: both are named
TEST_CASE("a slow minority is named whole") {
  FakeJob job(7, 2);
  job.factor[1] = 1.2;
  job.factor[5] = 1.6;
  JobSpeed speed("12");
  TimePoint now = start;
  CHECK(stragglers(last_of(job, speed, now, minutes(10))) == std::vector<std::string>{"n1", "n5"});
}

//   n0 ████████████░░░░ waits as long as the others do: its longer time is not what they wait for
TEST_CASE("a node that computes longer but waits as long as the rest holds nobody up") {
  JobSpeed speed("12");
  size_t found = 0;
  TimePoint now = start;
  for (int i = 0; i < 120; ++i) {
    now += look_every;
    std::vector<NodeSpeed> reports;
    reports.reserve(4);
    for (int n = 0; n < 4; ++n)
      reports.push_back({"n" + std::to_string(n), n == 0 ? 0.6 : 0.4, n == 0 ? 0.4 : 0.3, 1.0, i, now, 0, -1, {}});
    found += stragglers(speed.judge(reports, now)).size();
  }
  CHECK(found == 0);
}

//   n0 █░░░░░░░░░░░░░░░ n1 █▌░░░░░░░░░░░░░░      1.4 ms or 2 ms of a step of 200 ms: it costs nobody anything
TEST_CASE("a longer time that is a trifle beside the step is not slowness") {
  JobSpeed speed("12");
  size_t found = 0;
  TimePoint now = start;
  for (int i = 0; i < 120; ++i) {
    now += look_every;
    std::vector<NodeSpeed> reports;
    reports.reserve(4);
    for (int n = 0; n < 4; ++n)
      reports.push_back({"n" + std::to_string(n), n == 1 ? 0.002 : 0.0014, 0.198, 0.2, i, now, 0, -1, {}});
    found += stragglers(speed.judge(reports, now)).size();
  }
  CHECK(found == 0);
}

//   n0 ████████ n1 ████████ n2 ████████████      no waits at all: each for itself, and n2 is slow all the same
TEST_CASE("nodes that do not wait for each other are compared, too") {
  JobSpeed speed("12");
  JobVerdict last;
  TimePoint now = start;
  for (int i = 0; i < 60; ++i) {
    now += look_every;
    std::vector<NodeSpeed> reports;
    reports.reserve(3);
    for (int n = 0; n < 3; ++n)
      reports.push_back({"n" + std::to_string(n), n == 2 ? 0.6 : 0.4, 0, n == 2 ? 0.6 : 0.4, i, now, 0, -1, {}});
    last = speed.judge(reports, now);
  }
  CHECK(stragglers(last) == std::vector<std::string>{"n2"});
}

//   slow … fast again      kept for the recovery time, then over; a short relapse does not end the recovery early
TEST_CASE("a straggler recovers once it has been as fast as the others for a while") {
  FakeJob job(5, 4);
  job.factor[0] = 1.3;
  JobSpeed speed("12");
  TimePoint now = start;
  CHECK(stragglers(last_of(job, speed, now, minutes(10))).size() == 1);
  job.factor[0] = 1.0;
  CHECK(stragglers(last_of(job, speed, now, minutes(2))).size() == 1);
  CHECK(stragglers(last_of(job, speed, now, minutes(2))).empty());
}

TEST_CASE("between the two thresholds whatever was goes on") {
  FakeJob job(5, 4, 0.005);
  job.factor[0] = 1.08;
  JobSpeed speed("12");
  TimePoint now = start;
  CHECK(stragglers(last_of(job, speed, now, minutes(30))).empty());
  job.factor[0] = 1.2;
  CHECK(stragglers(last_of(job, speed, now, minutes(10))).size() == 1);
  job.factor[0] = 1.08;
  CHECK(stragglers(last_of(job, speed, now, minutes(30))).size() == 1);
}

//   first minute ████████████████ ████████ ████████ …      compiling is not being slow
TEST_CASE("the first minute of a node in a job counts for nothing") {
  FakeJob job(3, 4);
  JobSpeed speed("12");
  TimePoint now = start;
  job.factor[1] = 5;
  auto verdict = last_of(job, speed, now, seconds(60));
  CHECK(verdict.pace == JobPace::unknown);
  CHECK(verdict.nodes[1].reason == "WarmingUp");
  job.factor[1] = 1;
  size_t found = 0;
  watch(job, speed, now, minutes(20), [&](const JobVerdict& v) { return found += stragglers(v).size(), false; });
  CHECK(found == 0);
}

TEST_CASE("a job that has stopped reporting is unknown; one node that has is, too") {
  FakeJob job(4, 4);
  JobSpeed speed("12");
  TimePoint now = start;
  watch(job, speed, now, minutes(10));
  auto reports = job.reports();
  JobVerdict one;
  for (int i = 0; i < 15; ++i) {  // n3 stands still, the others go on
    now += look_every;
    job.run(now);
    auto moving = job.reports();
    moving[3] = reports[3];
    one = speed.judge(moving, now);
  }
  CHECK(one.pace == JobPace::ok);
  CHECK(one.nodes[3].pace == Pace::unknown);
  CHECK(one.nodes[3].reason == "NoNewStep");
  CHECK(one.nodes[0].pace == Pace::ok);
  reports = job.reports();
  now += minutes(3);
  const auto all = speed.judge(reports, now);
  CHECK(all.pace == JobPace::unknown);
  CHECK(all.nodes[0].reason == "NoNewStep");
}

TEST_CASE("a job without a step for ten minutes may hang, unless its GPUs work") {
  struct Case {
    Duration silent;
    double step_s;
    std::int64_t utilisation;
    JobPace expected;
  };
  const Case cases[] = {
      {minutes(9), 0.5, 100, JobPace::unknown},           {minutes(11), 0.5, 100, JobPace::hang_suspected},
      {minutes(11), 0.5, 0, JobPace::hang_suspected},     {minutes(11), 0.5, -1, JobPace::hang_suspected},
      {minutes(11), 0.5, 60, JobPace::unknown},     // it computes something that reports no steps
      {minutes(11), 100.0, 100, JobPace::unknown},  // ten of its steps take 1,000 s
      {minutes(17), 100.0, 100, JobPace::hang_suspected},
  };
  for (const auto& [silent, step_s, utilisation, expected] : cases) {
    CAPTURE(silent.count());
    CAPTURE(step_s);
    CAPTURE(utilisation);
    JobSpeed speed("12");
    std::vector<NodeSpeed> reports;
    reports.reserve(3);
    for (int n = 0; n < 3; ++n)
      reports.push_back({"n" + std::to_string(n), 0.4, 0.1, step_s, n == 1 ? 41 : 42, start, 0, utilisation, {}});
    CHECK(speed.judge(reports, start).pace == JobPace::unknown);
    const auto verdict = speed.judge(reports, start + silent);
    CHECK(verdict.pace == expected);
    if (expected != JobPace::hang_suspected) continue;
    CHECK(verdict.nodes[0].reason == "HangSuspected");
    CHECK(verdict.message.contains("n1 is at step 41, others at 42"));
  }
}

TEST_CASE("one node has nothing to be compared with, and nobody's reports are no verdict") {
  FakeJob job(1);
  JobSpeed speed("12");
  TimePoint now = start;
  CHECK(last_of(job, speed, now, minutes(5)).nodes[0].reason == "Alone");
  CHECK(speed.judge({}, now).pace == JobPace::unknown);
}

TEST_CASE("a restart keeps a straggler until it is measured anew") {
  for (double factor : {1.3, 1.0}) {
    CAPTURE(factor);
    FakeJob job(4, 4);
    job.factor[1] = factor;
    JobSpeed speed("12");
    speed.recall_straggler("n1");
    TimePoint now = start;
    CHECK(stragglers(last_of(job, speed, now, seconds(30))).size() == 1);
    CHECK(stragglers(last_of(job, speed, now, minutes(5))).size() == (factor > 1.1 ? 1 : 0));
  }
}

TEST_CASE("the same report again is not a second one") {
  FakeJob job(4, 4);
  job.factor[1] = 1.5;
  JobSpeed speed("12");
  TimePoint now = start;
  watch(job, speed, now, seconds(70));
  const auto reports = job.reports();
  JobVerdict last;
  for (int i = 0; i < 11; ++i) last = speed.judge(reports, now += look_every);
  CHECK(stragglers(last).empty());
}

TEST_CASE("which findings speak of speed") {
  struct Case {
    const char *component, *code;
    bool speaks;
  };
  const Case cases[] = {
      {"gpu-nvml", "THROTTLE_HW_THERMAL", true}, {"gpu-nvml", "SLOW_CLOCK", true},
      {"gpu-nvml", "PCIE_WIDTH", true},          {"gpu-nvml", "ECC_CORRECTED_RATE", true},
      {"infiniband", "LINK_FLAPPING/1", true},   {"ethernet", "SPEED_REDUCED", true},
      {"pcie-counters", "WIDTH_REDUCED", true},  {"memory-counters", "CORRECTED_RATE", true},
      {"amd-counters", "XGMI_ERROR", true},      {"gpu-nvml", "ROW_REMAP_PENDING", false},
      {"gpu-nvml", "NO_ANSWER", false},          {"gpu-xid", "13", false},
      {"disk-counters", "READ_ONLY", false},     {"oom", "OOM_RATE", false},
  };
  for (const auto& [component, code, speaks] : cases) {
    CAPTURE(component);
    CAPTURE(code);
    CHECK(hardware_fact(component, code, "", "").has_value() == speaks);
  }
  CHECK(hardware_fact("gpu-nvml", "TEMPERATURE", "0000:05:00", "It is hot")->text == "It is hot (0000:05:00)");
  CHECK(hardware_fact("infiniband", "LINK_FLAPPING/1", "", "")->key == "infiniband/LINK_FLAPPING");
}

// Worst case: each report is one raw value, nothing is smoothed by the reporter. 16 nodes over 625 windows of four
// minutes are 10,000 windows of a node.
TEST_CASE("noise alone makes no straggler: 10,000 windows") {
  struct Noise {
    const char* name;
    std::function<double(std::mt19937&)> draw;
  };
  const Noise noises[] = {
      {"uniform within 5 %", [](std::mt19937& r) { return std::uniform_real_distribution<>(-0.05, 0.05)(r); }},
      {"normal, 5 %", [](std::mt19937& r) { return std::normal_distribution<>(0, 0.05)(r); }},
      {"one in ten takes twice as long", [](std::mt19937& r) { return r() % 10 == 0 ? 1.0 : 0.0; }},
  };
  for (const auto& [name, draw] : noises) {
    CAPTURE(name);
    std::mt19937 random(20261130);
    JobSpeed speed("12");
    constexpr int nodes = 16, windows = 10'000 / nodes, looks = 24;
    int false_windows = 0;
    TimePoint now = start;
    for (int window = 0; window < windows; ++window) {
      std::vector<bool> blamed(nodes);
      for (int look = 0; look < looks; ++look) {
        now += look_every;
        std::vector<NodeSpeed> reports;
        reports.reserve(nodes);
        for (int n = 0; n < nodes; ++n)
          reports.push_back({"n" + std::to_string(n), 0.4 * (1 + draw(random)), 0, 1.0, window, now, 0, -1, {}});
        const auto verdict = speed.judge(reports, now);
        for (int n = 0; n < nodes; ++n)
          if (verdict.nodes[static_cast<size_t>(n)].pace == Pace::straggler) blamed[static_cast<size_t>(n)] = true;
      }
      false_windows += static_cast<int>(std::ranges::count(blamed, true));
    }
    CHECK(false_windows == 0);
  }
}

TEST_CASE("any job: noise blames nobody, and a node that is at least 15 % slower is found in time and alone") {
  rc::detail::TestParams params;
  params.seed = 20261130;  // the same jobs on every machine
  params.maxSuccess = 60;
  const auto result = rc::detail::checkTestable(
      [] {
        const auto nodes = static_cast<size_t>(*rc::gen::inRange(3, 40));
        FakeJob job(nodes, *rc::gen::arbitrary<unsigned>());
        job.base_s = *rc::gen::inRange(1, 80) / 10.0;
        JobSpeed speed("12");
        TimePoint now = start;
        size_t early = 0;
        watch(job, speed, now, minutes(12), [&](const JobVerdict& v) { return early += stragglers(v).size(), false; });
        RC_ASSERT(early == 0u);
        const auto slow = static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(nodes)));
        job.factor[slow] = *rc::gen::inRange(115, 300) / 100.0;
        const TimePoint begun = now;
        std::vector<std::string> found;
        watch(job, speed, now, minutes(12), [&](const JobVerdict& v) { return !(found = stragglers(v)).empty(); });
        RC_ASSERT(found == std::vector<std::string>{"n" + std::to_string(slow)});
        // The reporter's own median lags by ten steps.
        RC_ASSERT(now - begun <=
                  Duration(300'000) + Duration(static_cast<std::int64_t>(10'000 * job.base_s * job.factor[slow])));
      },
      rc::detail::TestMetadata{}, params);
  std::ostringstream told;
  rc::detail::printResultMessage(result, told);
  CAPTURE(told.str());
  CHECK(result.is<rc::detail::SuccessResult>());
}
