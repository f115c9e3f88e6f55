#include "slurm/fake_slurm.hpp"

#include <algorithm>

namespace homeostat::slurm {
namespace {

constexpr int max_steps_per_advance = 100'000;

TimePoint next_tick(TimePoint from, Duration interval) {
  const auto since = from.time_since_epoch();
  return TimePoint{(since / interval + (since % interval == Duration{0} ? 0 : 1)) * interval};
}

void earlier(std::optional<TimePoint>& best, TimePoint candidate) {
  if (!best || candidate < *best) best = candidate;
}

}  // namespace

// ---- the world

void FakeSlurm::register_node(const std::string& name, int gpus) {
  std::lock_guard lock(mutex_);
  remember();
  auto& state = nodes_[name];
  state.node.name = name;
  state.node.gres = "gpu:" + std::to_string(gpus);
  state.node.boot_time = state.node.slurmd_start_time = now_;
  state.gpus = gpus;
  state.slurmd = true;
  state.hung = false;
  state.silent_since.reset();
  state.running.clear();
  state.dying.clear();
  settle();
  refresh();
}

void FakeSlurm::lose_slurmd(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto at = nodes_.find(name);
  if (at == nodes_.end()) return;
  auto& state = at->second;
  state.slurmd = state.hung = false;
  if (!state.silent_since) state.silent_since = now_;
  for (const auto id : state.running) note(Event::killed, jobs_.at(id), name);
  for (const auto& [id, when] : state.dying) note(Event::killed, jobs_.at(id), name);
  state.running.clear();
  state.dying.clear();
  settle();
  refresh();
}

void FakeSlurm::hang_node(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto at = nodes_.find(name);
  if (at == nodes_.end()) return;
  auto& state = at->second;
  state.hung = true;
  if (!state.silent_since) state.silent_since = now_;
  for (const auto& [id, when] : state.dying) state.running.insert(id);  // whoever was told to go does not get to it
  state.dying.clear();
  refresh();
}

long FakeSlurm::submit(const FakeJobSpec& spec) {
  std::lock_guard lock(mutex_);
  remember();
  const long id = next_job_++;
  auto& job = jobs_[id];
  job.spec = spec;
  job.eligible_at = now_;
  job.job.id = id;
  job.job.name = spec.name;
  job.job.user = spec.user;
  job.job.partition = "main";
  job.job.batch = spec.batch;
  job.job.requeue = spec.requeue;
  job.job.gpus = static_cast<int>(spec.nodes) * spec.gpus_per_node;
  refresh();
  return id;
}

void FakeSlurm::set_reachable(bool reachable) {
  std::lock_guard lock(mutex_);
  reachable_ = reachable;
}

void FakeSlurm::advance_to(TimePoint now) {
  std::lock_guard lock(mutex_);
  for (int steps = 0; steps < max_steps_per_advance; ++steps) {
    const auto next = next_event_locked();
    if (!next || *next > now) break;
    now_ = std::max(now_, *next);
    step();
  }
  now_ = std::max(now_, now);
}

std::optional<TimePoint> FakeSlurm::next_event() const {
  std::lock_guard lock(mutex_);
  return next_event_locked();
}

void FakeSlurm::set_fault_hook(std::function<Fault(const Call&)> hook) {
  std::lock_guard lock(mutex_);
  fault_hook_ = std::move(hook);
}

void FakeSlurm::set_effect_hook(std::function<void(const Call&)> hook) {
  std::lock_guard lock(mutex_);
  effect_hook_ = std::move(hook);
}

std::vector<FakeSlurm::Record> FakeSlurm::records() const {
  std::lock_guard lock(mutex_);
  return records_;
}

std::vector<FakeSlurm::Call> FakeSlurm::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

std::optional<Job> FakeSlurm::find_job(long id) const {
  std::lock_guard lock(mutex_);
  const auto at = jobs_.find(id);
  return at == jobs_.end() ? std::nullopt : std::optional(at->second.job);
}

std::optional<Node> FakeSlurm::find_node(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto at = nodes_.find(name);
  return at == nodes_.end() ? std::nullopt : std::optional(at->second.node);
}

bool FakeSlurm::has_processes(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto at = nodes_.find(name);
  return at != nodes_.end() && (!at->second.running.empty() || !at->second.dying.empty());
}

// ---- how time passes

std::optional<TimePoint> FakeSlurm::next_event_locked() const {
  std::optional<TimePoint> best;
  for (const auto& [name, state] : nodes_) {
    for (const auto& [id, when] : state.dying) earlier(best, when);
    if (state.silent_since && !state.down) earlier(best, *state.silent_since + options_.slurmd_timeout);
  }
  for (const auto& [id, job] : jobs_) {
    if (!job.pending && job.end_state.empty() && job.spec.runs_for) earlier(best, job.started_at + *job.spec.runs_for);
    if (could_start(job)) earlier(best, next_tick(std::max(now_, job.eligible_at), options_.sched_interval));
  }
  return best;
}

void FakeSlurm::step() {
  remember();
  finish_dying();
  end_finished();
  miss_silent();
  settle();
  schedule();
  refresh();
}

void FakeSlurm::finish_dying() {
  for (auto& [name, state] : nodes_)
    for (auto at = state.dying.begin(); at != state.dying.end();) {
      if (at->second > now_) {
        ++at;
        continue;
      }
      const auto& job = jobs_.at(at->first);
      note(job.spec.exits_after_term > options_.kill_wait ? Event::killed : Event::exited, job, name);
      at = state.dying.erase(at);
    }
}

void FakeSlurm::end_finished() {
  for (auto& [id, job] : jobs_) {
    if (job.pending || !job.end_state.empty() || !job.spec.runs_for || job.started_at + *job.spec.runs_for > now_)
      continue;
    for (const auto& host : job.job.nodes)
      if (const auto at = nodes_.find(host); at != nodes_.end()) at->second.running.erase(id);
    job.end_state = "COMPLETED";
    job.job.end_time = now_;
    job.settled = false;
  }
}

void FakeSlurm::miss_silent() {
  for (auto& [name, state] : nodes_)
    if (state.silent_since && !state.down && *state.silent_since + options_.slurmd_timeout <= now_)
      set_down(state, "Not responding");
}

// Slurm does not wait for the DOWN node: its processes may outlive the job's completion (hence the fence).
bool FakeSlurm::is_completing(const JobState& job) const {
  if (job.settled) return false;
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    const auto& state = entry.second;
    return !state.down && (state.dying.contains(job.job.id) || (state.hung && state.running.contains(job.job.id)));
  });
}

