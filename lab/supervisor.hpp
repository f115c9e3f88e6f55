// `homeostat-lab serve`: brings up what is missing, keeps it up, makes and ends machines on order. Everything that it
// knows is on disk, so a kill -9 harms nothing: the next one adopts the zones that still run.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/result.hpp"
#include "io/http_server.hpp"
#include "lab/config.hpp"
#include "lab/machine_book.hpp"
#include "lab/pki.hpp"
#include "lab/progress.hpp"
#include "lab/provider_api.hpp"

namespace homeostat::lab {

inline constexpr std::string_view system_machine = "system-1";

class Supervisor {
 public:
  explicit Supervisor(LabConfig config);
  ~Supervisor();

  // Until stop. The error says why the lab cannot come up; what runs is left running.
  Result<void> run(std::stop_token stop);

 private:
  Result<void> bring_up(std::stop_token stop);
  Result<void> start_control_plane();
  Result<void> wait_for_api(std::stop_token stop);
  Result<void> apply_bootstrap();
  Result<void> open_provider_api();
  Result<void> order_system_machine();
  Result<void> wait_for_system_machine(std::stop_token stop);
  Result<std::string> current_template();
  void restore_machines();
  void worker(std::stop_token stop);
  void work_on(const std::string& name);
  void look_after_zones(std::stop_token stop);
  void enqueue(const std::string& name);
  std::shared_ptr<std::mutex> lock_of(const std::string& name);
  std::string no_room() const;
  Result<void> step(std::string_view name, const std::function<Result<void>()>& action);

  LabConfig config_;
  Progress progress_;
  std::unique_ptr<Pki> pki_;
  std::string token_;
  MachineBook book_;
  std::unique_ptr<ProviderApi> api_;
  std::atomic<bool> stopping_{false};

  std::mutex queue_mutex_;
  std::condition_variable_any queue_changed_;
  std::set<std::string> queue_, busy_;
  std::map<std::string, std::shared_ptr<std::mutex>> locks_;  // one per machine: making and ending take turns
  std::mutex template_mutex_;
  std::unique_ptr<io::HttpServer> server_;
  std::vector<std::jthread> threads_;  // last: ends first
};

// Only one serve per state folder: holds a lock until the process ends. already_exists: another one runs.
Result<int> claim_serve(const LabConfig& config);
// Its record, while it runs: see zones.hpp.
std::string serve_record(const LabConfig& config);

}  // namespace homeostat::lab
