#include "agent/reporter.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "io/json.hpp"
#include "kube/meta.hpp"

using namespace homeostat;
using namespace homeostat::agent;

namespace {

using kube::Object;
using kube::Resource;

// Keeps what is written; can be away. Only what the reporter calls is alive.
class RecordingClient final : public kube::Client {
 public:
  std::optional<Error> trouble;
  std::map<std::string, Object> objects;  // "plural/name"
  std::vector<std::string> calls;
  std::mutex mutex;

  Result<Object> get(const Resource& resource, std::string_view, std::string_view name) override {
    std::lock_guard lock(mutex);
    calls.push_back("get " + resource.plural);
    if (trouble) return std::unexpected(*trouble);
    const auto found = objects.find(resource.plural + "/" + std::string(name));
    if (found == objects.end()) return fail(ErrorKind::not_found, "not found");
    return found->second;
  }
  Result<Object> apply(const Resource& resource, std::string_view, std::string_view name, const Object& body,
                       const kube::ApplyOptions& options) override {
    std::lock_guard lock(mutex);
    calls.push_back("apply " + resource.plural + (options.subresource.empty() ? "" : "/" + options.subresource));
    CHECK(options.field_manager == "homeostat-agent");
    if (trouble) return std::unexpected(*trouble);
    auto& object = objects[resource.plural + "/" + std::string(name)];
    if (options.subresource == "status" && object.empty()) {
      objects.erase(resource.plural + "/" + std::string(name));
      return fail(ErrorKind::not_found, "not found");
    }
    for (const auto& member : body)
      if ((member.key() == "status") == (options.subresource == "status")) object[member.key()] = member.value();
    return object;
  }
  Result<Object> patch(const Resource& resource, std::string_view, std::string_view, kube::PatchType type,
                       const boost::json::value& body, std::string_view subresource) override {
    std::lock_guard lock(mutex);
    calls.push_back("patch " + resource.plural + "/" + std::string(subresource));
    CHECK(type == kube::PatchType::strategic_merge);
    if (trouble) return std::unexpected(*trouble);
    last_patch = body.get_object();
    return last_patch;
  }
  Object last_patch;

  Result<kube::ObjectList> list(const Resource&, std::string_view, const kube::ListOptions&) override {
    return unused();
  }
  Result<void> watch(const Resource&, std::string_view, const kube::WatchOptions&,
                     const std::function<bool(kube::WatchEvent&&)>&, std::stop_token) override {
    return unused();
  }
  std::vector<Object> events;
  Result<Object> create(const Resource& resource, std::string_view ns, const Object& body) override {
    std::lock_guard lock(mutex);
    CHECK(resource.plural == "events");
    CHECK(ns == "default");
    events.push_back(body);
    return body;
  }
  Result<Object> replace(const Resource&, std::string_view, std::string_view, const Object&,
                         std::string_view) override {
    return unused();
  }
  Result<void> remove(const Resource&, std::string_view, std::string_view, const kube::DeleteOptions&) override {
    return unused();
  }
  Result<void> evict(std::string_view, std::string_view, std::string_view) override { return unused(); }
  Result<std::string> raw_get(std::string_view) override { return unused(); }

 private:
  static std::unexpected<Error> unused() {
    return fail(ErrorKind::internal, "The reporter has no business with this.");
  }
};

// One of many clients of the same server.
class Forward final : public kube::Client {
 public:
  explicit Forward(kube::Client& to) : to_(to) {}
  Result<Object> get(const Resource& r, std::string_view ns, std::string_view name) override {
    return to_.get(r, ns, name);
  }
  Result<kube::ObjectList> list(const Resource& r, std::string_view ns, const kube::ListOptions& o) override {
    return to_.list(r, ns, o);
  }
  Result<void> watch(const Resource& r, std::string_view ns, const kube::WatchOptions& o,
                     const std::function<bool(kube::WatchEvent&&)>& on_event, std::stop_token stop) override {
    return to_.watch(r, ns, o, on_event, std::move(stop));
  }
  Result<Object> create(const Resource& r, std::string_view ns, const Object& body) override {
    return to_.create(r, ns, body);
  }
  Result<Object> replace(const Resource& r, std::string_view ns, std::string_view name, const Object& body,
                         std::string_view subresource) override {
    return to_.replace(r, ns, name, body, subresource);
  }
  Result<Object> apply(const Resource& r, std::string_view ns, std::string_view name, const Object& body,
                       const kube::ApplyOptions& o) override {
    return to_.apply(r, ns, name, body, o);
  }
  Result<Object> patch(const Resource& r, std::string_view ns, std::string_view name, kube::PatchType type,
                       const boost::json::value& body, std::string_view subresource) override {
    return to_.patch(r, ns, name, type, body, subresource);
  }
  Result<void> remove(const Resource& r, std::string_view ns, std::string_view name,
                      const kube::DeleteOptions& o) override {
    return to_.remove(r, ns, name, o);
  }
  Result<void> evict(std::string_view ns, std::string_view pod, std::string_view uid) override {
    return to_.evict(ns, pod, uid);
  }
  Result<std::string> raw_get(std::string_view path) override { return to_.raw_get(path); }

