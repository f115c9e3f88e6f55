#include <unistd.h>

#include <boost/json.hpp>
#include <cstdio>

#include "io/files.hpp"
#include "io/http.hpp"
#include "io/process.hpp"
#include "lab/images.hpp"
#include "lab/lifecycle.hpp"
#include "lab/machine.hpp"
#include "lab/zones.hpp"

namespace homeostat::lab {
namespace json = boost::json;
namespace {

json::value read_json(const std::string& path) {
  auto text = io::read_file(path);
  boost::system::error_code error;
  auto value = text ? json::parse(*text, error) : json::value(nullptr);
  return error ? json::value(nullptr) : value;
}

json::object zone_status(const LabConfig& config, const std::string& zone, const std::string& folder) {
  auto record = read_record(config.record(zone));
  bool runs = record && alive(*record);
  auto status = read_json(folder + "/status.json");
  json::object object{{"name", zone}, {"running", runs}};
  if (runs) object["pid"] = record->pid;
  if (auto* programs = status.is_object() ? status.get_object().if_contains("programs") : nullptr; programs != nullptr)
    object["programs"] = *programs;
  return object;
}

json::object describe(const LabConfig& config) {
  auto progress_text = io::read_file(config.path("progress.json"));
  auto progress =
      progress_text ? parse_progress(*progress_text) : Result<ProgressReport>(std::unexpected(progress_text.error()));
  json::array machines;
  for (const auto& name : io::list_folder(config.path("machines"))) {
    auto text = io::read_file(config.machine(name) + "/machine.json");
    auto machine = text ? parse_machine_record(*text) : Result<Machine>(std::unexpected(text.error()));
    if (!machine) continue;
    auto object = zone_status(config, name, config.machine(name));
    object["state"] = to_string(machine->state);
    object["message"] = machine->message;
    object["pool"] = machine->order.pool;
    object["gpus"] = machine->order.gpus;
    object["address"] = config.plan.machine(machine->number);
    machines.push_back(std::move(object));
  }
  bool runs = serve_runs(config);
  return {{"state", config.state},
          {"ready", runs && progress && progress->ready},
          {"error", progress ? progress->error : std::string()},
          {"supervisor", runs},
          {"kubeconfig", config.path("kubeconfig")},
          {"server", "https://" + config.plan.control_plane() + ":" + std::to_string(api_port)},
          {"provider", "https://" + config.plan.host() + ":" + std::to_string(provider_port)},
          {"controlPlane", zone_status(config, std::string(control_plane_zone), config.path("control-plane"))},
          {"machines", machines}};
}

void print_zone(const json::object& zone, const std::string& more) {
  std::string programs;
  if (auto* list = zone.if_contains("programs"); list != nullptr && list->is_array())
    for (const auto& item : list->get_array()) {
      const auto& p = item.as_object();
      auto restarts = p.at("restarts").to_number<int>();
      programs += (programs.empty() ? "" : ", ") + std::string(p.at("name").as_string()) +
                  (p.at("running").as_bool() ? "" : " (down)") +
                  (restarts > 0 ? " (" + std::to_string(restarts) + " restarts)" : "");
    }
  bool runs = zone.at("running").as_bool();
  std::printf("  %-16s %-10s %s %s\n", std::string(zone.at("name").as_string()).c_str(),
              runs ? "running" : "not running", more.c_str(), runs ? programs.c_str() : "");
}

}  // namespace

int status(const std::string& state, bool as_json) {
  auto config = load_config(state);
  if (!config) {
    if (as_json)
      std::printf("{\"state\":\"%s\",\"ready\":false}\n", state.c_str());
    else
      std::fprintf(stderr, "homeostat-lab: %s\n", config.error().message.c_str());
    return exit_failed;
  }
  auto all = describe(*config);
  bool ready = all.at("ready").as_bool();
  if (as_json) {
    std::printf("%s\n", json::serialize(all).c_str());
    return ready ? exit_good : exit_failed;
  }
  auto error = std::string(all.at("error").as_string());
  std::printf("Lab in %s: %s\n", state.c_str(),
              ready                            ? "up"
              : !error.empty()                 ? ("failed: " + error).c_str()
              : all.at("supervisor").as_bool() ? "coming up"
                                               : "its supervisor does not run; start it with: homeostat-lab up");
  std::printf("  kubeconfig  %s\n  API server  %s\n", config->path("kubeconfig").c_str(),
              std::string(all.at("server").as_string()).c_str());
  print_zone(all.at("controlPlane").as_object(), "");
  for (const auto& item : all.at("machines").as_array()) {
    const auto& m = item.as_object();
    auto more = std::string(m.at("address").as_string()) + " " + std::string(m.at("state").as_string()) + " " +
                std::to_string(m.at("gpus").to_number<int>()) + " GPUs";
    if (auto pool = std::string(m.at("pool").as_string()); !pool.empty()) more += ", pool " + pool;
    if (auto message = std::string(m.at("message").as_string()); !message.empty()) more += " (" + message + ")";
    print_zone(m, more + ";");
  }
  return ready ? exit_good : exit_failed;
}

Result<std::string> call_provider(const LabConfig& config, const std::string& method, const std::string& path,
                                  const std::string& body) {
  auto token = io::read_file(config.path("provider-token")),
       ca = io::read_file(config.path("control-plane/pki/ca.crt"));
  if (!token || !ca)
    return fail(ErrorKind::not_found, "the lab's credentials cannot be read; is it up? See: homeostat-lab status");
  io::TlsOptions tls;
  tls.ca_pem = *ca;
  auto transport = io::make_curl_transport(tls);
  io::HttpRequest request;
  request.method = method;
  request.url = "https://" + config.plan.host() + ":" + std::to_string(provider_port) + path;
  request.headers = {{"Authorization", "Bearer " + *token}, {"Content-Type", "application/json"}};
  request.body = body;
  auto answer = transport->send(request, {});
  if (!answer)
    return fail(answer.error().kind,
                "the lab's supervisor does not answer (" + answer.error().message + "); see: homeostat-lab status");
  if (answer->status / 100 == 2) return answer->body;
  boost::system::error_code error;
  auto parsed = json::parse(answer->body, error);
  auto* message = error ? nullptr : parsed.find_pointer("/error/message", error);
  return fail(answer->status == 404 ? ErrorKind::not_found : ErrorKind::invalid,
              message != nullptr && message->is_string()
                  ? std::string(message->get_string())
                  : "the lab answered with status " + std::to_string(answer->status));
}

Result<void> load_images(LabConfig config, const std::string& folder) {
  auto images = read_images(folder);
  if (!images) return std::unexpected(images.error());
  auto prepared = ensure_template(config, *images, [](const std::string& line) { std::printf("%s\n", line.c_str()); });
  if (!prepared) return std::unexpected(prepared.error());
  std::vector<Image> known;
  if (auto before = read_images(config.images)) known = *before;
  config.images = folder;
  if (auto saved = save_config(config); !saved) return saved;  // machines made from now on have them
  for (const auto& image : *images) {
    bool same = false;
    for (const auto& old : known) same = same || (old.name == image.name && old.id == image.id);
    if (same) continue;
    for (const auto& name : io::list_folder(config.path("machines"))) {
      auto record = read_record(config.record(name));
      if (!record || !alive(*record)) continue;
      auto socket = "/proc/" + std::to_string(record->pid) + "/root/run/containerd/containerd.sock";
      std::printf("%s: importing %s\n", name.c_str(), image.name.c_str());
      auto done = io::run_ok({"ctr", "--address", socket, "-n", "k8s.io", "images", "import", image.file},
                             {.timeout = Duration(600'000)});
      if (!done) return std::unexpected(done.error());
    }
  }
  return {};
}

}  // namespace homeostat::lab
