// Reads and watches. The numbers are the lines of the facts that each case holds the client (and the fake) to.
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "kube/informer.hpp"
#include "world.hpp"

using namespace conformance;

namespace {

ClientOptions small_pages() {
  ClientOptions options;
  options.page_size = 3;
  options.qps = 0;
  return options;
}

}  // namespace

TEST_CASE("1: a watch starts at the list's version and moves on with each event") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("watched");
  const auto list = must(client->list(resources::config_maps, world.ns, {}));
  must(client->create(resources::config_maps, world.ns, config_map(name, {{"a", "1"}})));
  must(client->patch(resources::config_maps, world.ns, name, PatchType::merge,
                     boost::json::object{{"data", {{"a", "2"}}}}));
  must(client->remove(resources::config_maps, world.ns, name, {}));
  std::vector<WatchEventType> seen;
  std::set<std::string> versions;
  const auto ended = client->watch(resources::config_maps, world.ns,
                                   {.field_selector = "metadata.name=" + name,
                                    .resource_version = list.resource_version,
                                    .timeout = std::chrono::seconds(5)},
                                   [&](WatchEvent&& event) {
                                     if (event.type == WatchEventType::bookmark) return true;
                                     seen.push_back(event.type);
                                     versions.insert(resource_version_of(event.object));
                                     return event.type != WatchEventType::deleted;
                                   },
                                   {});
  CHECK(ended.has_value());
  CHECK(seen == std::vector{WatchEventType::added, WatchEventType::modified, WatchEventType::deleted});
  CHECK(versions.size() == 3);  // the deletion has a version of its own
}

TEST_CASE("2: a list of many pages comes whole, and selectors select") {
  auto& world = World::get();
  auto client = make_client(
      world.fake ? world.fake->cluster_config() : must(load_kubeconfig({.paths = {World::kubeconfig_path()}})),
      world.fake ? world.fake->transport_maker() : nullptr, world.clock, world.random, small_pages());
  for (int i = 0; i < 10; ++i) {
    Object object = config_map("page-" + std::to_string(i), {});
    io::set_at(object, {"metadata", "labels", "set"}, boost::json::value(i % 2 == 0 ? "even" : "odd"));
    io::set_at(object, {"metadata", "labels", "suite"}, boost::json::value("pages"));
    must(client->create(resources::config_maps, world.ns, object));
  }
  CHECK(must(client->list(resources::config_maps, world.ns, {.label_selector = "suite=pages"})).items.size() == 10);
  CHECK(must(client->list(resources::config_maps, world.ns, {.label_selector = "suite=pages,set in (even)"}))
            .items.size() == 5);
  CHECK(
      must(client->list(resources::config_maps, world.ns, {.label_selector = "suite=pages,set!=even"})).items.size() ==
      5);
  CHECK(must(client->list(resources::config_maps, world.ns, {.field_selector = "metadata.name=page-3"})).items.size() ==
        1);
  const auto all = must(client->list(resources::config_maps, world.ns, {.label_selector = "suite=pages"}));
  CHECK(io::string_at(all.items.front(), {"kind"}) == "ConfigMap");  // list items come without, the client adds it
}

TEST_CASE("2: a continue token that has expired restarts the list, and the list still ends") {
  if (World::get().is_real()) return;  // needs the fake's hooks
  auto& world = World::get();
  auto client = make_client(world.fake->cluster_config(), world.fake->transport_maker(), world.clock, world.random,
                            small_pages());
  for (int i = 0; i < 10; ++i) {
    Object object = widget("expire-" + std::to_string(i), {});
    io::set_at(object, {"metadata", "labels", "suite"}, boost::json::value("expire"));
    must(client->create(world.widgets, world.ns, object));
  }
  int lists = 0;
  world.fake->set_fault_hook([&](const FakeApiServer::Call& call) {
    if (call.verb == "list" && ++lists == 3) world.fake->compact();  // between the second page and the third
    return FakeApiServer::Fault::none;
  });
  const auto list = client->list(world.widgets, world.ns, {.label_selector = "suite=expire"});
  world.fake->set_fault_hook(nullptr);
  CHECK(must(list).items.size() == 10);
  CHECK(lists == 3 + 4);  // three of the first try, four whole pages of the second
  for (const auto& item : list->items) must(client->remove(world.widgets, world.ns, name_of(item), {}));
}

