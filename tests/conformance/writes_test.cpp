// Writes. The numbers are the lines of the facts that each case holds the client (and the fake) to.
#include "kube/conditions.hpp"
#include "world.hpp"

using namespace conformance;
namespace json = boost::json;

namespace {

const ApplyOptions as_a{.field_manager = "manager-a"}, as_b{.field_manager = "manager-b"};

Object apply_data(Client& client, const std::string& name, json::object data, const ApplyOptions& options) {
  auto& world = World::get();
  return must(client.apply(resources::config_maps, world.ns, name, config_map(name, std::move(data)), options));
}

Object test_pod(const std::string& name, std::string_view app) {
  Object pod = new_object(resources::pods, World::get().ns, name);
  io::set_at(pod, {"metadata", "labels", "app"}, json::value(app));
  pod["spec"] = json::object{
      {"containers",
       json::array{json::object{{"name", "c"}, {"image", "localhost/pause:1"}, {"imagePullPolicy", "Never"}}}},
      {"schedulerName", "nobody"},
      {"automountServiceAccountToken", false}};
  return pod;
}

}  // namespace

TEST_CASE("10: a stale resourceVersion is a conflict, for PUT and for patches") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("cas");
  Object first = must(client->create(resources::config_maps, world.ns, config_map(name, {{"a", "1"}})));
  Object second = first;
  io::set_at(second, {"data", "a"}, json::value("2"));
  must(client->replace(resources::config_maps, world.ns, name, second));
  CHECK_KIND(client->replace(resources::config_maps, world.ns, name, first), ErrorKind::conflict);
  const json::object patch{{"metadata", {{"resourceVersion", resource_version_of(first)}}}, {"data", {{"a", "3"}}}};
  CHECK_KIND(client->patch(resources::config_maps, world.ns, name, PatchType::merge, patch), ErrorKind::conflict);
  CHECK(io::string_at(must(client->get(resources::config_maps, world.ns, name)), {"data", "a"}) == "2");
}

TEST_CASE(
    "11: apply creates, owns, refuses foreign fields, drops what it no longer sends, and does nothing when nothing "
    "changes") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("apply");
  const Object made = apply_data(*client, name, {{"a", "1"}, {"b", "1"}}, as_a);
  SUBCASE("an identical apply keeps the version") {
    CHECK(resource_version_of(apply_data(*client, name, {{"a", "1"}, {"b", "1"}}, as_a)) == resource_version_of(made));
  }
  SUBCASE("a field that is no longer sent is deleted, unless another manager has it too") {
    apply_data(*client, name, {{"b", "1"}}, as_b);
    const Object after = apply_data(*client, name, {}, as_a);
    CHECK(io::find(after, {"data", "a"}) == nullptr);
    CHECK(io::string_at(after, {"data", "b"}) == "1");
  }
  SUBCASE("a foreign field is a conflict that names owner and field; force takes it") {
    const auto refused = client->apply(resources::config_maps, world.ns, name, config_map(name, {{"a", "2"}}), as_b);
    CHECK_KIND(refused, ErrorKind::conflict);
    CHECK(refused.error().message.find("manager-a") != std::string::npos);
    CHECK(refused.error().message.find(".data.a") != std::string::npos);
    const Object taken = must(client->apply(resources::config_maps, world.ns, name, config_map(name, {{"a", "2"}}),
                                            {.field_manager = "manager-b", .force = true}));
    CHECK(io::string_at(taken, {"data", "a"}) == "2");
    CHECK_KIND(client->apply(resources::config_maps, world.ns, name, config_map(name, {{"a", "1"}}), as_a),
               ErrorKind::conflict);
  }
  SUBCASE("resourceVersion in the body makes it a compare-and-swap") {
    Object body = config_map(name, {{"a", "9"}, {"b", "1"}});
    io::set_at(body, {"metadata", "resourceVersion"}, json::value(resource_version_of(made)));
    must(client->apply(resources::config_maps, world.ns, name, body, as_a));
    CHECK_KIND(client->apply(resources::config_maps, world.ns, name, body, as_a), ErrorKind::conflict);
  }
  SUBCASE("another writer's change of our field takes it over") {
    must(client->patch(resources::config_maps, world.ns, name, PatchType::merge, json::object{{"data", {{"a", "7"}}}}));
    CHECK_KIND(client->apply(resources::config_maps, world.ns, name, config_map(name, {{"a", "1"}, {"b", "1"}}), as_a),
               ErrorKind::conflict);
  }
  SUBCASE("without a field manager it is refused before it is sent") {
    CHECK_KIND(client->apply(resources::config_maps, world.ns, name, config_map(name, {}), {}), ErrorKind::invalid);
  }
}

