#include "core/repair/step.hpp"

#include <algorithm>

namespace homeostat::repair {

namespace {

// All of one decision. Each phase function either returns with an effect, a wait, or a new phase (looked at again at
// once).
class Stepper {
 public:
  Stepper(const Record& record, const Observed& observed, const Policy& policy, int gpus_per_node, TimePoint now,
          const Limits& limits)
      : before_(record),
        seen_(observed),
        policy_(policy),
        limits_(limits),
        now_(now),
        gpus_per_node_(gpus_per_node),
        record_(record) {}

  Decision run() {
    if (record_.phases.empty()) enter(record_, Phase::observed, now_);
    track_jobs();
    switch (record_.phase) {
      case Phase::observed:
        observed();
        break;
      case Phase::notified:
        notified();
        break;
      case Phase::stopping:
        stopping();
        break;
      case Phase::requeued:
        requeued();
        break;
      case Phase::draining:
        draining();
        break;
      case Phase::replacing:
        replacing();
        break;
      case Phase::verifying:
        verifying();
        break;
      case Phase::blocked:
        blocked();
        break;
      case Phase::done:
      case Phase::cancelled:
      case Phase::failed:
        out_.reason = "the repair is over";
        break;
    }
    out_.changed = !(record_ == before_);
    out_.next = std::move(record_);
    return std::move(out_);
  }

 private:
  // --- what a decision is made of
  // -------------------------------------------------------------------------------------------
  void wait(std::string reason, Duration duration) {
    // A job that is not running again yet is watched closely whatever else is being waited for.
    out_.look_again = jobs_settled() ? duration : std::min(duration, limits_.poll);
    record_.message = reason;
    out_.reason = std::move(reason);
  }

  void go(Phase phase, std::string reason) {
    enter(record_, phase, now_);
    record_.message = reason;
    out_.reason = std::move(reason);
    if (!is_terminal(phase)) out_.look_again = Duration{0};
  }

  void close(Phase phase, std::string reason) {
    count_cost();
    go(phase, std::move(reason));
  }

  void act(std::string step, Effect effect, std::string reason) {
    intend(record_, step, record_.name + "/" + step, now_);
    out_.step = std::move(step);
    out_.effect = std::move(effect);
    record_.message = reason;
    out_.reason = std::move(reason);
    out_.look_again = Duration{0};
  }

  bool done(std::string_view step) const { return finished(record_, step); }
  bool intended(std::string_view step) const { return find_step(record_, step) != nullptr; }
  // The step has taken effect, whether or not its answer ever reached us.
  void adopt(std::string_view step) { finish(record_, step, now_); }
  Duration in_phase() const { return now_ - entered_at(record_); }
  bool uses_slurm() const { return !record_.workers.empty(); }

  bool sick_node_is(const NodeView& node) const { return node.uid == record_.node_uid; }
  bool sick_node_gone() const {
    return seen_.node.is_absent() || (seen_.node.is_present() && !sick_node_is(seen_.node.value));
  }

  // --- jobs
  // -----------------------------------------------------------------------------------------------------------------
  const JobView* job_view(std::uint32_t id) const {
    if (!seen_.jobs.is_present()) return nullptr;
    auto found = std::ranges::find(seen_.jobs.value, id, &JobView::id);
    return found == seen_.jobs.value.end() ? nullptr : &*found;
  }

  bool on_sick_node(const JobView& job) const { return std::ranges::find(job.nodes, record_.node) != job.nodes.end(); }

  // Slurm's list right after an accepted DOWN may still show the old run: a run counts as a new one by its restart
  // count.
  bool runs_again(const JobRecord& job, const JobView& view) const {
    return view.state == JobState::running && !view.completing && view.restart_count > job.restart_count &&
           !on_sick_node(view);
  }

