// Slurm in memory, with the behaviour that a repair stands on (tested on 24.11.5): DOWN kills and requeues atomically,
// processes have KillWait from then on, a requeued job waits cred_expire + 1 s unless made eligible, RESUME on an idle
// node is refused, DRAIN keeps new jobs away. Time moves only by advance_to(); nothing depends on chance. Safe from any
// thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "slurm/client.hpp"

namespace homeostat::slurm {

struct FakeJobSpec {
  std::string name = "train";
  std::string user = "researcher";
  size_t nodes = 1;
  bool batch = true;
  bool requeue = true;
  int gpus_per_node = 1;
  Duration exits_after_term{1'000};       // how long its processes live on after SIGTERM; KillWait is the limit
  std::optional<Duration> runs_for = {};  // nullopt: until it is stopped
};

class FakeSlurm {
 public:
  struct Options {
    Duration kill_wait{120'000};
    Duration requeue_delay{121'000};   // cred_expire + 1 s
    Duration sched_interval{1'000};    // a job that could start does so at most this much later
    Duration slurmd_timeout{120'000};  // a silent node becomes DOWN "Not responding"
  };
  enum class Fault {
    none,
    unreachable,   // no effect
    lost_reply,    // it takes effect, the caller sees unknown_outcome
    lost_request,  // no effect, the caller sees unknown_outcome
    refused,       // no effect, an error inside HTTP 200
    timeout,       // no effect, the caller sees timeout
    stale_read,    // a read answers from before the last change
  };
  struct Call {
    std::string name =
        {};  // ping nodes node set_node_state delete_node jobs job make_job_eligible_now set_job_admin_comment diag
    std::string target = {};  // node or job
    std::string detail = {};  // the order, the reason or the text
  };
  enum class Event { started, term, killed, exited, requeued, ended };
  struct Record {
    TimePoint at = {};
    Event event = Event::started;
    long job = 0;
    std::string node = {};  // for started, term, killed, exited
    int restart_count = 0;
  };

  explicit FakeSlurm(TimePoint now) : FakeSlurm(now, Options{}) {}
  FakeSlurm(TimePoint now, Options options) : options_(options), now_(now) {}

  // --- the world
  // A slurmd registers, or registers again (after its pod was renewed): a new boot time; DOWN or DRAIN of its record
  // stay.
  void register_node(const std::string& name, int gpus);
  // The node's slurmd is gone with all its processes (the fence, or the machine died); slurmctld notices after
  // slurmd_timeout.
  void lose_slurmd(const std::string& name);
  // The node hangs: processes live on and hear no signal until lose_slurmd().
  void hang_node(const std::string& name);
  long submit(const FakeJobSpec& spec);
  void set_reachable(bool reachable);  // slurmrestd as a whole
  void advance_to(TimePoint now);      // jobs start, exit, are killed, become eligible
  // When something happens next without anyone's doing; nullopt: never.
  std::optional<TimePoint> next_event() const;
  // Called before each call of a client; not under the lock.
  void set_fault_hook(std::function<Fault(const Call&)> hook);
  // Called after a call took effect, before the reply: crash points. Not under the lock.
  void set_effect_hook(std::function<void(const Call&)> hook);

  std::vector<Record> records() const;
  std::vector<Call> calls() const;  // the writes alone, in order
  std::optional<Job> find_job(long id) const;
  std::optional<Node> find_node(const std::string& name) const;
  // True while a process of any job lives on the node.
  bool has_processes(const std::string& name) const;

  std::unique_ptr<Client> client();  // the FakeSlurm outlives it

 private:
  class FakeClient;
  struct NodeState {
    Node node;
    int gpus = 0;
    bool slurmd = true;
    bool hung = false;
    bool down = false;
    bool drain = false;
    std::optional<TimePoint> silent_since = {};
    std::map<long, TimePoint> dying;  // job -> when its processes are gone
    std::set<long> running;           // jobs whose processes live here
  };
  struct JobState {
    FakeJobSpec spec;
    Job job;
    bool pending = true;
    bool settled = true;  // no longer completing, and what follows from that is done
    std::string end_state = {};
    TimePoint started_at = {};
    TimePoint eligible_at = {};
  };

  void step();
  void finish_dying();
  void end_finished();
  void miss_silent();
  void schedule();
  std::vector<std::string> place(const JobState& job) const;
  void start(JobState& job, const std::vector<std::string>& hosts);
  void stop_job(JobState& job, const std::string& end_state, bool may_requeue);
  void stop_processes(JobState& job);
  bool is_completing(const JobState& job) const;
  bool could_start(const JobState& job) const;
  void settle();
  void set_down(NodeState& state, std::string_view reason);
  void note(Event event, const JobState& job, const std::string& node);
  void remember();
  void refresh();
  std::optional<TimePoint> next_event_locked() const;
  Result<void> set_state(const std::string& name, NodeOrder order, std::string_view reason);
  Result<void> remove_node(const std::string& name);
  Result<void> make_eligible(long id);

  mutable std::mutex mutex_;
  Options options_;
  TimePoint now_;
  bool reachable_ = true;
  long next_job_ = 1;
  std::map<std::string, NodeState> nodes_;
  std::map<long, JobState> jobs_;
  std::map<std::string, Node> old_nodes_;  // before the last change, for stale reads
  std::map<long, Job> old_jobs_;
  std::vector<Record> records_;
  std::vector<Call> calls_;
  std::function<Fault(const Call&)> fault_hook_;
  std::function<void(const Call&)> effect_hook_;
};

}  // namespace homeostat::slurm