TEST_CASE("12: status goes through its subresource only, and the generation counts changes of the spec only") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("status");
  Object body = widget(name, {{"size", 1}});
  body["status"] = json::object{{"phase", "ignored"}};
  const Object made = must(client->create(world.widgets, world.ns, body));
  CHECK(io::find(made, {"status", "phase"}) == nullptr);
  CHECK(generation_of(made) == 1);
  Object status = new_object(world.widgets, world.ns, name);
  json::array conditions;
  set_condition(conditions, {"Ready", "True", "Good", "all is well", generation_of(made)}, world.clock.now());
  status["status"] = json::object{{"phase", "Running"}, {"conditions", conditions}};
  const Object with_status = must(
      client->apply(world.widgets, world.ns, name, status, {.field_manager = "manager-a", .subresource = "status"}));
  CHECK(generation_of(with_status) == 1);
  CHECK(condition_status(with_status, "Ready") == "True");
  const Object resized = must(client->patch(world.widgets, world.ns, name, PatchType::merge,
                                            json::object{{"spec", {{"size", 2}}}, {"status", {{"phase", "no"}}}}));
  CHECK(generation_of(resized) == 2);
  CHECK(io::string_at(resized, {"status", "phase"}) == "Running");

  // A second manager's condition lives beside the first one's: the list is a map by type.
  Object other = new_object(world.widgets, world.ns, name);
  json::array its;
  set_condition(its, {"Busy", "False", "Idle", "", 2}, world.clock.now());
  other["status"] = json::object{{"conditions", its}};
  const Object both = must(
      client->apply(world.widgets, world.ns, name, other, {.field_manager = "manager-b", .subresource = "status"}));
  CHECK(condition_status(both, "Ready") == "True");
  CHECK(condition_status(both, "Busy") == "False");
}

TEST_CASE("12: an update of a custom resource needs a resourceVersion") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("blind");
  must(client->create(world.widgets, world.ns, widget(name, {})));
  CHECK_KIND(client->replace(world.widgets, world.ns, name, widget(name, {{"a", 1}})), ErrorKind::invalid);
}

TEST_CASE("13: a second create of the same name already exists, which is not a conflict") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("twice");
  must(client->create(resources::config_maps, world.ns, config_map(name, {})));
  CHECK_KIND(client->create(resources::config_maps, world.ns, config_map(name, {})), ErrorKind::already_exists);
  Object unnamed = config_map("x", {});
  unnamed["metadata"] = json::object{{"generateName", "made-"}};
  CHECK(name_of(must(client->create(resources::config_maps, world.ns, unnamed))).starts_with("made-"));
}

TEST_CASE("14: a delete with preconditions spares another object of the name; a thing already gone is success") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("delete");
  const Object made = must(client->create(resources::config_maps, world.ns, config_map(name, {})));
  CHECK_KIND(client->remove(resources::config_maps, world.ns, name, {.uid = "11111111-2222-4333-8444-555555555555"}),
             ErrorKind::conflict);
  CHECK_KIND(client->remove(resources::config_maps, world.ns, name, {.resource_version = "1"}), ErrorKind::conflict);
  CHECK(client->remove(resources::config_maps, world.ns, name, {.uid = uid_of(made)}).has_value());
  CHECK(client->remove(resources::config_maps, world.ns, name, {.uid = uid_of(made)}).has_value());
  CHECK_KIND(client->remove(resources::config_maps, world.ns, "", {}), ErrorKind::invalid);
}

TEST_CASE("15: a finalizer holds a deletion until test-and-remove takes it off") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("final");
  Object body = widget(name, {});
  io::set_at(body, {"metadata", "finalizers"}, json::array{"homeostat.dev/first", "homeostat.dev/second"});
  must(client->create(world.widgets, world.ns, body));
  must(client->remove(world.widgets, world.ns, name, {}));
  Object held = must(client->get(world.widgets, world.ns, name));
  CHECK(is_deleting(held));
  const auto stale = remove_finalizer_patch(held, "homeostat.dev/second");
  must(client->patch(world.widgets, world.ns, name, PatchType::json,
                     remove_finalizer_patch(held, "homeostat.dev/first")));
  // The list has moved on: the test fails instead of taking off the wrong one.
  CHECK_KIND(client->patch(world.widgets, world.ns, name, PatchType::json, stale), ErrorKind::invalid);
  held = must(client->get(world.widgets, world.ns, name));
  must(client->patch(world.widgets, world.ns, name, PatchType::json,
                     remove_finalizer_patch(held, "homeostat.dev/second")));
  CHECK_KIND(client->get(world.widgets, world.ns, name), ErrorKind::not_found);
}