  void track_jobs() {
    if (!seen_.jobs.is_present() || !record_.slurm_down_at) return;
    for (JobRecord& job : record_.jobs) {
      const JobView* view = job_view(job.id);
      if (view == nullptr)
        job.outcome = "gone from Slurm";
      else if (runs_again(job, *view))
        job.outcome = "running again";
      else if (view->state == JobState::ended)
        job.outcome = "ended: " + view->state_text;
      else if (view->completing || view->state == JobState::running)
        job.outcome = "stopping";
      else
        job.outcome = view->reason.empty() || view->reason == "None" ? "pending" : "pending: " + view->reason;
    }
    bool again = std::ranges::any_of(record_.jobs, [](const JobRecord& job) { return job.outcome == "running again"; });
    if (again && !record_.running_again_at && jobs_settled()) record_.running_again_at = now_;
  }

  static bool settled(const JobRecord& job) {
    return job.outcome == "running again" || job.outcome == "gone from Slurm" || job.outcome.starts_with("ended");
  }
  bool jobs_settled() const { return std::ranges::all_of(record_.jobs, settled); }

  bool processes_gone() const {
    return std::ranges::all_of(record_.jobs, [&](const JobRecord& job) {
      const JobView* view = job_view(job.id);
      if (view == nullptr || view->state == JobState::ended) return view == nullptr || !view->completing;
      return !view->completing && (view->state == JobState::pending || runs_again(job, *view));
    });
  }

  void collect_jobs() {
    for (const JobView& view : seen_.jobs.value) {
      bool holds_node = view.state == JobState::running || view.completing;
      if (!holds_node || !on_sick_node(view)) continue;
      if (std::ranges::find(record_.jobs, view.id, &JobRecord::id) != record_.jobs.end()) continue;
      record_.jobs.push_back({view.id, view.name, view.user, view.requeueable, view.restart_count, view.nodes, ""});
    }
  }

  void count_cost() {
    if (record_.gpu_seconds_lost || !record_.fault.observed_at) return;
    std::int64_t nodes = 0;
    for (const JobRecord& job : record_.jobs) nodes += static_cast<std::int64_t>(job.nodes.size());
    TimePoint until = record_.running_again_at.value_or(record_.pool_whole_at.value_or(now_));
    auto lost_s = std::max<std::int64_t>(
        0, std::chrono::duration_cast<std::chrono::seconds>(until - *record_.fault.observed_at).count());
    record_.gpu_seconds_lost = std::max<std::int64_t>(nodes, 1) * gpus_per_node_ * lost_s;
  }

  // --- phases
  // ---------------------------------------------------------------------------------------------------------------
  // True when the fault must be acted on: it was read just now and it still stands. Otherwise the decision is made.
  bool fault_stands() {
    if (seen_.node.is_unknown())
      return wait("waiting: the node " + record_.node + " cannot be read", limits_.poll), false;
    if (sick_node_gone()) return close(Phase::cancelled, "cancelled: the node " + record_.node + " is gone"), false;
    if (withdrawn())
      return close(Phase::cancelled,
                   "cancelled: " + record_.node + " is healthy again or has rebooted, and nothing was changed"),
             false;
    if (!seen_.health.is_present() && seen_by_agent())
      return wait("waiting: the health of " + record_.node + " cannot be read", limits_.poll), false;
    if (!confirmed()) return wait("waiting: nobody can say how " + record_.node + " is", limits_.poll), false;
    return true;
  }

  bool seen_by_agent() const { return record_.fault.source.empty(); }

  // Who saw the fault is asked again: the agent, another detector's Node condition, or the silence itself.
  bool confirmed() const {
    if (!seen_.node.is_present()) return false;
    if (auto condition = source_condition(record_.fault)) {
      const NodeCondition* now = find_condition(seen_.node.value.conditions, condition->type);
      return now != nullptr && now->status == condition->status;
    }
    if (record_.fault.source == silence_source) return !heard_again() && kubelet_status() == "Unknown";
    return seen_.health.is_present() && seen_.health.value.verdict == "Unhealthy" &&
           seen_.health.value.boot_id == record_.boot_id;
  }

