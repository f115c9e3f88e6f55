#include "cli/demo.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <set>

#include "cli/bring_up.hpp"
#include "cli/heal_driver.hpp"
#include "io/json.hpp"

namespace homeostat::cli {
namespace {

namespace json = boost::json;

constexpr std::string_view job_name = "homeostat-demo";
constexpr Duration heal_limit{300'000};

std::string coloured(std::string_view text, std::string_view code) {
  return ::isatty(STDOUT_FILENO) ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

// Prints each row of the timeline once, as soon as it is known.
class LiveTimeline {
 public:
  explicit LiveTimeline(bool quiet) : quiet_(quiet) {}

  void show(const HealFacts& facts, const repair::Record* record, const std::vector<TrainEvent>& log) {
    for (const auto& row : timeline(facts, record, log)) {
      if (quiet_ || !shown_.insert(row.what + "@" + format_rfc3339(row.at)).second) continue;
      if (facts.fault_at && row.at < *facts.fault_at && before_) continue;
      const auto line = format_row(row, facts.fault_at);
      fmt::print("{}\n", row.what == "fault injected"                        ? coloured(line, "31")
                         : row.what == "resumed" || row.what == "pool whole" ? coloured(line, "32")
                                                                             : line);
      std::fflush(stdout);
    }
  }
  void before_fault(const HealFacts& facts, const std::vector<TrainEvent>& log) {
    show(facts, nullptr, log), before_ = true;
  }
  void notice(const NotificationListener::Notice& notice, const HealFacts& facts) {
    if (quiet_ || !shown_.insert(notice.body).second) return;
    const auto body = io::parse_json_object(notice.body, "the webhook");
    const auto text = body ? io::string_at(*body, {"text"}, io::string_at(*body, {"message"})) : std::string();
    fmt::print("{}\n", format_row({"webhook received", text.substr(0, 160), notice.at}, facts.fault_at));
    std::fflush(stdout);
  }

 private:
  bool quiet_, before_ = false;
  std::set<std::string> shown_;
};

json::value number(const std::optional<double>& value) { return value ? json::value(*value) : json::value(nullptr); }
json::value number(const std::optional<int>& value) { return value ? json::value(*value) : json::value(nullptr); }

json::object to_json(const Heal& heal) {
  const auto& f = heal.figures;
  return {{"repair", heal.record.name},
          {"node", heal.facts.sick_node},
          {"job", heal.facts.job},
          {"faultToDown_s", number(f.fault_to_down_s)},
          {"endToRunning_s", number(f.end_to_running_s)},
          {"faultToRunning_s", number(f.fault_to_running_s)},
          {"poolWhole_s", number(f.pool_whole_s)},
          {"savedStep", number(f.saved_step)},
          {"resumedStep", number(f.resumed_step)},
          {"stepsLost", number(f.steps_lost)},
          {"ranksTold", f.ranks_told}};
}

constexpr std::string_view next_steps = R"(
The lab stays up. Try:
  homeostat status                     the pool, its nodes, Slurm
  homeostat ssh                        the login node: sinfo, squeue, sbatch, srun
  homeostat inject --of-job {0} xid=79   break another GPU of this job
  homeostat repair {1}
  homeostat kubectl get repairs        the same through Kubernetes
  homeostat down                       end the lab without a trace
)";

// Cancels the job when the demo does not come to its end.
class JobGuard {
 public:
  JobGuard(const Login& login, std::uint32_t job) : login_(login), job_(job) {}
  ~JobGuard() {
    if (armed_) cancel_job(login_, job_);
  }
  void keep() { armed_ = false; }

 private:
  const Login& login_;
  std::uint32_t job_;
  bool armed_ = true;
};

Result<Heal> one_heal(Context& context, const Login& login, TrainJob& job, const NotificationListener& listener,
                      bool quiet) {
  LiveTimeline live(quiet);
  HealFacts before;
  before.job = job.id;
  before.submitted_at = job.submitted_at;
  if (auto trains = wait_for_training(context, job, 8, Duration(120'000)); !trains)
    return std::unexpected(trains.error());
  live.before_fault(before, job.events());
  return heal_once(context, login, job, heal_limit, [&](const HealFacts& facts, const auto* record, const auto& log) {
    live.show(facts, record, log);
    for (const auto& notice : listener.notices())
      if (notice.at >= *facts.fault_at) live.notice(notice, facts);
  });
}

Result<json::array> run_demo(Context& context, const DemoOptions& options, const Teller& teller) {
  if (auto whole = wait_until_whole(context, teller, Duration(180'000)); !whole) return std::unexpected(whole.error());
  auto login = find_login(context);
  if (!login) return std::unexpected(login.error());
  cancel_jobs_named(*login, std::string(job_name));
  auto listener = NotificationListener::start(context);
  if (!listener) return std::unexpected(listener.error());
  auto job = submit_training(context, *login, std::string(job_name));
  if (!job) return std::unexpected(job.error());
  JobGuard guard(*login, job->id);
  teller.say(fmt::format("job {} is submitted: examples/train.sbatch on two nodes", job->id));
  json::array results;
  std::string last;
  for (int i = 0; i < options.heals; ++i) {
    if (!teller.quiet()) fmt::print("\n");
    auto heal = one_heal(context, *login, *job, **listener, teller.quiet());
    if (!heal) return std::unexpected(heal.error());
    if (!teller.quiet()) fmt::print("\n{}", summary(heal->figures));
    results.push_back(to_json(*heal));
    last = heal->record.name;
    if (i + 1 < options.heals)
      if (auto whole = wait_until_whole(context, teller, Duration(120'000)); !whole)
        return std::unexpected(whole.error());
  }
  guard.keep();
  if (!teller.quiet()) fmt::print(fmt::runtime(next_steps), job->id, last);
  return results;
}

}  // namespace

int demo(Context& context, const DemoOptions& options) {
  const Teller teller(options.as_json);
  if (int code = up(context, {.wait = false}, teller); code != 0) return code;
  auto results = run_demo(context, options, teller);
  if (results) {
    if (options.as_json) fmt::print("{}\n", io::to_text(json::object{{"heals", *results}}));
    return exit_good;
  }
  if (results.error().kind != ErrorKind::cancelled) fmt::print(stderr, "{}", troubleshooting(context.places()));
  return complain(results.error());
}

}  // namespace homeostat::cli
