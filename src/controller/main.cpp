// homeostat-controller: wires informers, reconcilers, the lease and the HTTP endpoint. Nothing is decided here.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "api/repair.hpp"
#include "controller/drill/reconciler.hpp"
#include "controller/node_pool/reconciler.hpp"
#include "controller/notify/notifier.hpp"
#include "controller/repair/changes.hpp"
#include "controller/repair/fleet.hpp"
#include "controller/repair/opener.hpp"
#include "controller/repair/reconciler.hpp"
#include "controller/slurm_cluster/operator.hpp"
#include "controller/straggler/watch.hpp"
#include "controller/world/metrics.hpp"
#include "controller/world/options.hpp"
#include "core/names.hpp"
#include "io/http_server.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "io/signals.hpp"
#include "kube/conditions.hpp"
#include "kube/connect.hpp"
#include "kube/event_recorder.hpp"
#include "kube/informer.hpp"
#include "kube/lease_elector.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {
namespace {

constexpr int exit_failed = 1, exit_usage = 2, exit_missing = 3;

// The pod's name is a good identity: the kubelet starts a container anew only after the old one is dead, so the same
// pod may take its own lease again at once, and a controller that was killed does not wait for the lease to run out.
std::string identity_of(const Options& options) {
  if (!options.identity.empty()) return options.identity;
  if (const char* pod = std::getenv("POD_NAME"); pod != nullptr && *pod != '\0') return pod;
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return std::string(host) + "_" + std::to_string(getpid());
}

Result<kube::ClusterConfig> cluster_config(const Options& options) {
  if (options.kubeconfig.empty()) return kube::load_cluster_config();
  return kube::load_kubeconfig({.paths = {options.kubeconfig}, .context = ""});
}

// Everything that runs while this process leads.
class Program {
 public:
  Program(const kube::ClusterConfig& config, const std::string& identity, std::stop_token stop)
      : clients_(kube::make_client_factory(config, nullptr, clock_, random_, client_options(stop))),
        sessions_({clients_, make_slurm_connector(clock_, stop), make_provider_connector(stop)}),
        notifications_(make_notifier(clients_, clock_)),
        recorder_(clients_, "homeostat-controller", identity, clock_),
        pools_(clients_, kube::resources::node_pools, {}, clock_, random_),
        nodes_(clients_, kube::resources::nodes, of_pools(), clock_, random_),
        healths_(clients_, kube::resources::node_healths, {}, clock_, random_),
        repairs_(clients_, kube::resources::repairs, {}, clock_, random_),
        clusters_(clients_, kube::resources::slurm_clusters, {}, clock_, random_),
        policies_(clients_, kube::resources::health_policies, {}, clock_, random_),
        drills_(clients_, clock_, random_),
        stragglers_(clients_, nodes_, healths_, clock_) {}

  io::SystemClock& clock() { return clock_; }
  io::SystemRandom& random() { return random_; }
  std::string metrics() const {
    return render_metrics(pools_.store(), repairs_.store(), book_) + drills_.metrics() + stragglers_.metrics();
  }
  bool synced() const { return repairs_.synced() && healths_.synced() && nodes_.synced() && pools_.synced(); }