  std::string_view kubelet_status() const {
    const NodeCondition* ready = find_condition(seen_.node.value.conditions, "Ready");
    return ready == nullptr ? std::string_view{} : ready->status;
  }

  // The fault's time is the agent's last report, by the same clock.
  bool heard_again() const {
    const auto& seen_at = record_.fault.observed_at;
    return seen_.health.is_present() && seen_.health.value.reported_at && seen_at &&
           *seen_.health.value.reported_at > *seen_at;
  }

  bool withdrawn() const {
    if (auto condition = source_condition(record_.fault)) return condition_withdrawn(*condition);
    if (record_.fault.source == silence_source) {
      bool kubelet = seen_.node.is_present() && (kubelet_status() == "True" || kubelet_status() == "False");
      return kubelet || heard_again();
    }
    if (!seen_.health.is_present()) return false;
    // A report that is older than the fault says nothing about it, however it was read.
    const HealthView& health = seen_.health.value;
    bool newer = !health.reported_at || !record_.fault.observed_at || *health.reported_at > *record_.fault.observed_at;
    return newer && (health.verdict == "Healthy" || health.boot_id != record_.boot_id);
  }

  // A condition as it was before the fault says nothing about it, either.
  bool condition_withdrawn(const SourceCondition& source) const {
    if (!seen_.node.is_present()) return false;
    const NodeCondition* now = find_condition(seen_.node.value.conditions, source.type);
    if (now == nullptr || now->status == source.status) return false;
    return !now->transition_at || !record_.fault.observed_at || *now->transition_at > *record_.fault.observed_at;
  }

  void observed() {
    if (!fault_stands()) return;
    enter(record_, Phase::notified, now_);
    act("notify", Notify{"opened"}, "people are told; no action is needed");
  }

  void notified() {
    // A controller that died between the intent and the sending told nobody: better told twice than never. Sending
    // goes on in the background, and whether it worked never holds up the repair.
    const Step* told = find_step(record_, "notify");
    if (told != nullptr && !told->finished_at && told->outcome.empty())
      return act("notify", Notify{"opened"}, "people are told; no action is needed");
    adopt("notify");
    go(Phase::stopping, "taking " + record_.node + " out of Slurm");
  }

  void stopping() {
    if (!uses_slurm()) {
      if (promote_spare()) return;
      return go(Phase::requeued, "no Slurm runs on " + record_.node);
    }
    if (done("slurm_down")) return stopping_after_down();
    if (seen_.slurm.is_unknown() || seen_.jobs.is_unknown())
      return wait("waiting: Slurm does not answer, so its jobs cannot be stopped in good order; looking again",
                  limits_.poll);
    if (seen_.slurm.is_absent()) {
      if (promote_spare()) return;
      return go(Phase::requeued, "Slurm knows no node " + record_.node);
    }
    if (seen_.slurm.value.down && intended("slurm_down")) {
      adopt("slurm_drain");
      adopt("slurm_down");
      note_down();
      return stopping_after_down();
    }
    if (intended("slurm_down")) return set_down();
    if (withdraw()) return;
    if (!seen_.slurm.value.drain && !done("slurm_drain"))
      return act("slurm_drain", SlurmDrain{record_.node, slurm_reason(record_)}, "no new jobs on " + record_.node);
    adopt("slurm_drain");
    collect_jobs();
    set_down();
  }

  void set_down() {
    act("slurm_down", SlurmDown{record_.node, slurm_reason(record_)},
        "Slurm node " + record_.node + " goes DOWN: its jobs get SIGTERM and " + format_duration(policy_.grace) +
            " to save");
  }

