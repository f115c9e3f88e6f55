#include "cli/heal_driver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <sstream>

#include "api/repair.hpp"
#include "cli/bring_up.hpp"
#include "cli/inject.hpp"
#include "io/files.hpp"
#include "io/http_server.hpp"
#include "io/json.hpp"
#include "io/process.hpp"
#include "kube/meta.hpp"

namespace homeostat::cli {
namespace {

namespace json = boost::json;

constexpr Duration call_limit{20'000}, look_every{150};
constexpr std::string_view policy_name = "default", webhook_path = "/homeostat-cli";
constexpr std::size_t max_notices = 1000;

Result<void> copy_example(Context& context, const Login& login, const std::string& name) {
  const auto text = io::read_file(context.places().sources + "/examples/" + name);
  if (!text) return std::unexpected(text.error());
  const auto target = "examples/" + name;
  auto done = remote(login, fmt::format("mkdir -p examples && cat >{0}.part && mv {0}.part {0}", target), call_limit,
                     context.stop(), *text);
  if (!done) return std::unexpected(done.error());
  return {};
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

int last_step(const std::vector<TrainEvent>& events) {
  int step = 0;
  for (const auto& event : events)
    if (event.kind == TrainEvent::Kind::step)
      step = event.step;  // the newest run's, which may be lower than an older one's
  return step;
}

int count_steps(const std::vector<TrainEvent>& events) {
  return static_cast<int>(
      std::count_if(events.begin(), events.end(), [](const auto& e) { return e.kind == TrainEvent::Kind::step; }));
}

bool resumed_after(const std::vector<TrainEvent>& events, TimePoint from) {
  return std::any_of(events.begin(), events.end(),
                     [&](const auto& e) { return e.kind == TrainEvent::Kind::resumed && e.at >= from; });
}

std::string standing(const std::optional<repair::Record>& record, const std::vector<TrainEvent>& events) {
  if (!record) return "no Repair was opened; is the agent running? See: homeostat kubectl -n homeostat-system get pods";
  return fmt::format("Repair {} is in {} ({}); the job's last logged step is {}", record->name,
                     repair::to_string(record->phase), record->message, last_step(events));
}

}  // namespace

Result<std::vector<std::string>> nodes_of_job(Context& context, const Login& login, std::uint32_t job) {
  auto list = remote(login, fmt::format("squeue -h -t RUNNING -j {} -o %N", job), call_limit, context.stop());
  if (!list) return std::unexpected(list.error());
  const auto compact = words(*list);
  if (compact.empty())
    return fail(ErrorKind::not_found, fmt::format("job {} does not run; see: homeostat ssh squeue", job));
  auto names = remote(login, fmt::format("scontrol show hostnames '{}'", compact.front()), call_limit, context.stop());
  if (!names) return std::unexpected(names.error());
  auto nodes = words(*names);
  if (nodes.empty()) return fail(ErrorKind::internal, fmt::format("Slurm names no node of job {}", job));
  return nodes;
}

Result<TrainJob> submit_training(Context& context, const Login& login, const std::string& name,
                                 const std::vector<std::string>& arguments) {
  for (const auto* file : {"train.py", "train.sbatch"})
    if (auto copied = copy_example(context, login, file); !copied) return std::unexpected(copied.error());
  std::string command = "cd examples && sbatch --parsable --job-name=" + name + " train.sbatch";
  for (const auto& argument : arguments) command += " " + argument;
  TrainJob job;
  job.submitted_at = context.now();
  auto answer = remote(login, command, call_limit, context.stop());
  if (!answer) return std::unexpected(answer.error());
  job.id = static_cast<std::uint32_t>(std::strtoul(answer->c_str(), nullptr, 10));
  if (job.id == 0) return fail(ErrorKind::internal, "sbatch gave no job id but: " + *answer);
  job.folder = fmt::format("examples/train-{}", job.id);
  auto log = RemoteStream::start(login, fmt::format("tail -s 0.1 -n +1 -F {}/train.log", job.folder));
  if (!log) return std::unexpected(log.error());
  job.log = std::move(*log);
  return job;
}

// Also when the command was interrupted: hence no stop_token.
void cancel_job(const Login& login, std::uint32_t job) {
  (void)remote(login, fmt::format("scancel {}", job), call_limit, {});
}

void cancel_jobs_named(const Login& login, const std::string& name) {
  (void)remote(login, fmt::format("scancel --quiet --name={}", name), call_limit, {});
}

Result<void> wait_for_training(Context& context, TrainJob& job, int steps, Duration limit) {
  const int before = count_steps(job.events());
  const auto deadline = context.clock().monotonic() + limit;
  while (!context.stop().stop_requested()) {
    if (count_steps(job.events()) >= before + steps) return {};
    if (context.clock().monotonic() > deadline)
      return fail(
          ErrorKind::timeout,
          fmt::format(
              "job {} did not train within {}. See: homeostat ssh squeue; homeostat ssh cat examples/train-{}.out",
              job.id, format_duration(limit), job.id));
    context.clock().sleep(look_every, context.stop());
  }
  return fail(ErrorKind::cancelled, "interrupted");
}

Result<TimePoint> break_gpu(Context& context, const std::string& node, int xid, int device) {
  return strike_in_lab(context, node, fmt::format("xid={}", xid), std::to_string(device));
}

Result<std::optional<repair::Record>> repair_of(Context& context, const std::string& node) {
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  auto list = (*client)->list(kube::resources::repairs, "", {});
  if (!list) return std::unexpected(list.error());
  std::optional<repair::Record> found;
  std::string newest;
  for (const auto& item : list->items) {
    if (io::string_at(item, {"spec", "nodeName"}) != node) continue;
    const auto created = io::string_at(item, {"metadata", "creationTimestamp"});
    if (found && created < newest) continue;
    newest = created;
    found = api::decode_repair(item);
  }
  return found;
}

Result<Heal> follow_heal(Context& context, TrainJob& job, const HealFacts& facts, Duration limit,
                         const std::function<void(const repair::Record*, const std::vector<TrainEvent>&)>& on_look) {
  const auto deadline = context.clock().monotonic() + limit;
  std::optional<repair::Record> record;
  while (!context.stop().stop_requested()) {
    auto now = repair_of(context, facts.sick_node);
    if (now) record = *now;  // an API server that restarts is asked again
    const auto events = job.events();
    if (on_look) on_look(record ? &*record : nullptr, events);
    if (record && (record->phase == repair::Phase::failed || record->phase == repair::Phase::cancelled))
      return fail(ErrorKind::internal, standing(record, events));
    if (record && record->phase == repair::Phase::done && resumed_after(events, *facts.fault_at))
      return Heal{facts, *record, events, figures(facts, *record, events)};
    if (context.clock().monotonic() > deadline)
      return fail(ErrorKind::timeout,
                  fmt::format("the heal was not over after {}: {}", format_duration(limit), standing(record, events)));
    context.clock().sleep(look_every, context.stop());
  }
  return fail(ErrorKind::cancelled, "interrupted");
}

Result<Heal> heal_once(
    Context& context, const Login& login, TrainJob& job, Duration limit,
    const std::function<void(const HealFacts&, const repair::Record*, const std::vector<TrainEvent>&)>& on_look) {
  if (auto trains = wait_for_training(context, job, 10, Duration(90'000)); !trains)
    return std::unexpected(trains.error());
  auto nodes = nodes_of_job(context, login, job.id);
  if (!nodes) return std::unexpected(nodes.error());
  HealFacts facts;
  facts.job = job.id;
  facts.sick_node = nodes->back();
  facts.submitted_at = job.submitted_at;
  auto broken = break_gpu(context, facts.sick_node);
  if (!broken) return std::unexpected(broken.error());
  facts.fault_at = *broken;
  return follow_heal(context, job, facts, limit, [&](const auto* record, const auto& events) {
    if (on_look) on_look(facts, record, events);
  });
}

struct NotificationListener::State {
  mutable std::mutex mutex;
  std::vector<Notice> notices;
  std::unique_ptr<io::HttpServer> server;
  std::string base;  // "http://10.77.0.1:"
};

namespace {

// The policy's other targets stay; `url` "" only takes ours away, also one that a killed predecessor left.
Result<void> set_target(Context& context, const std::string& base, const std::string& url) {
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  auto policy = (*client)->get(kube::resources::health_policies, "", policy_name);
  if (!policy) return std::unexpected(policy.error());
  json::array targets;
  for (const auto& target : io::array_at(*policy, {"spec", "notify"})) {
    const auto other = io::string_at(target, {"webhook", "url"});
    if (!(other.starts_with(base) && other.ends_with(webhook_path))) targets.push_back(target);
  }
  if (!url.empty()) targets.push_back(json::object{{"webhook", json::object{{"url", url}}}});
  json::object patch;
  io::set_at(patch, {"spec", "notify"}, targets);
  auto done = (*client)->patch(kube::resources::health_policies, "", policy_name, kube::PatchType::merge, patch);
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace

NotificationListener::NotificationListener(Context& context, std::shared_ptr<State> state)
    : context_(context), state_(std::move(state)) {}

Result<std::unique_ptr<NotificationListener>> NotificationListener::start(Context& context) {
  auto address = lab_host_address(context.places());
  if (!address) return std::unexpected(address.error());
  auto state = std::make_shared<State>();
  auto server = io::HttpServer::start({.address = *address}, [state = state.get()](const io::ServerRequest& request) {
    std::lock_guard lock(state->mutex);
    if (state->notices.size() < max_notices) state->notices.push_back({io::SystemClock().now(), request.body});
    io::ServerResponse response;
    response.body = "{}";
    return response;
  });
  if (!server) return std::unexpected(server.error());
  state->server = std::move(*server);
  state->base = "http://" + *address + ":";
  if (auto set =
          set_target(context, state->base, fmt::format("{}{}{}", state->base, state->server->port(), webhook_path));
      !set)
    return std::unexpected(set.error());
  return std::unique_ptr<NotificationListener>(new NotificationListener(context, std::move(state)));
}

NotificationListener::~NotificationListener() {
  (void)set_target(context_, state_->base, "");
  state_->server->stop();
}

std::vector<NotificationListener::Notice> NotificationListener::notices() const {
  std::lock_guard lock(state_->mutex);
  return state_->notices;
}

std::string troubleshooting(const Places& places) {
  std::string out;
  const std::vector<std::vector<std::string>> questions = {
      {"-n", "homeostat-system", "logs", "deploy/homeostat-controller", "--tail=15"},
      {"get", "events", "-A", "--sort-by=.lastTimestamp"},
      {"get", "pods", "-A", "-o", "wide"}};
  for (const auto& question : questions) {
    std::vector<std::string> argv = {places.kubectl(), "--kubeconfig", places.kubeconfig(), "--request-timeout=5s"};
    argv.insert(argv.end(), question.begin(), question.end());
    auto answer = io::run(argv, {.timeout = Duration(15'000)});
    std::string text = answer ? answer->out + answer->err : answer.error().message;
    constexpr std::size_t shown = 3000;
    if (text.size() > shown) text = "…" + text.substr(text.size() - shown);
    out += "--- kubectl";
    for (const auto& word : question) out += " " + word;
    out += "\n" + text;
  }
  return out;
}

}  // namespace homeostat::cli
