// Drives one heal from outside, as a person would: submit a training job over ssh, wait until it trains, break a GPU,
// follow the repair's record and the job's log to the end, and take the figures. Used by `homeostat demo`, the
// end-to-end test and the benchmark.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.hpp"
#include "cli/remote_shell.hpp"
#include "cli/timeline.hpp"
#include "cli/train_log.hpp"
#include "core/repair/record.hpp"

namespace homeostat::cli {

// In the order of their ranks. An error when the job does not run.
Result<std::vector<std::string>> nodes_of_job(Context& context, const Login& login, std::uint32_t job);

struct TrainJob {
  std::uint32_t id = 0;
  TimePoint submitted_at{};
  std::string folder;  // below the researcher's home
  std::unique_ptr<RemoteStream> log;

  std::vector<TrainEvent> events() const { return parse_train_log(log->text()); }
};

// Copies examples/train.py and train.sbatch to ~/examples and submits. `name` tells our jobs from the researcher's own.
Result<TrainJob> submit_training(Context& context, const Login& login, const std::string& name,
                                 const std::vector<std::string>& arguments = {});
void cancel_job(const Login& login, std::uint32_t job);
void cancel_jobs_named(const Login& login, const std::string& name);

// Until any rank has logged `steps` more steps than at the call.
Result<void> wait_for_training(Context& context, TrainJob& job, int steps, Duration limit);

// As a drill, so that every record says so. Gives the instant just before the fault struck, which is after the drill
// was armed.
Result<TimePoint> break_gpu(Context& context, const std::string& node, int xid = 79, int device = 0);

// The newest Repair of a node; nullopt: there is none.
Result<std::optional<repair::Record>> repair_of(Context& context, const std::string& node);

struct Heal {
  HealFacts facts;
  repair::Record record;
  std::vector<TrainEvent> log;
  HealFigures figures;
};

// Until the repair is Done and the job trains again from its checkpoint. on_look is called with what is known at each
// look. Errors: the repair ended otherwise; timeout, with the phase it stands in and its message.
Result<Heal> follow_heal(
    Context& context, TrainJob& job, const HealFacts& facts, Duration limit,
    const std::function<void(const repair::Record*, const std::vector<TrainEvent>&)>& on_look = {});

// submit -> train -> break -> follow in one: what the benchmark repeats. The GPU that breaks is on the node of the last
// rank.
Result<Heal> heal_once(
    Context& context, const Login& login, TrainJob& job, Duration limit,
    const std::function<void(const HealFacts&, const repair::Record*, const std::vector<TrainEvent>&)>& on_look = {});

// Receives webhooks on an address that pods reach, and has the policy "default" send to it while it lives.
class NotificationListener {
 public:
  static Result<std::unique_ptr<NotificationListener>> start(Context& context);
  ~NotificationListener();

  struct Notice {
    TimePoint at{};
    std::string body;
  };
  std::vector<Notice> notices() const;

 private:
  struct State;
  NotificationListener(Context& context, std::shared_ptr<State> state);
  Context& context_;
  std::shared_ptr<State> state_;
};

// What to read when something went wrong: the controller's last lines and the latest events.
std::string troubleshooting(const Places& places);

}  // namespace homeostat::cli