  // Last chance before jobs are stopped: the fault is read once more. True when the decision is made.
  bool withdraw() {
    if (intended("slurm_undrain")) {
      if (!done("slurm_undrain"))
        return act("slurm_undrain", SlurmUndrain{record_.node, slurm_reason(record_)}, "the fault was withdrawn"), true;
      return close(Phase::cancelled, "cancelled: the fault was withdrawn before any job was stopped"), true;
    }
    bool gone = sick_node_gone() || withdrawn();
    if (gone) {
      if (!intended("slurm_drain"))
        return close(Phase::cancelled, "cancelled: the fault was withdrawn and nothing was changed"), true;
      return act("slurm_undrain", SlurmUndrain{record_.node, slurm_reason(record_)}, "the fault was withdrawn"), true;
    }
    if (!confirmed()) return wait("waiting: the fault on " + record_.node + " cannot be confirmed", limits_.poll), true;
    return false;
  }

  void note_down() {
    if (record_.slurm_down_at) return;
    const Step* step = find_step(record_, "slurm_down");
    record_.slurm_down_at = step != nullptr && step->finished_at ? *step->finished_at : now_;
  }

  void stopping_after_down() {
    note_down();
    Duration since_down = now_ - *record_.slurm_down_at;
    bool grace_over = since_down > policy_.grace + limits_.slack;
    // An accepted DOWN that Slurm does not show is set again, now and then (facts: a read may lag by a second or so).
    if (seen_.slurm.is_present() && !seen_.slurm.value.down && !processes_gone() && since_down > limits_.retry &&
        !grace_over) {
      out_.effect = SlurmDown{record_.node, slurm_reason(record_)};
      out_.step = "slurm_down";
      out_.look_again = limits_.retry;
      record_.message = out_.reason = "Slurm does not show " + record_.node + " as DOWN: setting it again";
      return;
    }
    if (promote_spare()) return;
    if (tell_owners()) return;
    if (seen_.jobs.is_unknown() && !grace_over)
      return wait("waiting: Slurm does not answer, so the end of the job's processes cannot be seen", limits_.poll);
    // A job list that was read before the DOWN took effect shows no end: a job that still runs is not gone.
    if (!processes_gone() && !grace_over)
      return wait(
          "the job's processes have until " + format_rfc3339(*record_.slurm_down_at + policy_.grace) + " to save",
          limits_.poll);
    if (!grace_over) record_.processes_gone_at = now_;
    go(Phase::requeued, grace_over ? "the grace is over: going on without waiting for the job's processes"
                                   : "the job's processes are gone; fencing " + record_.node);
  }

  // Jobs that Slurm never requeues are named to their owners. True when the decision is made.
  bool tell_owners() {
    for (const JobRecord& job : record_.jobs) {
      if (job.requeueable) continue;
      std::string step = "tell_owner/" + std::to_string(job.id);
      if (intended(step)) continue;  // told once, best effort
      return act(step,
                 TellJobOwner{
                     job.id,
                     "homeostat: node " + record_.node + " failed (" + spoken(record_.fault) +
                         "); Slurm does not requeue srun, salloc and --no-requeue jobs: submit it again with sbatch"},
                 "job " + std::to_string(job.id) + " is not requeued by Slurm: its owner is told"),
             true;
    }
    return false;
  }

  // Brings a warm spare in. True when the decision is made; false when it is in, or when there is none (the repair goes
  // on).
  bool promote_spare() {
    if (record_.spare_node.empty()) {
      if (!seen_.spares.is_present() || seen_.spares.value.empty()) return false;
      record_.spare_node = seen_.spares.value.front().name;
      return act_promote(seen_.spares.value.front()), true;
    }
    std::string step = "promote_spare/" + record_.spare_node;
    if (done(step)) return false;
    if (seen_.spare.is_unknown())
      return wait("waiting: the spare " + record_.spare_node + " cannot be read", limits_.poll), true;
    const NodeView& spare = seen_.spare.value;
    bool ours = seen_.spare.is_present() && spare.promoted_for == record_.name;
    if (ours && !spare.spare && spare.workers == record_.workers) return adopt(step), false;
    bool lost = seen_.spare.is_absent() || (!ours && (!spare.spare || !spare.promoted_for.empty()));
    if (lost) {
      adopt(step);
      record_.spare_node.clear();
      out_.look_again = Duration{0};
      record_.message = out_.reason = "the spare was taken by someone else: looking for another";
      return true;
    }
    return act_promote(spare), true;
  }