void FakeSlurm::settle() {
  for (auto& [id, job] : jobs_) {
    if (job.settled || is_completing(job)) continue;
    job.settled = true;
    job.job.nodes.clear();
    if (job.pending) {
      job.eligible_at = now_ + options_.requeue_delay;
      note(Event::requeued, job, "");
    } else {
      note(Event::ended, job, "");
    }
  }
}

std::vector<std::string> FakeSlurm::place(const JobState& job) const {
  std::vector<std::string> hosts;
  for (const auto& [name, state] : nodes_) {
    int used = 0;
    for (const auto& [id, other] : jobs_)
      if (std::find(other.job.nodes.begin(), other.job.nodes.end(), name) != other.job.nodes.end())
        used += other.spec.gpus_per_node;
    const bool open = state.slurmd && !state.hung && !state.down && !state.drain;
    if (open && used + job.spec.gpus_per_node <= state.gpus) hosts.push_back(name);
    if (hosts.size() == job.spec.nodes) return hosts;
  }
  return {};
}

bool FakeSlurm::could_start(const JobState& job) const { return job.pending && job.settled && !place(job).empty(); }

void FakeSlurm::schedule() {
  for (auto& [id, job] : jobs_) {
    if (!job.pending || !job.settled || job.eligible_at > now_) continue;
    if (next_tick(now_, options_.sched_interval) != now_) continue;
    if (const auto hosts = place(job); !hosts.empty()) start(job, hosts);
  }
}

void FakeSlurm::start(JobState& job, const std::vector<std::string>& hosts) {
  job.pending = false;
  job.started_at = now_;
  job.job.start_time = now_;
  job.job.nodes = hosts;
  for (const auto& host : hosts) {
    nodes_.at(host).running.insert(job.job.id);
    note(Event::started, job, host);
  }
}

void FakeSlurm::stop_processes(JobState& job) {
  for (const auto& host : job.job.nodes) {
    const auto at = nodes_.find(host);
    if (at == nodes_.end() || at->second.hung || at->second.running.erase(job.job.id) == 0) continue;
    note(Event::term, job, host);
    at->second.dying[job.job.id] = now_ + std::min(job.spec.exits_after_term, options_.kill_wait);
  }
}

void FakeSlurm::stop_job(JobState& job, const std::string& end_state, bool may_requeue) {
  stop_processes(job);
  job.job.end_time = now_;
  job.settled = false;
  if (may_requeue && job.job.requeueable()) {
    job.pending = true;
    ++job.job.restart_count;
  } else {
    job.end_state = end_state;
  }
}

