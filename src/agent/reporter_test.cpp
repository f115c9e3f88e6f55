#include "agent/reporter.hpp"

#include <doctest/doctest.h>

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
  Result<Object> create(const Resource&, std::string_view, const Object&) override { return unused(); }
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

struct Fixture {
  io::SystemClock clock;
  io::SystemRandom random;
  RecordingClient client;
  NodeState state;
  Reporter reporter;

  Fixture() : reporter(options(), state, client, clock, random) {
    client.objects["nodes/n1"] = *io::parse_json_object(
        R"({"metadata":{"name":"n1","uid":"u-1"},"status":{"capacity":{"nvidia.com/gpu":"8"}}})");
    state.begin_boot("b1");
    ProbeReport probe;
    probe.state = fault::ProbeState::absent;
    state.take_probe(probe, clock.now());
  }
  static ReporterOptions options() {
    ReporterOptions options;
    options.node_name = "n1";
    return options;
  }
  const Object& health() { return client.objects["nodehealths/n1"]; }
  void fault(int sequence, int code) {
    state.take_records(
        {"3," + std::to_string(sequence) + ",1,-;NVRM: Xid (PCI:0000:0a:00): " + std::to_string(code) + ", x"}, false,
        clock.now(), Duration(0));
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
