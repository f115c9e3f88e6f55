// Flow control, identity and leader election. The numbers are the lines of the facts.
#include <atomic>
#include <thread>

#include "kube/controller.hpp"
#include "kube/event_recorder.hpp"
#include "kube/lease_elector.hpp"
#include "world.hpp"

using namespace conformance;
namespace json = boost::json;

TEST_CASE("19: told to come back later, the client comes back later") {
  if (World::get().is_real()) return;  // needs the fake's hooks
  auto& world = World::get();
  std::atomic<int> calls{0};
  world.fake->set_fault_hook([&](const FakeApiServer::Call&) {
    return ++calls == 1 ? FakeApiServer::Fault::throttled : FakeApiServer::Fault::none;
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto made = world.client()->create(resources::config_maps, world.ns, config_map(fresh_name("later"), {}));
  world.fake->set_fault_hook(nullptr);
  CHECK(made.has_value());
  CHECK(calls == 2);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(990));
}

TEST_CASE("19: a read is tried again after a server error, a write is not") {
  if (World::get().is_real()) return;  // needs the fake's hooks
  auto& world = World::get();
  std::atomic<int> calls{0};
  world.fake->set_fault_hook([&](const FakeApiServer::Call&) {
    return ++calls == 1 ? FakeApiServer::Fault::server_error : FakeApiServer::Fault::none;
  });
  CHECK(world.client()->list(resources::config_maps, world.ns, {}).has_value());
  calls = 0;
  CHECK_KIND(world.client()->create(resources::config_maps, world.ns, config_map(fresh_name("once"), {})),
             ErrorKind::unavailable);
  CHECK(calls == 1);
  world.fake->set_fault_hook(nullptr);
}

namespace {

// Copies spec.size to status.phase; counts how many workers are in one key at a time.
class Mirror final : public Reconciler {
 public:
  explicit Mirror(ClientFactory factory) : factory_(std::move(factory)) {}
  Result<ReconcileResult> reconcile(const ObjectKey& key, std::stop_token) override {
    worst = std::max(worst.load(), ++inside);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    auto client = factory_();
    auto live = client->get(World::get().widgets, key.ns, key.name);
    --inside;
    if (!live)
      return live.error().kind == ErrorKind::not_found ? Result<ReconcileResult>(ReconcileResult{})
                                                       : std::unexpected(live.error());
    Object status = new_object(World::get().widgets, key.ns, key.name);
    status["status"] = json::object{{"phase", std::to_string(io::int_at(*live, {"spec", "size"}))}};
    auto written = client->apply(World::get().widgets, key.ns, key.name, status,
                                 {.field_manager = "mirror", .force = true, .subresource = "status"});
    if (!written) return std::unexpected(written.error());
    return ReconcileResult{};
  }
  std::atomic<int> inside{0}, worst{0};

 private:
  ClientFactory factory_;
};

}  // namespace

TEST_CASE("20, 21: a controller brings status to what spec says, one object never in two workers") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("mirror");
  must(client->create(world.widgets, world.ns, widget(name, {{"size", 0}})));
  Informer informer(world.factory(), world.widgets, {.ns = world.ns, .field_selector = "metadata.name=" + name},
                    world.clock, world.random);
  Mirror mirror(world.factory());
  Controller controller("mirror", mirror, world.clock, world.random, {.workers = 4});
  controller.watch(informer);
  std::jthread watcher([&](std::stop_token stop) { informer.run(stop); });
  std::jthread runner([&](std::stop_token stop) { controller.run(stop); });
  for (int size = 1; size <= 20; ++size)
    must(client->patch(world.widgets, world.ns, name, PatchType::merge, json::object{{"spec", {{"size", size}}}}));
  CHECK(eventually(
      [&] { return io::string_at(must(client->get(world.widgets, world.ns, name)), {"status", "phase"}) == "20"; }));
  CHECK(mirror.worst == 1);
}

TEST_CASE("25: managed fields name the program that wrote") {
  auto& world = World::get();
  const auto made = must(world.client("homeostat-test/0.1 (conformance)")
                             ->create(resources::config_maps, world.ns, config_map(fresh_name("agent"), {{"a", "1"}})));
  REQUIRE(io::array_at(made, {"metadata", "managedFields"}).size() == 1);
  CHECK(io::string_at(io::array_at(made, {"metadata", "managedFields"})[0], {"manager"}) == "homeostat-test");
}

TEST_CASE("27, 28: one leads; on its clean end the next takes over at once") {
  auto& world = World::get();
  const auto name = fresh_name("lease");
  const auto elector = [&](const char* identity) {
    return std::make_unique<LeaseElector>(
        world.client(), ElectionOptions{world.ns, name, identity, Duration{3000}, Duration{2000}, Duration{200}},
        world.clock, world.random);
  };
  auto first = elector("first"), second = elector("second");
  std::atomic<int> leading{0}, worst{0}, second_led{0};
  const auto lead = [&](std::atomic<int>* flag) {
    return [&, flag](std::stop_token stop) {
      worst = std::max(worst.load(), ++leading);
      if (flag) ++*flag;
      while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      --leading;
    };
  };
  std::atomic<int> lost{0};
  std::jthread a([&](std::stop_token stop) {
    CHECK(first->run(stop, lead(nullptr), [&] { ++lost; }) == LeaseElector::End::stopped);
  });
  REQUIRE(eventually([&] { return leading == 1; }));
  std::jthread b([&](std::stop_token stop) { second->run(stop, lead(&second_led), [&] { ++lost; }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  CHECK(second_led == 0);
  a.request_stop();
  CHECK(eventually([&] { return second_led == 1; },
                   std::chrono::milliseconds(2500)));  // sooner than the lease would expire
  CHECK(worst == 1);
  CHECK(lost == 0);
  const auto lease = must(world.client()->get(resources::leases, world.ns, name));
  CHECK(io::string_at(lease, {"spec", "holderIdentity"}) == "second");
}

TEST_CASE("27: a holder that another replaces learns that it has lost") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("stolen");
  LeaseElector elector(world.client(), {world.ns, name, "victim", Duration{3000}, Duration{2000}, Duration{100}},
                       world.clock, world.random);
  std::atomic<bool> leading = false, lost = false;
  std::jthread thread([&](std::stop_token stop) {
    const auto end = elector.run(
        stop,
        [&](std::stop_token token) {
          leading = true;
          while (!token.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        },
        [&] { lost = true; });
    CHECK(end == LeaseElector::End::lost);
  });
  REQUIRE(eventually([&] { return leading.load(); }));
  must(client->patch(resources::leases, world.ns, name, PatchType::merge,
                     json::object{{"spec", {{"holderIdentity", "thief"}}}}));
  CHECK(eventually([&] { return lost.load(); }));
}

TEST_CASE("events reach the API server, and the same one again only raises the count") {
  auto& world = World::get();
  auto client = world.client();
  const Object about = must(client->create(world.widgets, world.ns, widget(fresh_name("told"), {})));
  {
    EventRecorder recorder(world.factory(), "conformance", "here", world.clock);
    for (int i = 0; i < 3; ++i) recorder.record(world.widgets, about, EventType::warning, "Fault", "it broke");
    recorder.record(world.widgets, about, EventType::normal, "Healed", "it works again");
  }
  const auto events =
      must(client->list(resources::events, world.ns, {.field_selector = "involvedObject.name=" + name_of(about)}));
  REQUIRE(events.items.size() == 2);
  for (const auto& event : events.items)
    CHECK(io::int_at(event, {"count"}) == (io::string_at(event, {"reason"}) == "Fault" ? 3 : 1));
}