void FakeSlurm::set_down(NodeState& state, std::string_view reason) {
  state.down = true;
  state.node.reason = reason;
  state.node.reason_at = now_;
  for (auto& [id, job] : jobs_) {
    const auto& hosts = job.job.nodes;
    const bool here = std::find(hosts.begin(), hosts.end(), state.node.name) != hosts.end();
    if (here && !job.pending && job.end_state.empty()) stop_job(job, "NODE_FAIL", true);
  }
}

void FakeSlurm::note(Event event, const JobState& job, const std::string& node) {
  records_.push_back({now_, event, job.job.id, node, job.job.restart_count});
}

void FakeSlurm::remember() {
  old_nodes_.clear();
  old_jobs_.clear();
  for (const auto& [name, state] : nodes_) old_nodes_[name] = state.node;
  for (const auto& [id, job] : jobs_) old_jobs_[id] = job.job;
}

void FakeSlurm::refresh() {
  for (auto& [id, job] : jobs_) {
    const bool completing = is_completing(job);
    auto& states = job.job.states;
    states = {job.pending ? "PENDING" : job.end_state.empty() ? "RUNNING" : job.end_state};
    if (completing) states.insert("COMPLETING");
    job.job.begin_time = job.eligible_at;
    job.job.state_reason = job.pending && job.eligible_at > now_ ? "BeginTime" : "None";
  }
  for (auto& [name, state] : nodes_) {
    auto& states = state.node.states;
    states = {state.down ? "DOWN" : !state.running.empty() ? "MIXED" : "IDLE", "DYNAMIC_NORM"};
    if (state.drain) states.insert("DRAIN");
    if (!state.down && !state.dying.empty()) states.insert("COMPLETING");
    if (state.silent_since && !state.down) states.insert("NOT_RESPONDING");
  }
}

// ---- what clients do

Result<void> FakeSlurm::set_state(const std::string& name, NodeOrder order, std::string_view reason) {
  const auto at = nodes_.find(name);
  if (at == nodes_.end())
    return fail(ErrorKind::not_found, "Slurm refused: Invalid node name specified (" + name + ").");
  auto& state = at->second;
  if (!reason.empty()) {
    state.node.reason = reason;
    state.node.reason_at = now_;
  }
  switch (order) {
    case NodeOrder::drain:
      state.drain = true;
      break;
    case NodeOrder::undrain:
      state.drain = false;
      break;
    case NodeOrder::down:
      set_down(state, reason.empty() ? state.node.reason : std::string(reason));
      break;
    case NodeOrder::resume:
      state.drain = state.down = false;
      break;
  }
  if (!state.drain && !state.down) state.node.reason.clear();
  settle();
  return {};
}

Result<void> FakeSlurm::remove_node(const std::string& name) {
  const auto at = nodes_.find(name);
  if (at == nodes_.end()) return {};
  for (const auto& [id, job] : jobs_)
    if (std::find(job.job.nodes.begin(), job.job.nodes.end(), name) != job.job.nodes.end() && !at->second.down)
      return fail(ErrorKind::conflict, "Slurm refused to delete node " + name + ": Requested nodes are busy.");
  nodes_.erase(at);
  settle();
  return {};
}

Result<void> FakeSlurm::make_eligible(long id) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end())
    return fail(ErrorKind::not_found, "Slurm refused: Invalid job id specified (" + std::to_string(id) + ").");
  auto& job = at->second;
  if (job.pending) job.eligible_at = now_;  // settle() sets it anew: too early, while completing, is in vain
  if (!job.pending && !job.end_state.empty())
    return fail(ErrorKind::conflict, "Slurm refused: Job is no longer pending execution (" + std::to_string(id) + ").");
  return {};
}

class FakeSlurm::FakeClient final : public Client {
 public:
  explicit FakeClient(FakeSlurm& slurm) : slurm_(slurm) {}

