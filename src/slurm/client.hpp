// Slurm as the rest of the house sees it: typed calls over slurmrestd. Every call is bounded in time, an error inside
// an HTTP 200 is an error here, fields that are unknown are skipped and fields that are missing read as "not set". One
// Client per thread (it owns one keep-alive connection).
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/slurm/states.hpp"
#include "core/time.hpp"
#include "io/clock.hpp"
#include "io/http.hpp"

namespace homeostat::slurm {

struct Ping {
  std::string release = {};      // "24.11.5"
  std::string data_parser = {};  // "v0.0.42": what was negotiated
  bool controller_up = false;    // slurmctld answers slurmrestd
};

struct Node {
  std::string name = {};
  StateSet states = {};
  std::string reason = {};
  std::optional<TimePoint> reason_at = {};
  std::optional<TimePoint> boot_time = {};
  std::optional<TimePoint> slurmd_start_time = {};
  std::string gres = {};       // "gpu:8"
  std::string gres_used = {};  // "gpu:2"
  std::string address = {};
  std::vector<std::string> features = {};
  std::vector<std::string> partitions = {};
  int cpus = 0;
  int alloc_cpus = 0;
};

struct Job {
  long id = 0;
  long array_job_id = 0;  // 0: no array
  std::optional<long> array_task_id = {};
  long het_job_id = 0;  // 0: no heterogeneous job
  std::string name = {};
  std::string user = {};
  std::string partition = {};
  StateSet states = {};
  std::string state_reason = {};
  int restart_count = 0;
  bool requeue = false;                 // Slurm may put it back into the queue
  bool batch = false;                   // false: srun or salloc, which Slurm never requeues
  std::vector<std::string> nodes = {};  // where it runs; while completing, where it still has processes
  std::vector<std::string> required_nodes = {};
  std::optional<TimePoint> begin_time = {};
  std::optional<TimePoint> start_time = {};
  std::optional<TimePoint> end_time = {};
  std::string comment = {};
  std::string admin_comment = {};
  int cpus = 0;
  int gpus = 0;  // of all its nodes together, 0 when it asked for none

  bool requeueable() const { return requeue && batch; }
};

struct Diag {
  long jobs_running = 0;
  long jobs_pending = 0;
  long schedule_cycle_last_us = 0;
};

// What a node is told to become. DRAIN and DOWN are two calls: Slurm refuses both at once, yet changes the reason.
enum class NodeOrder { drain, undrain, down, resume };
std::string_view to_string(NodeOrder order);

class Client {
 public:
  virtual ~Client() = default;

  virtual Result<Ping> ping() = 0;
  virtual Result<std::vector<Node>> nodes() = 0;
  virtual Result<std::optional<Node>> node(std::string_view name) = 0;  // nullopt: Slurm surely has no such node
  // Idempotent. not_found: no such node. A resume that Slurm refuses because the node needs none is success, after a
  // look.
  virtual Result<void> set_node_state(std::string_view name, NodeOrder order, std::string_view reason) = 0;
  // Only dynamic nodes without jobs can go; a node that is already gone is success.
  virtual Result<void> delete_node(std::string_view name) = 0;
  // Everything that slurmctld remembers: active jobs and those that ended in the last minutes (MinJobAge).
  virtual Result<std::vector<Job>> jobs() = 0;
  virtual Result<std::optional<Job>> job(long id) = 0;  // nullopt: slurmctld does not know it (any more)
  // A requeued job waits two minutes (the lifetime of its credential) unless told that its time has come.
  virtual Result<void> make_job_eligible_now(long id) = 0;
  virtual Result<void> set_job_admin_comment(long id, std::string_view text) = 0;
  virtual Result<Diag> diag() = 0;
};

struct RestOptions {
  std::string base_url = {};   // "https://demo-rest.default.svc:6820"
  std::string user = "slurm";  // whom the token speaks for
  std::string jwt_key = {};    // the bytes of jwt.key
  Duration call_timeout{5'000};
  std::chrono::seconds token_lifetime{300};  // minted anew when less than half is left
};

// `clock` outlives the client. Calls end early with `cancelled` when stop is requested.
std::unique_ptr<Client> make_rest_client(RestOptions options, std::unique_ptr<io::HttpTransport> transport,
                                         const io::Clock& clock, std::stop_token stop = {});

}  // namespace homeostat::slurm