TEST_CASE("3: the end of a watch without an error is normal") {
  auto& world = World::get();
  const auto list = must(world.client()->list(world.widgets, world.ns, {}));
  const auto begin = std::chrono::steady_clock::now();
  const auto ended = world.client()->watch(
      world.widgets, world.ns, {.resource_version = list.resource_version, .timeout = std::chrono::seconds(1)},
      [](WatchEvent&&) { return true; }, {});
  CHECK(ended.has_value());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

TEST_CASE("4: a version that is too old is gone, inside HTTP 200; one that is too new is told to wait") {
  auto& world = World::get();
  auto client = world.client();
  const auto future = client->list(resources::config_maps, world.ns, {.resource_version = "999999999999"});
  CHECK_KIND(future, ErrorKind::throttled);
  CHECK(future.error().retry_after == Duration{1000});
  if (world.is_real()) return;  // a real server replays from memory long after compaction
  const auto old = must(client->list(resources::config_maps, world.ns, {})).resource_version;
  must(client->create(resources::config_maps, world.ns, config_map(fresh_name("after"), {})));
  world.fake->compact();
  const auto ended =
      client->watch(resources::config_maps, world.ns, {.resource_version = old}, [](WatchEvent&&) { return true; }, {});
  CHECK_KIND(ended, ErrorKind::gone);
}

TEST_CASE("6: what vanished while nobody watched is told as deleted after the relist") {
  if (World::get().is_real()) return;  // needs the fake's hooks
  auto& world = World::get();
  auto client = world.client();
  const auto keep = fresh_name("keep"), lose = fresh_name("lose");
  must(client->create(world.widgets, world.ns, widget(keep, {})));
  must(client->create(world.widgets, world.ns, widget(lose, {})));
  Informer informer(world.factory(), world.widgets, {.ns = world.ns}, world.clock, world.random);
  std::mutex mutex;
  std::vector<std::string> deleted;
  informer.subscribe([&](const ObjectKey& key, const ObjectPtr&, const ObjectPtr& now) {
    std::lock_guard lock(mutex);
    if (!now) deleted.push_back(key.name);
  });
  std::jthread thread([&](std::stop_token stop) { informer.run(stop); });
  REQUIRE(informer.wait_synced(std::chrono::seconds(10)));
  REQUIRE(eventually([&] { return world.fake->open_watches() == 1; }));
  // The connection is cut; meanwhile the object goes and the history is compacted away.
  std::atomic<bool> cut = true;
  world.fake->set_fault_hook([&](const FakeApiServer::Call& call) {
    return cut && call.verb == "watch" ? FakeApiServer::Fault::unreachable : FakeApiServer::Fault::none;
  });
  world.fake->close_watches();
  REQUIRE(eventually([&] { return world.fake->open_watches() == 0; }));
  must(client->remove(world.widgets, world.ns, lose, {}));
  world.fake->put(world.widgets, must(client->get(world.widgets, world.ns, keep)));
  world.fake->compact();
  cut = false;
  CHECK(eventually([&] {
    std::lock_guard lock(mutex);
    return deleted == std::vector{lose};
  }));
  CHECK(informer.store().get({world.ns, keep}) != nullptr);
  CHECK(informer.store().get({world.ns, lose}) == nullptr);
  world.fake->set_fault_hook(nullptr);
}

TEST_CASE("7: large objects that span many chunks arrive whole, and an event is told within milliseconds") {
  auto& world = World::get();
  auto client = world.client();
  Informer informer(world.factory(), resources::config_maps, {.ns = world.ns, .label_selector = "suite=large"},
                    world.clock, world.random);
  std::atomic<std::chrono::steady_clock::rep> told_at{0};
  std::atomic<size_t> told_bytes{0};
  informer.subscribe([&](const ObjectKey&, const ObjectPtr&, const ObjectPtr& now) {
    told_bytes = now ? io::string_at(*now, {"data", "text"}).size() : 0;
    told_at = std::chrono::steady_clock::now().time_since_epoch().count();
  });
  std::jthread thread([&](std::stop_token stop) { informer.run(stop); });
  REQUIRE(informer.wait_synced(std::chrono::seconds(10)));
  Object object = config_map(fresh_name("large"), {{"text", std::string(700'000, 'x')}});
  io::set_at(object, {"metadata", "labels", "suite"}, boost::json::value("large"));
  must(client->create(resources::config_maps, world.ns, object));
  CHECK(eventually([&] { return told_bytes == 700'000; }));
  must(client->patch(resources::config_maps, world.ns, name_of(object), PatchType::merge,
                     boost::json::object{{"data", {{"text", "small"}}}}));
  const auto written = std::chrono::steady_clock::now();
  CHECK(eventually([&] { return told_bytes == 5; }));
  const auto late = std::chrono::steady_clock::duration(told_at.load()) - written.time_since_epoch();
  CHECK(late < std::chrono::milliseconds(100));  // without load a millisecond; a polling informer would need seconds
}

TEST_CASE("9: a resync tells every object again") {
  auto& world = World::get();
  const auto name = fresh_name("resync");
  must(world.client()->create(resources::config_maps, world.ns, config_map(name, {})));
  Informer informer(world.factory(), resources::config_maps,
                    {.ns = world.ns, .field_selector = "metadata.name=" + name, .resync = Duration{1000}}, world.clock,
                    world.random);
  std::atomic<int> again{0};
  informer.subscribe([&](const ObjectKey&, const ObjectPtr& old, const ObjectPtr& now) { again += old == now; });
  std::jthread thread([&](std::stop_token stop) { informer.run(stop); });
  CHECK(eventually([&] { return again >= 2; }));
}

TEST_CASE("reading what is not there says so, and so does a name that nobody serves") {
  auto& world = World::get();
  CHECK_KIND(world.client()->get(resources::config_maps, world.ns, "nobody"), ErrorKind::not_found);
  CHECK_KIND(world.client()->list({"nobody.example", "v1", "things", "Thing", true}, world.ns, {}),
             ErrorKind::not_found);
  CHECK(must(world.client()->raw_get("/version")).find("gitVersion") != std::string::npos);
}