 private:
  kube::Client& to_;
};

struct Fixture {
  io::SystemClock clock;
  io::SystemRandom random;
  RecordingClient client;
  NodeState state;
  Reporter reporter;

  explicit Fixture(bool drills_by_kernel_log = false)
      : reporter(
            options(drills_by_kernel_log), state, [this] { return std::make_unique<Forward>(client); }, clock, random) {
    client.objects["nodes/n1"] = *io::parse_json_object(
        R"({"metadata":{"name":"n1","uid":"u-1"},"status":{"capacity":{"nvidia.com/gpu":"8"}}})");
    state.begin_boot("b1");
    state.take_log_state(fault::ProbeState::good, "", clock.now());
    SensorReport nvml;
    nvml.state = fault::ProbeState::absent;
    state.take_sensor("nvml", {}, std::move(nvml), clock.now());
  }
  static ReporterOptions options(bool drills_by_kernel_log) {
    ReporterOptions options;
    options.node_name = "n1";
    options.drills_by_kernel_log = drills_by_kernel_log;
    return options;
  }
  const Object& health() { return client.objects["nodehealths/n1"]; }
  void fault(int sequence, int code) {
    state.take_records(
        {"3," + std::to_string(sequence) + ",1,-;NVRM: Xid (PCI:0000:0a:00): " + std::to_string(code) + ", x"},
        clock.now(), Duration(0));
  }
  size_t count(std::string_view call) {
    std::lock_guard lock(client.mutex);
    return static_cast<size_t>(std::count(client.calls.begin(), client.calls.end(), call));
  }
  bool visible(std::string_view verdict) {
    std::lock_guard lock(client.mutex);
    const auto found = client.objects.find("nodehealths/n1");
    return found != client.objects.end() && io::string_at(found->second, {"status", "verdict"}) == verdict;
  }
};

}  // namespace

TEST_CASE("the first report makes the NodeHealth, owned by its Node, and sets the Node's condition") {
  Fixture f;
  REQUIRE(f.reporter.report());
  CHECK(kube::is_owned_by(f.health(), "u-1"));
  CHECK(io::string_at(f.health(), {"status", "verdict"}) == "Healthy");
  CHECK(io::int_at(f.health(), {"status", "expectedGpus"}) == 8);
  const auto& condition = io::array_at(f.client.last_patch, {"status", "conditions"}).at(0);
  CHECK(io::string_at(condition, {"type"}) == "AcceleratorHealthy");
  CHECK(io::string_at(condition, {"status"}) == "True");
}

TEST_CASE("the NodeHealth says whether its agent can prove a drill") {
  Fixture without, with(true);
  REQUIRE(without.reporter.report());
  REQUIRE(with.reporter.report());
  CHECK_FALSE(api::decode_node_health(without.health()).drills_by_kernel_log);
  CHECK(api::decode_node_health(with.health()).drills_by_kernel_log);
}

TEST_CASE("the Node's condition is written when it changes, not with each report") {
  Fixture f;
  REQUIRE(f.reporter.report());
  f.client.calls.clear();
  REQUIRE(f.reporter.report());
  CHECK(f.client.calls == std::vector<std::string>{"apply nodehealths/status"});
  f.fault(1, 79);
  f.client.calls.clear();
  REQUIRE(f.reporter.report());
  CHECK(f.client.calls == std::vector<std::string>{"apply nodehealths/status", "patch nodes/status"});
  const auto& condition = io::array_at(f.client.last_patch, {"status", "conditions"}).at(0);
  CHECK(io::string_at(condition, {"status"}) == "False");
  CHECK(io::string_at(condition, {"reason"}) == "GpuXid79");
}

TEST_CASE("a NodeHealth that somebody deleted is made again") {
  Fixture f;
  REQUIRE(f.reporter.report());
  f.client.objects.erase("nodehealths/n1");
  CHECK_FALSE(f.reporter.report().has_value());
  REQUIRE(f.reporter.report());
  CHECK(kube::is_owned_by(f.health(), "u-1"));
}

TEST_CASE("the rules of the policy colour the verdict") {
  Fixture f;
  f.client.objects["healthpolicies/default"] =
      *io::parse_json_object(R"({"metadata":{"name":"default"},"spec":{"rules":[{"code":"79","class":"watch"}]}})");
  f.fault(1, 79);
  REQUIRE(f.reporter.report());
  CHECK(io::string_at(f.health(), {"status", "verdict"}) == "Degraded");
}

