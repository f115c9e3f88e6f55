#include "world.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <thread>

namespace conformance {

namespace json = boost::json;

namespace {

json::object widget_definition(const Resource& widgets) {
  const json::object condition{{"type", "object"},
                               {"required", json::array{"type"}},
                               {"properties",
                                {{"type", {{"type", "string"}}},
                                 {"status", {{"type", "string"}}},
                                 {"reason", {{"type", "string"}}},
                                 {"message", {{"type", "string"}}},
                                 {"lastTransitionTime", {{"type", "string"}}},
                                 {"observedGeneration", {{"type", "integer"}}}}}};
  const json::object conditions{{"type", "array"},
                                {"x-kubernetes-list-type", "map"},
                                {"x-kubernetes-list-map-keys", json::array{"type"}},
                                {"items", condition}};
  const json::object schema{
      {"type", "object"},
      {"properties",
       {{"spec", {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}},
        {"status",
         {{"type", "object"}, {"properties", {{"phase", {{"type", "string"}}}, {"conditions", conditions}}}}}}}};
  const json::object version{{"name", widgets.version},
                             {"served", true},
                             {"storage", true},
                             {"subresources", {{"status", json::object()}}},
                             {"schema", {{"openAPIV3Schema", schema}}}};
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", widgets.plural + "." + widgets.group}}},
          {"spec",
           {{"group", widgets.group},
            {"scope", "Namespaced"},
            {"names", {{"plural", widgets.plural}, {"singular", "widget"}, {"kind", widgets.kind}}},
            {"versions", json::array{version}}}}};
}

}  // namespace

std::string World::kubeconfig_path() {
  const char* path = std::getenv("HOMEOSTAT_CONFORMANCE_KUBECONFIG");
  return path != nullptr ? path : "";
}

World::World() : ns(fmt::format("conformance-{:x}", random.next() & 0xffffffff)) {
  if (const auto path = kubeconfig_path(); !path.empty()) {
    auto config = load_kubeconfig({.paths = {path}});
    if (!config) {
      fmt::print(stderr, "{}\n", config.error().message);
      std::exit(3);
    }
    config_ = std::move(*config);
  } else {
    fake = std::make_unique<FakeApiServer>(clock);
    fake->register_resource(widgets);
  }
  prepare();
}

void World::prepare() {
  auto admin = client();
  const auto made = admin->create(resources::namespaces, "", new_object(resources::namespaces, "", ns));
  auto defined = is_real()
                     ? admin->apply(resources::custom_resource_definitions, "", widgets.plural + "." + widgets.group,
                                    widget_definition(widgets), {.field_manager = "conformance", .force = true})
                     : Result<Object>{};
  if (!made || !defined) {
    fmt::print(stderr, "cannot prepare the API server: {}\n", (made ? defined.error() : made.error()).message);
    std::exit(3);
  }
  // A kind takes a moment from its definition to being served.
  if (!eventually([&] { return admin->list(widgets, ns, {}).has_value(); }, std::chrono::seconds(30))) std::exit(3);
}

World::~World() {
  auto admin = client();
  if (is_real())
    (void)admin->remove(resources::custom_resource_definitions, "", widgets.plural + "." + widgets.group, {});
  (void)admin->remove(resources::namespaces, "", ns, {});
}

World& World::get() {
  static World world;
  return world;
}

ClientFactory World::factory(std::string user_agent) {
  ClientOptions options;
  options.user_agent = std::move(user_agent);
  options.qps = 500;
  options.burst = 500;
  return make_client_factory(fake ? fake->cluster_config() : config_, fake ? fake->transport_maker() : nullptr, clock,
                             random, options);
}

std::unique_ptr<Client> World::client(std::string user_agent) { return factory(std::move(user_agent))(); }

std::string fresh_name(std::string_view prefix) {
  static int count = 0;
  return fmt::format("{}-{}", prefix, ++count);
}

Object config_map(std::string_view name, json::object data) {
  Object object = new_object(resources::config_maps, World::get().ns, name);
  object["data"] = std::move(data);
  return object;
}

Object widget(std::string_view name, json::object spec) {
  Object object = new_object(World::get().widgets, World::get().ns, name);
  object["spec"] = std::move(spec);
  return object;
}

bool eventually(const std::function<bool()>& holds, std::chrono::milliseconds bound) {
  const auto deadline = std::chrono::steady_clock::now() + bound;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace conformance
