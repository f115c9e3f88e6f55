#include "agent/run.hpp"

#include <malloc.h>

#include <memory>
#include <thread>

#include "agent/drill.hpp"
#include "agent/jobs.hpp"
#include "agent/metrics_server.hpp"
#include "agent/reporter.hpp"
#include "agent/sensors.hpp"
#include "agent/topology.hpp"
#include "io/log.hpp"
#include "kube/connect.hpp"
#include "kube/kubeconfig.hpp"

namespace homeostat::agent {

namespace {

constexpr Duration dead_after{60'000};  // for liveness: the log's reader goes round twice a second

Result<kube::ClientFactory> connect(const RunOptions& options, io::Clock& clock, io::Random& random,
                                    const std::stop_token& stop) {
  auto config =
      options.kubeconfig.empty() ? kube::load_cluster_config() : kube::load_kubeconfig({{options.kubeconfig}, ""});
  if (!config) return std::unexpected(config.error());
  kube::ClientOptions client;
  client.user_agent = "homeostat-agent/" HOMEOSTAT_VERSION;
  client.request_timeout = Duration(5'000);
  client.attempts = 1;  // the reporter retries with the newest state
  client.stop = stop;
  const auto transport = [](const io::TlsOptions& tls) { return io::make_socket_transport(tls); };
  return kube::make_client_factory_over(transport, std::move(*config), clock, random, client);
}

// A restart of the agent is no event for the node: the first report waits a moment for the first look of every sensor,
// unless there is a fault to tell.
void await_first_looks(const NodeState& state, const Sensors& sensors, io::Clock& clock, std::stop_token stop) {
  for (int i = 0; i < 50 && !stop.stop_requested(); ++i) {
    const auto view = state.view(clock.now());
    const bool pending = view.probe == fault::ProbeState::pending || !sensors.all_asked();
    if (!pending || view.judgement.verdict == fault::NodeVerdict::unhealthy) return;
    clock.sleep(Duration(20), stop);
  }
}

Result<std::unique_ptr<MetricsServer>> serve_metrics(const RunOptions& options, const NodeState& state,
                                                     const io::Clock& clock) {
  if (options.metrics.empty()) return nullptr;
  MetricsServerHandlers handlers;
  handlers.metrics = [&] {
    MetricsInput input;
    input.version = HOMEOSTAT_VERSION;
    input.node = input.slurm_node = options.node_name;  // one machine, one name
    state.fill_metrics(input, clock.now());
    if (input.jobs.empty()) input.jobs = jobs_under(options.cgroups);
    return exposition(input);
  };
  handlers.illness = [&]() -> std::string {
    const auto still = clock.monotonic() - state.log_turned();
    return still < dead_after ? "" : "The kernel log's reader has stood still for " + format_duration(still) + ".";
  };
  return MetricsServer::start(options.metrics, std::move(handlers));
}

}  // namespace

Result<void> run(const RunOptions& options, std::stop_token stop) {
  // One heap for all threads, given back when it shrinks: the default of one for each costs more than all that is in
  // them.
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TRIM_THRESHOLD, 128 * 1024);
  static io::SystemClock clock;
  static io::SystemRandom random;
  static DrillBook drills;  // as long as the state, which a thread that hangs may still hold
  auto clients = connect(options, clock, random, stop);
  if (!clients) return std::unexpected(clients.error());
  const auto state = std::make_shared<NodeState>(&drills);
  if (options.expected_gpus) state->set_expected_gpus(*options.expected_gpus);
  state->set_topology(read_topology(options.sensors.sys));
  auto metrics = serve_metrics(options, *state, clock);
  if (!metrics) return std::unexpected(metrics.error());

  Saver saver(options.log.state_folder, [state] { return state->memory(); });
  std::vector<std::string_view> names;
  auto list = make_sensors(options.sensors, state);
  names.reserve(list.size());
  for (const auto& sensor : list) names.push_back(sensor->name());
  state->expect_sensors(names);
  Sensors* asked = nullptr;
  Watcher watcher(options.log, *state, clock, &saver, [&asked] { asked->ask_now(); });
  watcher.turn(stop);  // takes up what was found before: the sensors ask for it
  Sensors sensors(
      std::move(list), clock, [state](const Sensor& sensor) { return input_of(sensor, *state, clock); },
      [state](const Sensor& sensor, SensorReport report) {
        (void)state->take_sensor(sensor.name(), sensor.components(), std::move(report), clock.now());
      });
  asked = &sensors;
  io::log_info("The agent watches", {{"node", options.node_name}, {"kmsg", options.log.kmsg_path}});

  ReporterOptions report;
  report.node_name = options.node_name;
  report.policy_name = options.policy_name;
  report.expected_gpus = options.expected_gpus;
  report.drills_by_kernel_log = options.drill_by_kmsg;
  Reporter reporter(report, *state, *clients, clock, random);
  DrillWatcherOptions drill;
  drill.node_name = options.node_name;
  if (options.drill_by_kmsg) drill.kmsg_path = options.log.kmsg_path;
  DrillWatcher drill_watcher(drill, drills, *clients, clock, random);
  std::jthread reporting([&](const std::stop_token& own) {
    await_first_looks(*state, sensors, clock, own);
    reporter.run(own);
  });
  std::jthread drilling([&](const std::stop_token& own) { drill_watcher.run(own); });
  const std::stop_callback pass_on(stop, [&] {
    reporting.request_stop();
    drilling.request_stop();
  });
  auto boot = state->boot_id();
  while (!stop.stop_requested()) {
    watcher.turn(stop);
    // What sensors remember of counters, windows and who was in use is of one boot.
    if (state->boot_id() != boot) {
      boot = state->boot_id();
      sensors.replace(make_sensors(options.sensors, state));
    }
    sensors.tick();
  }
  return {};
}

}  // namespace homeostat::agent