  void lead(std::stop_token stop) {
    EventSink events = [this](const kube::Resource& resource, const kube::Object& about, bool warning,
                              std::string_view reason, std::string_view message) {
      recorder_.record(resource, about, warning ? kube::EventType::warning : kube::EventType::normal, reason, message);
    };
    RepairOpener opener(sessions_, events, clock_, fleet_, book_);
    RepairReconciler repairer(sessions_, *notifications_, events, clock_, book_);
    NodePoolReconciler pooler(sessions_, clock_, book_);
    // Two, so that a Slurm that does not answer about one node does not hold up the others.
    kube::Controller opening("opener", opener, clock_, random_, {.workers = 2});
    kube::Controller repairing("repair", repairer, clock_, random_, {.workers = 4});
    kube::Controller pooling("node_pool", pooler, clock_, random_);

    // Every heartbeat is noted; only news is looked at.
    opening.watch(healths_, [this](const kube::ObjectKey& key, const kube::ObjectPtr& old, const kube::ObjectPtr& now) {
      bool back = now != nullptr && fleet_.see_health(*now);
      return back || health_has_news(old, now) ? std::vector{key} : none();
    });
    opening.watch(nodes_, [this](const kube::ObjectKey& key, const kube::ObjectPtr& old, const kube::ObjectPtr& now) {
      if (now != nullptr) fleet_.see_node(*now);
      return node_has_news(old, now) ? std::vector{key} : none();
    });
    // A repair that ends makes room in the budget: every sick node is looked at again.
    opening.watch(repairs_, [this](const kube::ObjectKey& key, const kube::ObjectPtr&, const kube::ObjectPtr& now) {
      if (now != nullptr)
        fleet_.see_repair(*now);
      else
        fleet_.forget_repair(key.name);
      bool over = now == nullptr || repair::is_terminal(api::decode_repair(*now).phase);
      return over ? keys(healths_) : none();
    });
    // Other rules count at once, for every node.
    for (kube::Informer* rules : {&pools_, &policies_})
      opening.watch(*rules,
                    [this, &opener](const kube::ObjectKey&, const kube::ObjectPtr& old, const kube::ObjectPtr& now) {
                      if (!rules_have_news(old, now)) return none();
                      opener.rules_changed();
                      return keys(nodes_);
                    });
    repairing.watch(repairs_);
    pooling.watch(pools_);
    auto all_pools = [this](const kube::ObjectKey&, const kube::ObjectPtr& old, const kube::ObjectPtr& now) {
      return concerns_pools(old, now) ? keys(pools_) : none();
    };
    for (kube::Informer* informer : {&nodes_, &healths_, &repairs_, &clusters_}) pooling.watch(*informer, all_pools);
    SlurmClusterOperator slurm(clients_, clock_, random_);

    std::vector<std::jthread> threads;
    for (kube::Informer* informer : {&pools_, &nodes_, &healths_, &repairs_, &clusters_, &policies_})
      threads.emplace_back([informer, stop] { informer->run(stop); });
    for (kube::Controller* controller : {&opening, &repairing, &pooling})
      threads.emplace_back([controller, stop] { controller->run(stop); });
    threads.emplace_back([&slurm, stop] { slurm.run(stop); });
    threads.emplace_back([this, &events, stop] { drills_.run(events, stop); });
    threads.emplace_back([this, &events, stop] { stragglers_.run(events, stop); });
    // Silence brings no event by itself.
    threads.emplace_back([this, &opening, stop] {
      while (!stop.stop_requested()) {
        clock_.sleep(Duration{5'000}, stop);
        for (const auto& key : fleet_.newly_silent(Duration{30'000})) opening.enqueue(key);
      }
    });
    for (std::jthread& thread : threads) thread.join();
  }

 private:
  static kube::ClientOptions client_options(std::stop_token stop) {
    kube::ClientOptions options;
    options.user_agent = std::string(names::controller_manager) + "/" + HOMEOSTAT_VERSION;
    // A repair reads live, several objects four times a second; the API server's own fairness guards it from us.
    options.qps = 200;
    options.burst = 400;
    options.request_timeout = Duration{10'000};
    options.stop = stop;
    return options;
  }
  static kube::InformerOptions of_pools() {
    kube::InformerOptions options;
    options.label_selector = std::string(names::pool_label);
    return options;
  }
  static std::vector<kube::ObjectKey> none() { return {}; }
  static std::vector<kube::ObjectKey> keys(const kube::Informer& informer) {
    std::vector<kube::ObjectKey> all;
    for (const auto& object : informer.store().list()) all.push_back(kube::key_of(*object));
    return all;
  }
  // Heartbeats (a Node's status, a report without news) come every few seconds and change nothing for a pool: what
  // counts is looked at anew when an object appears, goes, or has another spec, label or verdict.
  static bool concerns_pools(const kube::ObjectPtr& old, const kube::ObjectPtr& now) {
    if (old == nullptr || now == nullptr) return true;
    return summary(*old) != summary(*now);
  }
  static std::string summary(const kube::Object& object);

  io::SystemClock clock_;
  io::SystemRandom random_;
  FleetWatch fleet_{clock_};
  PlanBook book_{clock_};
  kube::ClientFactory clients_;
  Sessions sessions_;
  std::unique_ptr<Notifications> notifications_;
  kube::EventRecorder recorder_;
  kube::Informer pools_, nodes_, healths_, repairs_, clusters_, policies_;
  DrillOperator drills_;
  StragglerWatch stragglers_;
};

std::string Program::summary(const kube::Object& object) {
  boost::json::object facts{{"uid", kube::uid_of(object)},
                            {"generation", kube::generation_of(object)},
                            {"labels", io::object_at(object, {"metadata", "labels"})},
                            {"unschedulable", io::bool_at(object, {"spec", "unschedulable"})},
                            {"taints", io::array_at(object, {"spec", "taints"})},
                            {"ready", kube::condition_status(object, "Ready")},
                            {"verdict", io::string_at(object, {"status", "verdict"})},
                            {"devices", io::array_at(object, {"status", "devices"}).size()},
                            {"phase", io::string_at(object, {"status", "phase"})}};
  return io::to_text(facts);
}

Result<std::unique_ptr<io::HttpServer>> serve(const Options& options, const Program& program) {
  io::HttpServerOptions http;
  http.address = options.http_address;
  http.port = options.http_port;
  http.threads = 4;
  return io::HttpServer::start(http, [&program](const io::ServerRequest& request) {
    io::ServerResponse response;
    response.content_type = "text/plain; version=0.0.4";
    if (request.path == "/healthz")
      response.body = "ok\n";
    else if (request.path == "/readyz")
      response.status = program.synced() ? 200 : 503, response.body = program.synced() ? "ok\n" : "still listing\n";
    else if (request.path == "/metrics")
      response.body = program.metrics();
    else
      response.status = 404, response.body = "there are /healthz, /readyz and /metrics\n";
    return response;
  });
}

int run(const Options& options) {
  io::log_setup("homeostat-controller", options.debug ? io::LogLevel::debug : io::LogLevel::info);
  io::StopSignals signals;
  auto config = cluster_config(options);
  if (!config) {
    io::log_error(config.error().message);
    return exit_missing;
  }
  std::string identity = identity_of(options);
  Program program(*config, identity, signals.token());
  std::unique_ptr<io::HttpServer> http;
  if (options.http_port != 0) {
    auto started = serve(options, program);
    if (!started) {
      io::log_error(started.error().message);
      return exit_failed;
    }
    http = std::move(*started);
  }
  io::log_info("started", {{"identity", identity}, {"cluster", config->server}, {"version", HOMEOSTAT_VERSION}});
  if (!options.leader_elect) {
    program.lead(signals.token());
    return 0;
  }
  kube::ElectionOptions election;
  election.ns = names::system_namespace;
  election.name = "homeostat-controller";
  election.identity = identity;
  // Its calls are not cut off by the stop request: the lease is given back after everything else has ended.
  kube::ClientOptions election_client;
  election_client.user_agent = std::string(names::controller_manager) + "/" + HOMEOSTAT_VERSION;
  election_client.request_timeout = Duration{5'000};
  kube::LeaseElector elector(kube::make_client(*config, nullptr, program.clock(), program.random(), election_client),
                             election, program.clock(), program.random());
  auto end = elector.run(
      signals.token(), [&](std::stop_token stop) { program.lead(stop); },
      // Another one may act from now on: the simplest fence is to be gone.
      [] {
        io::log_error("the lease is lost: this process ends so that only the new leader acts");
        std::_Exit(exit_failed);
      });
  return end == kube::LeaseElector::End::stopped ? 0 : exit_failed;
}

int usage_error(const std::string& message) {
  std::fprintf(stderr, "homeostat-controller: %s\n%s", message.c_str(), usage);
  return exit_usage;
}

}  // namespace

int main_of(const std::vector<std::string>& args) {
  if (args.empty()) return usage_error("say what to do");
  if (args[0] == "version" || args[0] == "--version")
    return std::printf("homeostat-controller %s\n", HOMEOSTAT_VERSION), 0;
  if (args[0] == "help" || args[0] == "--help" || args[0] == "-h") return std::fputs(usage, stdout), 0;
  if (args[0] != "run") return usage_error("there is no command " + args[0]);
  auto options = parse_options({args.begin() + 1, args.end()});
  return options ? run(*options) : usage_error(options.error().message);
}

}  // namespace homeostat::controller

int main(int argc, char** argv) { return homeostat::controller::main_of({argv + 1, argv + argc}); }