  void act_promote(const NodeView& spare) {
    act("promote_spare/" + spare.name, PromoteSpare{spare.name, spare.uid, record_.workers},
        "the warm spare " + spare.name + " joins in the place of " + record_.node);
  }

  void requeued() {
    if (promote_spare()) return;
    if (fence()) return;
    if (!record_.jobs.empty() && seen_.jobs.is_unknown() && in_phase() < policy_.grace + limits_.slack)
      return wait("waiting: Slurm does not answer, so the job cannot be made eligible", limits_.poll);
    if (release_jobs()) return;
    go(Phase::draining,
       record_.jobs.empty() ? "no job was running on " + record_.node : "the job may start elsewhere now");
  }

  // True when the decision is made: the fence is being set, or its effect is waited for.
  bool fence() {
    Duration bound = policy_.grace + limits_.slack;
    if (!uses_slurm() || sick_node_gone()) return false;
    if (seen_.node.is_unknown())
      return wait("waiting: the node " + record_.node + " cannot be read", limits_.poll), true;
    if (!seen_.node.value.workers.empty())
      return act("fence", RemoveWorkersLabel{record_.node, record_.node_uid},
                 "fencing " + record_.node + ": its slurmd goes away"),
             true;
    if (!intended("fence")) intend(record_, "fence", record_.name + "/fence", now_);
    adopt("fence");
    if (in_phase() > bound) return false;  // a dead kubelet must not block
    if (seen_.pods.is_unknown())
      return wait("waiting: the pods of " + record_.node + " cannot be read", limits_.poll), true;
    if (std::ranges::any_of(seen_.pods.value, &PodView::worker))
      return wait("waiting: the worker pod of " + record_.node + " is still there", limits_.poll), true;
    return false;
  }