TEST_CASE("16: what an owner's deletion leaves behind is collected") {
  auto& world = World::get();
  auto client = world.client();
  const auto owner_name = fresh_name("owner"), child_name = fresh_name("child");
  const Object owner = must(client->create(world.widgets, world.ns, widget(owner_name, {})));
  Object child = config_map(child_name, {});
  io::set_at(child, {"metadata", "ownerReferences"}, json::array{owner_reference(world.widgets, owner)});
  const Object made = must(client->create(resources::config_maps, world.ns, child));
  CHECK(controller_key_of(made, "Widget") == ObjectKey{world.ns, owner_name});
  must(client->remove(world.widgets, world.ns, owner_name, {}));
  // The garbage collector of a real cluster may need a while to learn of a new kind.
  CHECK(eventually([&] { return !client->get(resources::config_maps, world.ns, child_name).has_value(); },
                   std::chrono::seconds(90)));
}

TEST_CASE("17: an eviction respects the budget, and says so in another way than a busy server") {
  auto& world = World::get();
  auto client = world.client();
  Object budget = new_object(resources::pod_disruption_budgets, world.ns, fresh_name("budget"));
  budget["spec"] = json::object{{"minAvailable", 1}, {"selector", {{"matchLabels", {{"app", "guarded"}}}}}};
  must(client->create(resources::pod_disruption_budgets, world.ns, budget));
  const auto name = fresh_name("guarded");
  const Object pod = must(client->create(resources::pods, world.ns, test_pod(name, "guarded")));
  const json::object running{
      {"status",
       {{"phase", "Running"}, {"conditions", json::array{json::object{{"type", "Ready"}, {"status", "True"}}}}}}};
  must(client->patch(resources::pods, world.ns, name, PatchType::merge, running, "status"));
  const auto refused = [&] {
    const auto outcome = client->evict(world.ns, name, uid_of(pod));
    return !outcome && outcome.error().kind == ErrorKind::disruption_budget;
  };
  CHECK(refused());
  CHECK(client->evict(world.ns, "nobody", "").has_value());
  const auto free = fresh_name("free");
  must(client->create(resources::pods, world.ns, test_pod(free, "free")));
  CHECK_KIND(client->evict(world.ns, free, "11111111-2222-4333-8444-555555555555"), ErrorKind::conflict);
  CHECK(client->evict(world.ns, free, "").has_value());
  CHECK(eventually([&] { return !client->get(resources::pods, world.ns, free).has_value(); }));
  must(client->remove(resources::pods, world.ns, name, {.grace_s = 0}));
}

TEST_CASE("18: a write whose answer is lost has an unknown outcome and is not sent twice") {
  if (World::get().is_real()) return;  // needs the fake's hooks
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("lost");
  world.fake->clear_mutations();
  world.fake->set_fault_hook([](const FakeApiServer::Call& call) {
    return call.verb == "create" ? FakeApiServer::Fault::lost_reply : FakeApiServer::Fault::none;
  });
  CHECK_KIND(client->create(resources::config_maps, world.ns, config_map(name, {})), ErrorKind::unknown_outcome);
  world.fake->set_fault_hook(nullptr);
  CHECK(world.fake->mutations().size() == 1);
  CHECK(client->get(resources::config_maps, world.ns, name).has_value());  // read again: it is there
}

TEST_CASE("patches: merge deletes with null, strategic merges lists by their key, json tests") {
  auto& world = World::get();
  auto client = world.client();
  const auto name = fresh_name("patch");
  must(client->create(resources::config_maps, world.ns, config_map(name, {{"a", "1"}, {"b", "2"}})));
  const Object merged = must(client->patch(resources::config_maps, world.ns, name, PatchType::merge,
                                           json::object{{"data", {{"a", nullptr}}}}));
  CHECK(io::find(merged, {"data", "a"}) == nullptr);
  const json::array wrong{json::object{{"op", "test"}, {"path", "/data/b"}, {"value", "9"}},
                          json::object{{"op", "remove"}, {"path", "/data/b"}}};
  CHECK_KIND(client->patch(resources::config_maps, world.ns, name, PatchType::json, wrong), ErrorKind::invalid);
  const auto pod = fresh_name("conditions");
  must(client->create(resources::pods, world.ns, test_pod(pod, "none")));
  for (const char* type : {"One", "Two"})
    must(client->patch(
        resources::pods, world.ns, pod, PatchType::strategic_merge,
        json::object{{"status", {{"conditions", json::array{json::object{{"type", type}, {"status", "True"}}}}}}},
        "status"));
  const Object after = must(client->get(resources::pods, world.ns, pod));
  CHECK(condition_status(after, "One") == "True");
  CHECK(condition_status(after, "Two") == "True");
  CHECK_KIND(client->patch(world.widgets, world.ns, "any", PatchType::strategic_merge, json::object{}),
             world.is_real() ? ErrorKind::invalid : ErrorKind::not_found);
  must(client->remove(resources::pods, world.ns, pod, {.grace_s = 0}));
}
