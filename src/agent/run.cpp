#include "agent/run.hpp"

#include <time.h>

#include <fstream>
#include <memory>
#include <thread>

#include "agent/node_state.hpp"
#include "agent/probe.hpp"
#include "agent/reporter.hpp"
#include "core/fault/text.hpp"
#include "io/clock.hpp"
#include "io/kmsg.hpp"
#include "io/log.hpp"
#include "kube/connect.hpp"
#include "kube/kubeconfig.hpp"

namespace homeostat::agent {

namespace {

constexpr Duration boot_check{2'000};
constexpr Duration lazy_save{1'000};  // how old the saved cursor may be while the log says nothing of interest

Result<std::string> read_boot_id(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto boot_id = std::string(fault::trim(std::string_view(line).substr(0, 128)));
  if (boot_id.empty())
    return fail(ErrorKind::not_found, "The boot id cannot be read from " + path + ". Name its file with --boot-id.");
  return boot_id;
}

// CLOCK_MONOTONIC is close to the clock that the kernel stamps its records with.
Duration uptime() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Duration(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

// Follows the log of one boot after another.
class Watcher {
 public:
  Watcher(const RunOptions& options, NodeState& state, io::Clock& clock, Probe& probe)
      : options_(options), state_(state), clock_(clock), probe_(probe) {}

  Result<void> begin() {
    auto boot_id = read_boot_id(options_.boot_id_path);
    if (!boot_id) return std::unexpected(boot_id.error());
    auto reader = io::open_kmsg(options_.kmsg_path);
    if (!reader) return std::unexpected(reader.error());
    boot_id_ = *boot_id;
    reader_ = std::move(*reader);
    caught_up_ = false;
    state_.begin_boot(boot_id_);
    recall();
    return {};
  }

  Result<void> run(std::stop_token stop) {
    while (!stop.stop_requested()) {
      auto batch = reader_->read(Duration(500), stop);
      if (!batch) return std::unexpected(batch.error());
      // What the log held before us is dated by its own clock; what is written while we watch is dated now.
      const bool dated_by_log = !caught_up_ && reader_->is_device();
      const auto intake =
          state_.take_records(batch->records, batch->overrun, clock_.now(), dated_by_log ? uptime() : Duration(0));
      caught_up_ |= batch->records.size() < io::max_kmsg_batch;
      if (intake.urgent) probe_.ask_now();
      unsaved_ |= intake.taken > 0;
      const auto gpus = static_cast<size_t>(state_.expected_gpus());
      unsaved_ |= gpus != gpus_saved_;
      gpus_saved_ = gpus;
      const bool due = unsaved_ && clock_.monotonic() - saved_at_ >= lazy_save;
      if (intake.changed || due) save();
      if (auto done = check_boot(); !done) return done;
    }
    save();
    return {};
  }

 private:
  void recall() {
    auto memory = load_memory(options_.state_folder);
    if (!memory) {
      if (memory.error().kind != ErrorKind::not_found)
        io::log_warn("The agent's memory is of no use and is begun anew", {{"error", memory.error().message}});
      return;
    }
    const auto findings = memory->entries.size();
    if (state_.recall(std::move(*memory)))
      io::log_info("The agent goes on where it stopped", {{"findings", std::to_string(findings)}});
  }

  void save() {
    saved_at_ = clock_.monotonic();
    unsaved_ = false;
    const auto saved = save_memory(options_.state_folder, state_.memory());
    if (!saved && !save_failed_) io::log_error(saved.error().message);
    save_failed_ = !saved;
  }

  // A machine that boots anew under a running agent: only a container's view of a machine can do that.
  Result<void> check_boot() {
    if (clock_.monotonic() - boot_checked_at_ < boot_check) return {};
    boot_checked_at_ = clock_.monotonic();
    const auto boot_id = read_boot_id(options_.boot_id_path);
    if (!boot_id || *boot_id == boot_id_) return {};
    io::log_info("The machine has booted anew: earlier findings are dropped", {{"bootId", *boot_id}});
    return begin();
  }

  const RunOptions& options_;
  NodeState& state_;
  io::Clock& clock_;
  Probe& probe_;
  std::string boot_id_;
  std::unique_ptr<io::KmsgReader> reader_;
  size_t gpus_saved_ = 0;
  Duration saved_at_{0}, boot_checked_at_{0};
  bool caught_up_ = false, unsaved_ = false, save_failed_ = false;
};

Result<std::unique_ptr<kube::Client>> connect(const RunOptions& options, io::Clock& clock, io::Random& random,
                                              std::stop_token stop) {
  auto config =
      options.kubeconfig.empty() ? kube::load_cluster_config() : kube::load_kubeconfig({{options.kubeconfig}, ""});
  if (!config) return std::unexpected(config.error());
  kube::ClientOptions client;
  client.user_agent = "homeostat-agent/" HOMEOSTAT_VERSION;
  client.request_timeout = Duration(5'000);
  client.attempts = 1;  // the reporter retries with the newest state
  client.stop = stop;
  const auto transport = [](const io::TlsOptions& tls) { return io::make_socket_transport(tls); };
  return kube::make_client_factory_over(transport, std::move(*config), clock, random, client)();
}

// Feeds what the probe reports into the state, also when it hangs and therefore says nothing.
void watch_probe(Probe& probe, bool always_expected, NodeState& state, io::Clock& clock, std::stop_token stop) {
  while (!stop.stop_requested()) {
    probe.expect_gpus(always_expected || state.expected_gpus() > 0);
    const auto report = probe.latest();
    state.take_probe(report, clock.now());
    clock.sleep(Duration(report.state == fault::ProbeState::pending ? 20 : 500), stop);
  }
}

// A restart of the agent is no event for the node: the first report waits a moment for the first probe, unless there is
// a fault to tell.
void await_first_probe(const NodeState& state, io::Clock& clock, std::stop_token stop) {
  for (int i = 0; i < 50 && !stop.stop_requested(); ++i) {
    const auto view = state.view(clock.now());
    if (view.probe != fault::ProbeState::pending || view.judgement.verdict == fault::NodeVerdict::unhealthy) return;
    clock.sleep(Duration(20), stop);
  }
}

}  // namespace

Result<void> run(const RunOptions& options, std::stop_token stop) {
  static io::SystemClock clock;
  static io::SystemRandom random;
  auto client = connect(options, clock, random, stop);
  if (!client) return std::unexpected(client.error());
  NodeState state;
  if (options.expected_gpus) state.set_expected_gpus(*options.expected_gpus);
  ProbeOptions probe_options;
  probe_options.nvml_path = options.nvml_path;
  const bool always_expected = options.expected_gpus.value_or(options.nvml_path.empty() ? 0 : 1) > 0;
  probe_options.gpus_expected = always_expected;
  Probe probe(probe_options);
  Watcher watcher(options, state, clock, probe);
  if (auto begun = watcher.begin(); !begun) return begun;
  io::log_info("The agent watches", {{"node", options.node_name}, {"kmsg", options.kmsg_path}});
  ReporterOptions report;
  report.node_name = options.node_name;
  report.policy_name = options.policy_name;
  report.expected_gpus = options.expected_gpus;
  Reporter reporter(report, state, **client, clock, random);
  std::jthread probing([&](std::stop_token own) { watch_probe(probe, always_expected, state, clock, own); });
  std::jthread reporting([&](std::stop_token own) {
    await_first_probe(state, clock, own);
    reporter.run(own);
  });
  std::stop_callback pass_on(stop, [&] {
    reporting.request_stop();
    probing.request_stop();
  });
  return watcher.run(stop);
}

}  // namespace homeostat::agent