  bool release_jobs() {
    for (const JobRecord& job : record_.jobs) {
      const JobView* view = job_view(job.id);
      if (view == nullptr || !job.requeueable || view->state != JobState::pending) continue;
      if (view->completing && in_phase() < policy_.grace + limits_.slack)
        return wait("waiting: job " + std::to_string(job.id) + " is still completing", limits_.poll), true;
      bool later = view->begin && *view->begin > now_ + Duration{1'000};
      std::string step = "make_job_eligible/" + std::to_string(job.id);
      if (!later) {
        adopt(step);
        continue;
      }
      if (const Step* last = find_step(record_, step);
          last != nullptr && last->finished_at && now_ - *last->finished_at < limits_.retry)
        continue;
      return act(step, MakeJobEligible{job.id}, "job " + std::to_string(job.id) + " may start now instead of later"),
             true;
    }
    return false;
  }

  // True when the decision is made: someone has asked that this node be left alone.
  bool opted_out() {
    if (seen_.pods.is_unknown())
      return wait("waiting: the pods of " + record_.node + " cannot be read", limits_.poll), true;
    auto pod = std::ranges::find_if(seen_.pods.value, &PodView::opted_out);
    if (pod == seen_.pods.value.end()) return false;
    std::string reason = "blocked: pod " + pod->ns + "/" + pod->name + " carries " + policy_.opt_out_label + "=true; " +
                         record_.node +
                         " is cordoned and nothing is deleted until the pod is gone or the label is taken off";
    if (record_.phase != Phase::blocked) enter(record_, Phase::blocked, now_);
    wait(reason, limits_.blocked_poll);
    if (!record_.next_look || now_ >= *record_.next_look) record_.next_look = now_ + limits_.blocked_poll;
    return true;
  }

  void blocked() {
    if (uncordoned()) return;
    if (promote_spare() || opted_out()) return;
    go(phase_before_blocked(record_), "no longer blocked");
  }

  // A person who takes our cordon off wants the node back. One look is not enough for that: it may be from before the
  // cordon. True when the decision is made.
  bool uncordoned() {
    constexpr std::string_view suspicion = "uncordoned";
    if (!done("cordon") || !seen_.node.is_present() || sick_node_gone()) return false;
    if (intended("delete_machine")) return false;  // too late: the machine may be gone already
    if (seen_.node.value.unschedulable) {
      std::erase_if(record_.steps, [&](const Step& step) { return step.name == suspicion; });
      return false;
    }
    if (const Step* seen = find_step(record_, suspicion); seen != nullptr && now_ - seen->intent_at >= limits_.poll) {
      adopt(suspicion);
      close(Phase::cancelled, "cancelled: someone uncordoned " + record_.node +
                                  "; set it free in Slurm with: scontrol update nodename=" + record_.node +
                                  " state=resume");
      return true;
    }
    intend(record_, suspicion, record_.name + "/uncordoned", now_);
    wait("waiting: " + record_.node + " seems to be uncordoned; looking once more", limits_.poll);
    return true;
  }

  void draining() {
    if (uncordoned()) return;
    if (seen_.node.is_unknown()) return wait("waiting: the node " + record_.node + " cannot be read", limits_.poll);
    if (sick_node_gone()) return go(Phase::replacing, "the node " + record_.node + " is gone already");
    const NodeView& node = seen_.node.value;
    if (!done("cordon") && !(node.unschedulable && (intended("cordon") || !node.cordoned_by.empty())))
      return act("cordon", Cordon{record_.node, record_.node_uid}, "cordoning " + record_.node);
    if (!intended("cordon")) intend(record_, "cordon", record_.name + "/cordon", now_);
    adopt("cordon");
    if (promote_spare() || opted_out()) return;
    std::vector<PodView> evictable, leaving;
    for (const PodView& pod : seen_.pods.value) {
      if (pod.evictable && !pod.terminating) evictable.push_back(pod);
      // On a lost node no kubelet ends a pod that is terminating: it goes with the machine.
      if (pod.evictable && pod.terminating && record_.fault.source != silence_source) leaving.push_back(pod);
    }
    if (evictable.empty() && leaving.empty()) {
      adopt("evict_pods");
      return go(Phase::replacing, "replacing " + record_.node);
    }
    std::string left = std::to_string(evictable.size() + leaving.size()) + " pods";
    if (in_phase() > policy_.drain_deadline) {
      note_failure(record_, "evict_pods", left + " were left when the deadline came");
      return go(Phase::replacing, "the deadline for draining is over: " + left + " go with the machine");
    }
    if (evictable.empty()) return wait("waiting: " + left + " are ending on " + record_.node, limits_.poll);
    act("evict_pods", EvictPods{evictable},
        "evicting " + std::to_string(evictable.size()) + " pods from " + record_.node);
    out_.look_again = limits_.slow_poll;  // a budget that refuses is asked again then
  }

  const MachineView* machine_named(std::string_view name) const {
    auto found = std::ranges::find(seen_.machines.value, name, &MachineView::name);
    return found == seen_.machines.value.end() ? nullptr : &*found;
  }
  const MachineView* machine_ordered(std::string_view token) const {
    auto found = std::ranges::find(seen_.machines.value, token, &MachineView::token);
    return found == seen_.machines.value.end() ? nullptr : &*found;
  }

  void replacing() {
    if (uncordoned()) return;
    if (promote_spare()) return;
    if (!intended("delete_machine") && opted_out()) return;
    if (seen_.machines.is_unknown()) return wait("waiting: the provider does not answer", limits_.slow_poll);
    if (seen_.node.is_unknown())
      return wait("waiting: the node " + record_.node + " cannot be read", limits_.slow_poll);
    if (delete_machine()) return;
    if (order_machine()) return;
    bool machine_gone = machine_named(record_.node) == nullptr;
    if (!sick_node_gone()) {
      // A kubelet that still runs would register the node again.
      if (!machine_gone) return wait("waiting: the machine " + record_.node + " is being deleted", limits_.poll);
      return act("delete_node", DeleteNodeObject{record_.node, record_.node_uid},
                 "deleting the Node object of " + record_.node);
    }
    adopt("delete_node");
    if (forget_slurm_node()) return;
    if (!machine_gone) return wait("waiting: the machine " + record_.node + " is being deleted", limits_.slow_poll);
    go(Phase::verifying, "waiting for the new machine " + record_.replacement.machine + " to prove itself");
  }

  bool delete_machine() {
    const MachineView* sick = machine_named(record_.node);
    if (sick == nullptr || sick->state == MachineView::State::deleting) {
      adopt("delete_machine");
      return false;
    }
    // The name alone is not enough: a machine of that name that someone made anew is not the sick one.
    if (sick_node_gone() && seen_.node.is_present())
      return wait("waiting: another machine has the name " + record_.node + "; nothing is deleted", limits_.slow_poll),
             true;
    if (done("delete_machine")) return false;
    return act("delete_machine", DeleteMachine{record_.node}, "deleting the machine " + record_.node), true;
  }

  bool order_machine() {
    Replacement& replacement = record_.replacement;
    if (replacement.attempt == 0) {
      replacement.attempt = 1;
      replacement.token = record_.name + "-1";
      replacement.machine = machine_name(record_.pool, replacement.token);
    }
    std::string step = "order_machine/" + std::to_string(replacement.attempt);
    const MachineView* ordered = machine_ordered(replacement.token);
    if (ordered != nullptr) {
      replacement.machine = ordered->name;
      if (!intended(step)) intend(record_, step, replacement.token, now_);
      adopt(step);
      return false;
    }
    act(step, OrderMachine{replacement.token, replacement.machine, record_.pool},
        "ordering the machine " + replacement.machine);
    for (Step& intent : record_.steps)
      if (intent.name == step) intent.operation_id = replacement.token;
    return true;
  }

  // Slurm's record of a dynamic node. It must not hold up the pool for long. True when the decision is made.
  bool forget_slurm_node() {
    if (!uses_slurm() || seen_.slurm.is_absent()) return adopt("delete_slurm_node"), false;
    if (in_phase() > limits_.cleanup)
      return note_failure(record_, "delete_slurm_node", "Slurm kept the node's record"), false;
    if (seen_.slurm.is_unknown()) return wait("waiting: Slurm does not answer", limits_.slow_poll), true;
    if (done("delete_slurm_node")) return wait("waiting: Slurm is forgetting " + record_.node, limits_.poll), true;
    return act("delete_slurm_node", DeleteSlurmNode{record_.node}, "deleting Slurm's record of " + record_.node), true;
  }

  void verifying() {
    if (seen_.machines.is_unknown() || seen_.replacement.is_unknown())
      return wait("waiting: the new machine " + record_.replacement.machine + " cannot be read", limits_.slow_poll);
    const MachineView* machine = machine_ordered(record_.replacement.token);
    if (machine == nullptr || machine->state == MachineView::State::failed ||
        machine->state == MachineView::State::deleting ||
        (!record_.pool_whole_at && in_phase() > limits_.machine_ready))
      return try_another(machine);
    if (!record_.pool_whole_at) {
      if (!replacement_fit())
        return wait("waiting: the new machine " + machine->name + " has to be Ready, Healthy and with " +
                        std::to_string(gpus_per_node_) + " GPUs",
                    limits_.slow_poll);
      record_.replacement.node = seen_.replacement.value.name;
      if (record_.spare_node.empty()) record_.spare_node = record_.replacement.node;
      if (record_.spare_node == record_.replacement.node && !done("promote_spare/" + record_.spare_node))
        return promote_new();
      record_.pool_whole_at = now_;
    }
    settle();
  }

  bool replacement_fit() const {
    if (!seen_.replacement.is_present() || !seen_.replacement.value.ready || !seen_.replacement_health.is_present())
      return false;
    const HealthView& health = seen_.replacement_health.value;
    return health.verdict == "Healthy" && !health.boot_id.empty() && health.gpus == gpus_per_node_;
  }

  // There was no spare: the new machine takes the sick one's place itself.
  void promote_new() {
    const NodeView& node = seen_.replacement.value;
    if (node.promoted_for == record_.name && !node.spare && node.workers == record_.workers) {
      adopt("promote_spare/" + node.name);
      record_.pool_whole_at = now_;
      return settle();
    }
    act_promote(node);
  }

  void settle() {
    bool waited = now_ - *record_.pool_whole_at > limits_.job_settles;
    if (!jobs_settled() && !waited) return wait("the pool is whole; waiting for the job to run again", limits_.poll);
    std::string story = "replaced by " + record_.replacement.node;
    if (record_.spare_node != record_.replacement.node)
      story = record_.spare_node + " took its place, " + story + " as the next spare";
    for (const JobRecord& job : record_.jobs)
      story += "; job " + std::to_string(job.id) + " " + (job.outcome.empty() ? "was not seen again" : job.outcome);
    close(Phase::done, story);
  }

  // The attempt counter moves only when the former attempt is surely dead.
  void try_another(const MachineView* machine) {
    if (machine != nullptr && machine->state != MachineView::State::deleting)
      return act("delete_machine/" + std::to_string(record_.replacement.attempt), DeleteMachine{machine->name},
                 "the new machine " + machine->name +
                     " failed: " + (machine->message.empty() ? "it did not become fit in time" : machine->message));
    if (machine != nullptr)
      return wait("waiting: the failed machine " + machine->name + " is being deleted", limits_.slow_poll);
    if (record_.replacement.attempt >= limits_.max_attempts)
      return close(Phase::failed,
                   "failed: " + std::to_string(record_.replacement.attempt) +
                       " new machines in a row did not become fit; look at the provider, then delete this Repair");
    if (record_.spare_node == record_.replacement.machine) record_.spare_node.clear();
    std::uint32_t attempt = record_.replacement.attempt + 1;
    std::string token = record_.name + "-" + std::to_string(attempt);
    record_.replacement = {token, attempt, machine_name(record_.pool, token), ""};
    go(Phase::replacing, "ordering another machine (attempt " + std::to_string(attempt) + ")");
  }

  const Record& before_;
  const Observed& seen_;
  const Policy& policy_;
  const Limits& limits_;
  TimePoint now_;
  int gpus_per_node_;
  Record record_;
  Decision out_;
};

}  // namespace

Needs needs(const Record& record) {
  using enum Phase;
  Needs needs;
  bool slurm_to_watch = record.slurm_down_at && !record.running_again_at;
  switch (record.phase) {
    case observed:
    case notified:
      needs = {.node = true, .health = true};
      break;
    case stopping:
      needs = {.node = true, .health = true, .slurm = true, .spares = true};
      break;
    case requeued:
      needs = {.node = true, .slurm = true, .pods = true, .spares = true};
      break;
    case draining:
    case blocked:
      needs = {.node = true, .slurm = slurm_to_watch, .pods = true, .spares = true};
      break;
    case replacing:
      needs = {.node = true, .slurm = true, .pods = true, .spares = true, .machines = true};
      break;
    case verifying:
      needs = {.slurm = slurm_to_watch, .spares = true, .machines = true, .replacement = true};
      break;
    case done:
    case cancelled:
    case failed:
      break;
  }
  return needs;
}

Decision step(const Record& record, const Observed& observed, const Policy& policy, int gpus_per_node, TimePoint now,
              const Limits& limits) {
  return Stepper(record, observed, policy, gpus_per_node, now, limits).run();
}

void report_outcome(Record& record, std::string_view step_name, bool ok, std::string_view message, TimePoint now) {
  if (!ok) return note_failure(record, step_name, message);
  // These are closed only when what they cause is seen; everything else is done once it was accepted.
  if (step_name == "evict_pods" || step_name.starts_with("order_machine/")) return;
  finish(record, step_name, now, message);
}

}  // namespace homeostat::repair
