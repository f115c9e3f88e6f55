#include "agent/drill.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <atomic>
#include <boost/json/value.hpp>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/fake_api_server.hpp"
#include "kube/meta.hpp"
#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::agent;

namespace {

constexpr TimePoint now{Duration{1'764'483'000'000}};
const std::string line = "NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";

api::Drill armed_drill(const std::string& name, const std::string& token) {
  api::Drill drill;
  drill.name = name, drill.node = "gpu-a", drill.fault = "xid=79";
  drill.status.phase = api::DrillPhase::armed;
  drill.status.token = token;
  drill.status.findings = {"gpu-xid:79@0000:17:00", "gpu-nvml:*@0000:17:00"};
  drill.status.lines = {{3, line}, {6, "NVRM: more"}};
  // As a controller whose clock is an hour behind would write it.
  drill.status.armed_at = now - Duration(3'600'000);
  drill.status.expires_at = *drill.status.armed_at + Duration(60'000);
  return drill;
}

std::string signed_by(const std::string& token) { return "homeostat-drill " + token + " " + line; }

fault::Finding finding(std::string component, std::string code, std::string device) {
  fault::Finding made;
  made.component = std::move(component), made.code = std::move(code), made.device = std::move(device);
  return made;
}

// A node gpu-a with its NodeHealth, and a kernel log in a file.
struct World {
  io::SystemClock clock;
  io::SystemRandom random;
  kube::FakeApiServer server{clock};
  DrillBook book;
  TestFolder folder;
  const std::string log = folder.file("kmsg");

  World() {
    folder.write("kmsg", "");
    server.put(kube::resources::node_healths, kube::new_object(kube::resources::node_healths, "", "gpu-a"));
  }

  void put(const api::Drill& drill) {
    auto object = kube::new_object(kube::resources::drills, "", drill.name);
    object["spec"] = api::encode_drill_spec(drill);
    object["status"] = api::encode_drill_status(drill.status);
    server.put(kube::resources::drills, object);
  }
  std::string annotation() const {
    return kube::annotation_of(*server.find(kube::resources::node_healths, "", "gpu-a"), names::drill_annotation);
  }
  std::string written() const {
    std::ifstream in(log);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  bool wait(const std::function<bool()>& condition) {
    for (int i = 0; i < 500 && !condition(); ++i) clock.sleep(Duration(10), {});
    return condition();
  }
  // Runs a watcher until the condition holds.
  bool watch(bool by_kmsg, const std::function<bool()>& condition) {
    DrillWatcher watcher({.node_name = "gpu-a", .kmsg_path = by_kmsg ? log : ""}, book,
                         server.client_factory(random, "homeostat-agent"), clock, random);
    const std::jthread running([&](std::stop_token stop) { watcher.run(stop); });
    return wait(condition);
  }
};

}  // namespace

TEST_CASE("the book takes a proved line once and marks what the drill brings about") {
  DrillBook book;
  CHECK(book.judge(signed_by("t0"), now).what == fault::UserLine::forgery);
  CHECK_FALSE(book.marks(finding("gpu-xid", "79", "0000:17:00")));
  book.hold(armed_drill("d", "t0"), now);
  CHECK(book.judge(signed_by("t1"), now).what == fault::UserLine::forgery);
  CHECK(book.judge(line, now).what == fault::UserLine::forgery);
  const auto taken = book.judge(signed_by("t0"), now);
  CHECK(taken.what == fault::UserLine::drill);
  CHECK(taken.line == line);
  book.hold(armed_drill("d", "t0"), now);  // the same drill is told again: what was taken stays taken
  CHECK(book.judge(signed_by("t0"), now).what == fault::UserLine::forgery);
  CHECK(book.marks(finding("gpu-xid", "79", "0000:17:00")));
  CHECK(book.marks(finding("gpu-nvml", "GPU_LOST", "0000:17:00")));
  CHECK_FALSE(book.marks(finding("gpu-xid", "79", "0000:3d:00")));
  CHECK(book.judge("systemd[1]: hello", now).what == fault::UserLine::nothing);
}

TEST_CASE("a drill's lines count for a minute from when it came here, its marks until it is over") {
  DrillBook book;
  book.hold(armed_drill("d", "t0"), now);
  CHECK(book.judge(signed_by("t0"), now + Duration(60'000)).what == fault::UserLine::forgery);
  CHECK(book.judge(signed_by("t0"), now + Duration(59'999)).what == fault::UserLine::drill);
  auto drill = armed_drill("d", "t0");
  drill.status.phase = api::DrillPhase::seen;
  book.hold(drill, now);
  CHECK(book.marks("gpu-xid:79@0000:17:00"));
  for (auto over : {api::DrillPhase::done, api::DrillPhase::expired, api::DrillPhase::refused}) {
    book.hold(armed_drill("d", "t0"), now);
    drill.status.phase = over;
    book.hold(drill, now);
    CHECK(book.size() == 0);
  }
  CHECK_FALSE(book.marks("gpu-xid:79@0000:17:00"));
}

TEST_CASE("a Pending drill is not held, one without a life never counts, and the book is bounded") {
  DrillBook book;
  auto drill = armed_drill("d", "t0");
  drill.status.phase = api::DrillPhase::pending;
  book.hold(drill, now);
  CHECK(book.size() == 0);
  drill = armed_drill("d", "t0");
  drill.status.expires_at.reset();
  book.hold(drill, now);
  CHECK(book.judge(signed_by("t0"), now).what == fault::UserLine::forgery);
  for (int i = 0; i < 100; ++i) book.hold(armed_drill("d" + std::to_string(i), "t"), now);
  CHECK(book.size() == DrillBook::max_drills);
}

TEST_CASE("in the lab the watcher says that it is ready and writes nothing") {
  World world;
  world.put(armed_drill("d", "secret"));
  auto other = armed_drill("e", "secret");
  other.node = "gpu-b";
  world.put(other);
  CHECK(world.watch(false, [&] { return world.annotation() == "d"; }));
  CHECK(world.book.size() == 1);
  CHECK(world.written().empty());
}

TEST_CASE("on a real node the watcher writes the signed lines, once, and each is taken") {
  World world;
  const std::string expected = "<3>homeostat-drill secret " + line + "\n<6>homeostat-drill secret NVRM: more\n";
  CHECK(world.watch(true, [&] {
    if (world.written().empty()) world.put(armed_drill("d", "secret"));
    return world.written() == expected;
  }));
  CHECK(world.annotation() == "d");
  CHECK(world.book.judge(signed_by("secret"), world.clock.now()).what == fault::UserLine::drill);
  // Started anew, it finds its own annotation and leaves the log alone.
  world.put(armed_drill("d", "secret"));
  CHECK(world.watch(true, [&] { return world.server.open_watches() > 0; }));
  world.clock.sleep(Duration(50), {});
  CHECK(world.written() == expected);
}

TEST_CASE("a drill that is deleted or over is forgotten") {
  World world;
  DrillWatcher watcher({.node_name = "gpu-a"}, world.book, world.server.client_factory(world.random), world.clock,
                       world.random);
  const std::jthread running([&](std::stop_token stop) { watcher.run(stop); });
  world.put(armed_drill("d", "secret"));
  CHECK(world.wait([&] { return world.book.size() == 1; }));
  world.server.erase(kube::resources::drills, "", "d");
  CHECK(world.wait([&] { return world.book.size() == 0; }));
}

TEST_CASE("an API server that is away is asked again until the drill is stale") {
  World world;
  std::atomic<int> refused = 0;
  world.server.set_fault_hook([&](const kube::FakeApiServer::Call& call) {
    const bool ours = call.resource == kube::resources::node_healths && call.verb == "patch";
    return ours && refused++ < 2 ? kube::FakeApiServer::Fault::server_error : kube::FakeApiServer::Fault::none;
  });
  world.put(armed_drill("d", "secret"));
  CHECK(world.watch(false, [&] { return world.annotation() == "d"; }));
  CHECK(refused >= 2);
}
