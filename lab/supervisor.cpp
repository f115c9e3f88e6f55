#include "lab/supervisor.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <future>

#include "io/clock.hpp"
#include "io/files.hpp"
#include "io/http.hpp"
#include "io/log.hpp"
#include "io/process.hpp"
#include "lab/cluster_loops.hpp"
#include "lab/control_plane.hpp"
#include "lab/images.hpp"
#include "lab/machine.hpp"
#include "lab/network.hpp"
#include "lab/random.hpp"
#include "lab/zones.hpp"

namespace homeostat::lab {
namespace {

using std::chrono::milliseconds;

constexpr long long machine_disk_bytes = 512ll << 20;  // below this no machine is made
constexpr int workers = 3;

constexpr const char* network_step = "network";
constexpr const char* images_step = "images";
constexpr const char* control_plane_step = "control plane";
constexpr const char* objects_step = "first objects";
constexpr const char* provider_step = "provider API";
constexpr const char* machine_step = "system machine";

void pause(milliseconds time, std::stop_token stop) {
  io::SystemClock clock;
  clock.sleep(Duration(time), stop);
}

Result<std::string> provider_token(const LabConfig& config) {
  auto path = config.path("provider-token");
  if (auto known = io::read_file(path)) return known;
  auto token = random_hex(32);
  if (auto written = io::write_file(path, token, 0600); !written) return std::unexpected(written.error());
  return token;
}

Result<void> save_machine(const LabConfig& config, const Machine& machine) {
  auto folder = config.machine(machine.order.name);
  if (auto made = io::make_folders(folder); !made) return made;
  return io::write_file(folder + "/machine.json", machine_record(machine));
}

}  // namespace

std::string serve_record(const LabConfig& config) { return config.path("serve.json"); }

Result<int> claim_serve(const LabConfig& config) {
  int fd = ::open(config.path("serve.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return fail(ErrorKind::internal, "cannot open " + config.path("serve.lock"));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return fail(ErrorKind::already_exists, "a supervisor for " + config.state + " runs already");
  }
  if (auto recorded = write_record(serve_record(config), ::getpid()); !recorded)
    return std::unexpected(recorded.error());
  return fd;
}

Supervisor::Supervisor(LabConfig config)
    : config_(std::move(config)),
      progress_(config_.path("progress.json"),
                {network_step, images_step, control_plane_step, objects_step, provider_step, machine_step}),
      book_([this](const Machine& machine) { return save_machine(config_, machine); },
            [this](const std::string& name) { (void)io::remove_tree(config_.machine(name)); }) {}

Supervisor::~Supervisor() {
  for (auto& thread : threads_) thread.request_stop();
}

Result<void> Supervisor::run(std::stop_token stop) {
  if (auto up = bring_up(stop); !up) {
    if (!stop.stop_requested()) progress_.fail(up.error().message);
    return up;
  }
  progress_.ready();
  io::log_info("the lab is up");
  look_after_zones(stop);
  stopping_ = true;
  if (server_) server_->stop();
  return {};
}

Result<void> Supervisor::step(std::string_view name, const std::function<Result<void>()>& action) {
  progress_.set(name, "running");
  auto done = action();
  if (done)
    progress_.set(name, "done");
  else
    progress_.set(name, "failed", done.error().message);
  io::log_info("step of the start", {{"step", std::string(name)}, {"outcome", done ? "done" : done.error().message}});
  return done;
}

Result<void> Supervisor::bring_up(std::stop_token stop) {
  // What takes longest (importing images, at the first start) goes on beside everything else.
  progress_.set(images_step, "running");
  auto images = std::async(std::launch::async, [this] {
    return step(images_step, [this]() -> Result<void> {
      auto made = current_template();
      if (!made) return std::unexpected(made.error());
      return {};
    });
  });
  auto rest = [&]() -> Result<void> {
    if (auto done = step(network_step,
                         [this] {
                           if (auto allowed = allow_inotify(); !allowed) return allowed;
                           return make_bridge(config_);
                         });
        !done)
      return done;
    if (auto done = step(control_plane_step,
                         [&]() -> Result<void> {
                           if (auto started = start_control_plane(); !started) return started;
                           return wait_for_api(stop);
                         });
        !done)
      return done;
    if (auto done = step(objects_step, [this] { return apply_bootstrap(); }); !done) return done;
    restore_machines();
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this](std::stop_token s) { worker(s); });
    threads_.emplace_back([this](std::stop_token s) { cluster_loop(config_, [this] { return book_.list(); }, s); });
    return step(provider_step, [this] { return open_provider_api(); });
  };
  auto done = rest();
  auto imported = images.get();
  if (!done) return done;
  if (!imported) return imported;
  return step(machine_step, [&]() -> Result<void> {
    if (auto ordered = order_system_machine(); !ordered) return ordered;
    return wait_for_system_machine(stop);
  });
}