TEST_CASE("a fault is visible at once; one that comes while the API server is away is visible when it is back") {
  Fixture f;
  std::jthread reporting([&](std::stop_token stop) { f.reporter.run(stop); });
  const auto eventually = [&](std::string_view verdict, std::chrono::milliseconds bound) {
    const auto end = std::chrono::steady_clock::now() + bound;
    while (std::chrono::steady_clock::now() < end) {
      if (f.visible(verdict)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  };
  CHECK(eventually("Healthy", std::chrono::seconds(5)));
  {
    std::lock_guard lock(f.client.mutex);
    f.client.trouble = Error{ErrorKind::unreachable, "away", std::nullopt};
  }
  f.fault(1, 79);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(f.visible("Healthy"));
  {
    std::lock_guard lock(f.client.mutex);
    f.client.trouble.reset();
  }
  CHECK(eventually("Unhealthy", std::chrono::seconds(8)));
}

TEST_CASE("from the fault to the report it takes milliseconds") {
  Fixture f;
  std::jthread reporting([&](std::stop_token stop) { f.reporter.run(stop); });
  for (int i = 0; i < 500 && !f.visible("Healthy"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto before = std::chrono::steady_clock::now();
  f.fault(1, 79);
  while (!f.visible("Unhealthy") && std::chrono::steady_clock::now() - before < std::chrono::seconds(5))
    std::this_thread::yield();
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::milliseconds(100));
}

TEST_CASE("the budget: changes one by one are written at once, a storm once a second") {
  WriteBudget calm;
  Duration now{0};
  for (int i = 0; i < 200; ++i, now += Duration(120)) {
    CHECK(calm.wait(now) == Duration(0));
    calm.spend(1, now);
  }
  WriteBudget storm;
  int writes = 0;
  now = Duration(0);
  for (; now < Duration(1'000); now += Duration(5)) {  // 10,000 lines in a second, 50 in each 5 ms
    if (storm.wait(now) > Duration(0)) continue;
    storm.spend(writes == 0 ? 50 : 1000, now);
    ++writes;
  }
  CHECK(writes <= 5);
  CHECK(storm.wait(now) <= Duration(1'001));
  for (int i = 0; i < 10; ++i) storm.spend(100'000, now);
  CHECK(storm.wait(now) <= Duration(1'001));  // debts are forgiven beyond a second
}

//   10,000 lines within a second, that name 1,000 codes of 8 GPUs; the API server answers in 5 ms
TEST_CASE("a storm makes a handful of writes, and all of it is counted in the end") {
  Fixture f;
  std::jthread reporting([&](std::stop_token stop) { f.reporter.run(stop); });
  for (int i = 0; i < 500 && !f.visible("Healthy"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto before = f.count("apply nodehealths/status");
  int sequence = 0;
  for (int burst = 0; burst < 100; ++burst) {
    std::vector<std::string> records;
    for (int i = 0; i < 100; ++i) {
      ++sequence;
      records.push_back("3," + std::to_string(sequence) + ",1,-;NVRM: Xid (PCI:0000:0" + std::to_string(sequence % 8) +
                        ":00): 79, GPU has fallen off the bus.");
    }
    f.state.take_records(records, f.clock.now(), Duration(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(9));
  }
  CHECK(f.visible("Unhealthy"));  // at once, not when the storm is over
  std::this_thread::sleep_for(std::chrono::milliseconds(2'500));
  CHECK(f.count("apply nodehealths/status") - before <= 8);
  std::lock_guard lock(f.client.mutex);
  std::int64_t counted = 0;
  for (const auto& finding : io::array_at(f.health(), {"status", "findings"}))
    counted += io::int_at(finding, {"count"});
  CHECK(counted == 10'000);
}

TEST_CASE("people are told by events on the Node, once") {
  Fixture f;
  REQUIRE(f.reporter.report());
  f.fault(1, 79);
  REQUIRE(f.reporter.report());
  REQUIRE(f.reporter.report());
  const auto told = [&f] {
    std::lock_guard lock(f.client.mutex);
    return f.client.events.size();
  };
  for (int i = 0; i < 200 && told() < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::lock_guard lock(f.client.mutex);
  REQUIRE(f.client.events.size() == 2);
  CHECK(io::string_at(f.client.events[0], {"reason"}) == "IncidentOpened");
  CHECK(io::string_at(f.client.events[1], {"reason"}) == "NodeUnhealthy");
  CHECK(io::string_at(f.client.events[1], {"involvedObject", "uid"}) == "u-1");
}