  Result<Ping> ping() override {
    return read<Ping>({.name = "ping"},
                      [](bool) { return Ping{.release = "24.11.5", .data_parser = "v0.0.42", .controller_up = true}; });
  }
  Result<std::vector<Node>> nodes() override {
    return read<std::vector<Node>>({.name = "nodes"}, [&](bool stale) {
      std::vector<Node> out;
      for (const auto& [name, state] : slurm_.nodes_)
        if (!stale) out.push_back(state.node);
      for (const auto& [name, node] : slurm_.old_nodes_)
        if (stale) out.push_back(node);
      return out;
    });
  }
  Result<std::optional<Node>> node(std::string_view name) override {
    return read<std::optional<Node>>(
        {.name = "node", .target = std::string(name)}, [&](bool stale) -> std::optional<Node> {
          const auto at = slurm_.nodes_.find(std::string(name));
          const auto old = slurm_.old_nodes_.find(std::string(name));
          if (stale) return old == slurm_.old_nodes_.end() ? std::nullopt : std::optional(old->second);
          return at == slurm_.nodes_.end() ? std::nullopt : std::optional(at->second.node);
        });
  }
  Result<std::vector<Job>> jobs() override {
    return read<std::vector<Job>>({.name = "jobs"}, [&](bool stale) {
      std::vector<Job> out;
      for (const auto& [id, job] : slurm_.jobs_)
        if (!stale) out.push_back(job.job);
      for (const auto& [id, job] : slurm_.old_jobs_)
        if (stale) out.push_back(job);
      return out;
    });
  }
  Result<std::optional<Job>> job(long id) override {
    return read<std::optional<Job>>(
        {.name = "job", .target = std::to_string(id)}, [&](bool stale) -> std::optional<Job> {
          const auto at = slurm_.jobs_.find(id);
          const auto old = slurm_.old_jobs_.find(id);
          if (stale) return old == slurm_.old_jobs_.end() ? std::nullopt : std::optional(old->second);
          return at == slurm_.jobs_.end() ? std::nullopt : std::optional(at->second.job);
        });
  }
  Result<Diag> diag() override {
    return read<Diag>({.name = "diag"}, [&](bool) {
      Diag out;
      for (const auto& [id, job] : slurm_.jobs_) {
        if (job.pending) ++out.jobs_pending;
        if (!job.pending && job.end_state.empty()) ++out.jobs_running;
      }
      return out;
    });
  }
  Result<void> set_node_state(std::string_view name, NodeOrder order, std::string_view reason) override {
    Call call{"set_node_state", std::string(name), std::string(to_string(order)) + " " + std::string(reason)};
    return write(call, [&] { return slurm_.set_state(call.target, order, reason); });
  }
  Result<void> delete_node(std::string_view name) override {
    Call call{"delete_node", std::string(name), {}};
    return write(call, [&] { return slurm_.remove_node(call.target); });
  }
  Result<void> make_job_eligible_now(long id) override {
    return write({"make_job_eligible_now", std::to_string(id), {}}, [&] { return slurm_.make_eligible(id); });
  }
  Result<void> set_job_admin_comment(long id, std::string_view text) override {
    return write({"set_job_admin_comment", std::to_string(id), std::string(text)}, [&]() -> Result<void> {
      const auto at = slurm_.jobs_.find(id);
      if (at == slurm_.jobs_.end()) return fail(ErrorKind::not_found, "Slurm refused: Invalid job id specified.");
      at->second.job.admin_comment = text;
      return {};
    });
  }

 private:
  Fault ask(const Call& call) {
    std::function<Fault(const Call&)> hook;
    {
      std::lock_guard lock(slurm_.mutex_);
      hook = slurm_.fault_hook_;
      if (!slurm_.reachable_) return Fault::unreachable;
    }
    return hook ? hook(call) : Fault::none;
  }

  static Error error_of(Fault fault, const Call& call) {
    const auto what = "Slurm could not be asked to " + call.name + " " + call.target;
    switch (fault) {
      case Fault::unreachable:
        return {ErrorKind::unreachable, what + ": connection refused.", std::nullopt};
      case Fault::timeout:
        return {ErrorKind::timeout, what + ": no answer in time.", std::nullopt};
      case Fault::refused:
        return {ErrorKind::unavailable, "Slurm refused to " + call.name + ": an injected fault.", std::nullopt};
      default:
        return {ErrorKind::unknown_outcome, what + ": the connection broke after sending.", std::nullopt};
    }
  }

  template <class T, class Read>
  Result<T> read(const Call& call, const Read& look) {
    const auto fault = ask(call);
    if (fault != Fault::none && fault != Fault::stale_read) return std::unexpected(error_of(fault, call));
    std::lock_guard lock(slurm_.mutex_);
    return look(fault == Fault::stale_read);
  }

  template <class Write>
  Result<void> write(const Call& call, const Write& act) {
    const auto fault = ask(call);
    if (fault != Fault::none && fault != Fault::lost_reply && fault != Fault::stale_read)
      return std::unexpected(error_of(fault, call));
    Result<void> done;
    std::function<void(const Call&)> effect;
    {
      std::lock_guard lock(slurm_.mutex_);
      slurm_.remember();
      slurm_.calls_.push_back(call);
      done = act();
      slurm_.refresh();
      effect = slurm_.effect_hook_;
    }
    if (done && effect) effect(call);
    if (fault == Fault::lost_reply) return std::unexpected(error_of(fault, call));
    return done;
  }

  FakeSlurm& slurm_;
};

std::unique_ptr<Client> FakeSlurm::client() { return std::make_unique<FakeClient>(*this); }

}  // namespace homeostat::slurm
