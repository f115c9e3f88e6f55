// Group "heal": at least five heals of one training job on the lab, one after the other, then plain Slurm's own path
// for comparison: healing off, a node set DOWN by hand and put back at once, as an operator would; the job then waits
// for Slurm's own requeue. When the job's processes ended and when it ran again is read from squeue, five times a
// second, for both alike.
#include <fmt/core.h>

#include <boost/json/value.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/bring_up.hpp"
#include "cli/heal_driver.hpp"
#include "io/json.hpp"
#include "report.hpp"

using namespace homeostat;

namespace {

constexpr int heals = 5;
constexpr Duration heal_limit{300'000}, plain_limit{240'000};
constexpr const char* job_name = "homeostat-bench";

struct Sample {
  TimePoint at{};
  std::string state;
};

// "1764485374123 COMPLETING" a line; a line without a state is a moment when Slurm did not answer.
std::vector<Sample> parse_samples(const std::string& text) {
  std::vector<Sample> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    long long ms = 0;
    Sample sample;
    if (words >> ms >> sample.state) sample.at = TimePoint(Duration(ms)), samples.push_back(sample);
  }
  return samples;
}

// From the last sight of its old processes (COMPLETING) to the first of it running again.
std::optional<double> end_to_running(const std::vector<Sample>& samples, TimePoint from) {
  std::optional<TimePoint> ended;
  for (const auto& sample : samples) {
    if (sample.at < from) continue;
    if (sample.state == "COMPLETING" || (sample.state == "PENDING" && !ended)) ended = sample.at;
    if (sample.state == "RUNNING" && ended) return static_cast<double>((sample.at - *ended).count()) / 1000.0;
  }
  return std::nullopt;
}

struct Bench {
  cli::Context context{cli::find_places(), {}};
  cli::Teller teller;
  cli::Login login;
  cli::TrainJob job;
  std::unique_ptr<cli::RemoteStream> states;
  bench::Measure down{"heal.fault_to_down_s", "s", 1}, running{"heal.end_to_running_s", "s", 10},
      whole{"heal.pool_whole_s", "s", 90}, lost{"heal.steps_lost", "steps", 0},
      again{"heal.fault_to_running_s", "s", std::nullopt},
      plain{"heal.plain_slurm_end_to_running_s", "s", std::nullopt};
};

Result<void> begin(Bench& b) {
  if (cli::up(b.context, {}, b.teller) != 0) return fail(ErrorKind::internal, "the lab did not come up");
  auto login = cli::find_login(b.context);
  if (!login) return std::unexpected(login.error());
  b.login = *login;
  cli::cancel_jobs_named(b.login, job_name);
  auto job = cli::submit_training(b.context, b.login, job_name, {"--steps", "100000"});
  if (!job) return std::unexpected(job.error());
  b.job = std::move(*job);
  auto states = cli::RemoteStream::start(
      b.login, fmt::format("while :; do echo \"$(date +%s%3N) $(squeue -h -j {} -o %T 2>/dev/null)\"; sleep 0.2; done",
                           b.job.id));
  if (!states) return std::unexpected(states.error());
  b.states = std::move(*states);
  return {};
}