Result<void> Supervisor::start_control_plane() {
  if (auto linked = link_tools(config_); !linked) return linked;
  if (auto made = io::make_folders(config_.path("shared")); !made) return made;
  auto pki = Pki::open(config_);
  if (!pki) return std::unexpected(pki.error());
  pki_ = std::make_unique<Pki>(std::move(*pki));
  auto token = provider_token(config_);
  if (!token) return std::unexpected(token.error());
  token_ = *token;
  if (auto prepared = prepare_control_plane(config_, *pki_); !prepared) return prepared;
  if (auto record = read_record(config_.record(control_plane_zone)); record && alive(*record)) {
    io::log_info("the control plane still runs: adopted");
    return {};
  }
  if (auto killed = kill_zone(config_.record(control_plane_zone)); !killed) return killed;
  remove_cgroup(config_.cgroup(control_plane_zone));
  if (auto made = make_cgroup(config_.cgroup(control_plane_zone) + "/system"); !made) return made;
  if (auto connected = connect_zone(config_, control_plane_zone, 2); !connected) return connected;
  return start_zone(config_.program, control_plane_spec(config_));
}

Result<void> Supervisor::wait_for_api(std::stop_token stop) {
  io::TlsOptions tls;
  tls.ca_pem = pki_->ca_pem();
  auto transport = io::make_curl_transport(tls);
  io::HttpRequest request;
  request.url = "https://" + config_.plan.control_plane() + ":" + std::to_string(api_port) + "/readyz";
  request.timeout = Duration(2'000);
  std::string last = "no answer";
  for (int tries = 0; tries < 600 && !stop.stop_requested(); ++tries) {  // about a minute and more
    auto answer = transport->send(request, stop);
    if (answer && answer->status == 200) return {};
    last = answer ? "status " + std::to_string(answer->status) : answer.error().message;
    pause(milliseconds(100), stop);
  }
  if (stop.stop_requested()) return fail(ErrorKind::cancelled, "stopped");
  return fail(ErrorKind::timeout, "the API server did not become ready (" + last + "); its log is " +
                                      config_.path("control-plane/log/kube-apiserver.log"));
}

Result<void> Supervisor::apply_bootstrap() {
  auto manifests = bootstrap_manifests(config_, *pki_, token_);
  if (!manifests) return std::unexpected(manifests.error());
  std::string last;
  for (int tries = 0; tries < 20; ++tries) {  // the default namespaces and roles appear a moment after /readyz
    auto applied = io::run_ok({config_.tool("kubectl"), "--kubeconfig", config_.path("kubeconfig"), "--cache-dir",
                               config_.path("kubectl-cache"), "apply", "--server-side", "--force-conflicts",
                               "--field-manager=homeostat-lab", "-f", "-"},
                              {.input = *manifests, .timeout = Duration(30'000)});
    if (applied) return {};
    last = applied.error().message;
    std::this_thread::sleep_for(milliseconds(300));
  }
  return fail(ErrorKind::internal, "the first objects could not be created: " + last);
}

void Supervisor::restore_machines() {
  std::vector<Machine> machines;
  for (const auto& name : io::list_folder(config_.path("machines"))) {
    auto text = io::read_file(config_.machine(name) + "/machine.json");
    auto machine = text ? parse_machine_record(*text) : Result<Machine>(std::unexpected(text.error()));
    if (machine)
      machines.push_back(std::move(*machine));
    else
      io::log_error("a machine's record cannot be read; the machine is left alone",
                    {{"machine", name}, {"error", machine.error().message}});
  }
  auto names = machines;
  book_.restore(std::move(machines));
  for (const auto& machine : names) {
    io::log_info("known machine", {{"machine", machine.order.name},
                                   {"state", std::string(to_string(machine.state))},
                                   {"runs", machine_runs(config_, machine.order.name) ? "adopted" : "no"}});
    enqueue(machine.order.name);
  }
}

Result<void> Supervisor::open_provider_api() {
  ProviderApi::Work work;
  work.make = [this](const Machine& machine) { enqueue(machine.order.name); };
  work.clean_up = work.make;
  work.fence = [this](const Machine& machine) {
    auto turn = lock_of(machine.order.name);
    std::lock_guard lock(*turn);
    return fence_machine(config_, machine.order.name);
  };
  work.now = [] { return io::SystemClock().now(); };
  work.no_room = [this] { return no_room(); };
  work.stopping = [this] { return stopping_.load(); };
  api_ = std::make_unique<ProviderApi>(book_, token_, std::move(work));
  auto folder = config_.path("control-plane/pki/provider");
  auto cert = io::read_file(folder + ".crt"), key = io::read_file(folder + ".key");
  if (!cert || !key) return fail(ErrorKind::internal, "the provider API's certificate cannot be read");
  io::HttpServerOptions options;
  options.address = config_.plan.host();
  options.port = provider_port;
  options.cert_pem = *cert;
  options.key_pem = *key;
  options.max_body_bytes = 64u << 10;
  auto server = io::HttpServer::start(options, [this](const io::ServerRequest& request) {
    auto response = api_->handle(request);
    if (request.method != "GET")
      io::log_info("provider API",
                   {{"method", request.method}, {"path", request.path}, {"status", std::to_string(response.status)}});
    return response;
  });
  if (!server) return std::unexpected(server.error());
  server_ = std::move(*server);
  return {};
}

Result<void> Supervisor::order_system_machine() {
  MachineOrder order;
  order.token = "system";
  order.name = system_machine;
  order.labels = {{"homeostat.dev/system", "true"}};
  auto answer = book_.order(order, io::SystemClock().now());
  if (!answer) return std::unexpected(answer.error());
  enqueue(order.name);
  return {};
}

Result<void> Supervisor::wait_for_system_machine(std::stop_token stop) {
  for (int tries = 0; tries < 300 && !stop.stop_requested(); ++tries) {
    auto machine = book_.find(system_machine);
    if (machine && machine->state == MachineState::failed)
      return fail(ErrorKind::internal, "the system machine cannot be made: " + machine->message);
    auto ready = io::run_ok({config_.tool("kubectl"), "--kubeconfig", config_.path("kubeconfig"), "--cache-dir",
                             config_.path("kubectl-cache"), "get", "node", std::string(system_machine),
                             "--ignore-not-found", "-o", R"(jsonpath={.status.conditions[?(@.type=="Ready")].status})"},
                            {.timeout = Duration(10'000)}, stop);
    if (ready && *ready == "True") return {};
    pause(milliseconds(200), stop);
  }
  if (stop.stop_requested()) return fail(ErrorKind::cancelled, "stopped");
  return fail(ErrorKind::timeout,
              "the system machine did not become Ready; its logs are in " + config_.machine(system_machine) + "/log");
}

Result<std::string> Supervisor::current_template() {
  std::lock_guard lock(template_mutex_);
  // lab.json anew each time: `load` may have brought other images.
  auto fresh = load_config(config_.state);
  auto images = read_images(fresh ? fresh->images : config_.images);
  auto remembered = config_.path("template");
  if (!images) {
    // A later build may have cleared the archives away; the template made of them serves as well.
    auto last = io::read_file(remembered);
    if (last && io::exists(*last + "/root")) return last;
    return std::unexpected(images.error());
  }
  auto made = ensure_template(config_, *images, [this](const std::string& line) {
    progress_.set(images_step, "running", line);
    io::log_info(line);
  });
  if (made) (void)io::write_file(remembered, *made);
  return made;
}

std::string Supervisor::no_room() const {
  auto free = io::free_bytes(config_.state);
  if (free < 0 || free >= machine_disk_bytes) return {};
  return "the disk under " + config_.state + " is nearly full (" + std::to_string(free >> 20) +
         " MiB free); free some space there";
}

std::shared_ptr<std::mutex> Supervisor::lock_of(const std::string& name) {
  std::lock_guard lock(queue_mutex_);
  auto& mutex = locks_[name];
  if (!mutex) mutex = std::make_shared<std::mutex>();
  return mutex;
}

void Supervisor::enqueue(const std::string& name) {
  {
    std::lock_guard lock(queue_mutex_);
    queue_.insert(name);
  }
  queue_changed_.notify_one();
}

void Supervisor::worker(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::string name;
    {
      std::unique_lock lock(queue_mutex_);
      auto free = [this] {
        for (const auto& candidate : queue_)
          if (!busy_.contains(candidate)) return true;
        return false;
      };
      if (!queue_changed_.wait(lock, stop, free)) return;
      for (const auto& candidate : queue_) {
        if (busy_.contains(candidate)) continue;
        name = candidate;
        break;
      }
      queue_.erase(name);
      busy_.insert(name);
    }
    work_on(name);
    {
      std::lock_guard lock(queue_mutex_);
      busy_.erase(name);
    }
    queue_changed_.notify_all();
  }
}

// One machine, whatever it needs now. Repeating it is harmless.
void Supervisor::work_on(const std::string& name) {
  auto machine = book_.find(name);
  if (!machine || machine->state == MachineState::failed) return;
  bool fresh = machine->state == MachineState::creating;
  std::string root;
  if (machine->state != MachineState::deleting && !machine_runs(config_, name)) {
    auto made = current_template();  // may take long: before the machine's lock, so that a delete need not wait for it
    if (!made) return book_.set_state(name, MachineState::failed, made.error().message);
    root = *made + "/root";
  }
  auto turn = lock_of(name);
  std::lock_guard lock(*turn);
  machine = book_.find(name);
  if (!machine) return;
  if (machine->state == MachineState::deleting) {
    auto gone = fence_machine(config_, name);
    if (gone) gone = clean_up_machine(config_, *machine);
    if (!gone)
      return io::log_error("a machine cannot be removed; trying again",
                           {{"machine", name}, {"error", gone.error().message}});
    book_.forget(name);
    return io::log_info("machine removed", {{"machine", name}});
  }
  if (machine_runs(config_, name)) return book_.set_state(name, MachineState::running, "");
  if (root.empty()) return;  // it died just now: the next look finds it
  auto made = make_machine(config_, *pki_, *machine, root);
  if (!made) {
    io::log_error("a machine cannot be made", {{"machine", name}, {"error", made.error().message}});
    return book_.set_state(name, MachineState::failed, made.error().message);
  }
  io::log_info(fresh ? "machine made" : "machine started again", {{"machine", name}});
  book_.set_state(name, MachineState::running, "");
}

void Supervisor::look_after_zones(std::stop_token stop) {
  while (!stop.stop_requested()) {
    pause(milliseconds(1'000), stop);
    for (const auto& machine : book_.list())
      if (machine.state != MachineState::failed &&
          (machine.state != MachineState::running || !machine_runs(config_, machine.order.name)))
        enqueue(machine.order.name);
    auto record = read_record(config_.record(control_plane_zone));
    if ((record && alive(*record)) || stop.stop_requested()) continue;
    io::log_warn("the control plane's zone has ended; starting it again");
    if (auto started = start_control_plane(); !started)
      io::log_error("the control plane cannot be started", {{"error", started.error().message}});
  }
}

}  // namespace homeostat::lab