Result<void> one_heal(Bench& b, int number) {
  auto heal = cli::heal_once(b.context, b.login, b.job, heal_limit);
  if (!heal) return std::unexpected(heal.error());
  const auto& f = heal->figures;
  const auto end = end_to_running(parse_samples(b.states->text()), *heal->facts.fault_at);
  if (!f.fault_to_down_s || !end || !f.pool_whole_s || !f.steps_lost || !f.fault_to_running_s)
    return fail(ErrorKind::internal,
                fmt::format("heal {} lacks a time; see: homeostat repair {}", number, heal->record.name));
  b.down.runs.push_back(*f.fault_to_down_s);
  b.running.runs.push_back(*end);
  b.whole.runs.push_back(*f.pool_whole_s);
  b.lost.runs.push_back(*f.steps_lost);
  b.again.runs.push_back(*f.fault_to_running_s);
  b.teller.say(
      fmt::format("heal {} of {}: DOWN after {:.2f} s, running again {:.1f} s after the last process ended, pool whole "
                  "after {:.1f} s, {} steps lost",
                  number, heals, *f.fault_to_down_s, *end, *f.pool_whole_s, *f.steps_lost));
  return cli::wait_until_whole(b.context, b.teller, Duration(120'000));
}

Result<void> set_healing(Bench& b, bool enabled) {
  auto client = b.context.client();
  if (!client) return std::unexpected(client.error());
  boost::json::object patch;
  io::set_at(patch, {"spec", "healing", "enabled"}, enabled);
  auto done = (*client)->patch(kube::resources::node_pools, "", b.context.names().pool, kube::PatchType::merge, patch);
  if (!done) return std::unexpected(done.error());
  return {};
}

// An operator's word to slurmctld, in its own pod.
Result<void> scontrol(Bench& b, const std::vector<std::string>& words) {
  const auto& places = b.context.places();
  std::vector<std::string> argv = {places.kubectl(),
                                   "--kubeconfig",
                                   places.kubeconfig(),
                                   "-n",
                                   b.context.names().ns,
                                   "exec",
                                   b.context.names().cluster + "-controller-0",
                                   "--",
                                   "scontrol",
                                   "update"};
  argv.insert(argv.end(), words.begin(), words.end());
  auto done = io::run_ok(argv, {.timeout = Duration(20'000)});
  if (!done) return std::unexpected(done.error());
  return {};
}

Result<void> plain_slurm(Bench& b) {
  if (auto trains = cli::wait_for_training(b.context, b.job, 10, Duration(90'000)); !trains) return trains;
  auto nodes = cli::nodes_of_job(b.context, b.login, b.job.id);
  if (!nodes) return std::unexpected(nodes.error());
  const auto from = b.context.now();
  b.teller.say(fmt::format(
      "plain Slurm: {} is set DOWN by hand and put back at once; the job now waits about two minutes", nodes->back()));
  if (auto down = scontrol(b, {"NodeName=" + nodes->back(), "State=DOWN", "Reason=bench"}); !down) return down;
  b.context.clock().sleep(Duration(5'000), {});
  if (auto back = scontrol(b, {"NodeName=" + nodes->back(), "State=RESUME"}); !back) return back;
  const auto deadline = b.context.clock().monotonic() + plain_limit;
  for (;;) {
    if (const auto end = end_to_running(parse_samples(b.states->text()), from)) {
      b.plain.runs.push_back(*end);
      return {};
    }
    if (b.context.clock().monotonic() > deadline)
      return fail(ErrorKind::timeout, "plain Slurm did not run the job again within " + format_duration(plain_limit));
    b.context.clock().sleep(Duration(500), {});
  }
}

Result<void> measure(Bench& b) {
  if (auto begun = begin(b); !begun) return begun;
  for (int i = 1; i <= heals; ++i)
    if (auto healed = one_heal(b, i); !healed) return healed;
  if (auto off = set_healing(b, false); !off) return off;
  auto plain = plain_slurm(b);
  if (auto on = set_healing(b, true); !on) return on;
  return plain;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_heal FILE    (the JSON goes there; see: make bench)\n");
    return 2;
  }
  Bench b;
  const auto done = measure(b);
  if (b.job.id != 0) cli::cancel_job(b.login, b.job.id);
  const std::vector<bench::Measure> measures = {b.down, b.running, b.whole, b.lost, b.again, b.plain};
  if (!done) {
    fmt::print(stderr, "{}bench_heal: {}\n", cli::troubleshooting(b.context.places()), done.error().message);
    return 1;
  }
  fmt::print("\n{}", bench::table(measures));
  std::ofstream out(argv[1]);
  out << bench::to_json(measures) << "\n";
  out.close();
  if (!out) {
    fmt::print(stderr, "bench_heal: cannot write {}\n", argv[1]);
    return 1;
  }
  return bench::all_hold(measures) ? 0 : 1;
}
