#include "agent/sensors.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

using namespace homeostat;
using namespace homeostat::agent;
using fault::ProbeState;

namespace {

// What a scripted sensor can get stuck in, until somebody opens it.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
  void pass() {
    std::unique_lock lock(mutex);
    opened.wait(lock, [&] { return open; });
  }
  void release() {
    std::lock_guard lock(mutex);
    open = true;
    opened.notify_all();
  }
};

struct Scripted final : Sensor {
  std::string own_name;
  std::function<SensorReport(const SensorInput&)> answer;
  Duration wait{10}, bound{10'000};
  Scripted(std::string name, std::function<SensorReport(const SensorInput&)> script)
      : own_name(std::move(name)), answer(std::move(script)) {}
  std::string_view name() const override { return own_name; }
  std::span<const std::string_view> components() const override { return {}; }
  Duration interval() const override { return wait; }
  Duration patience() const override { return bound; }
  SensorReport look(const SensorInput& input) override { return answer(input); }
};

SensorReport good() {
  SensorReport report;
  report.state = ProbeState::good;
  return report;
}

// The newest report of each sensor and how many there were.
struct Reports {
  std::mutex mutex;
  std::map<std::string, SensorReport, std::less<>> newest;
  std::map<std::string, int, std::less<>> count;
  void take(const Sensor& sensor, SensorReport report) {
    std::lock_guard lock(mutex);
    const std::string name(sensor.name());
    newest[name] = std::move(report);
    ++count[name];
  }
  ProbeState state(std::string_view name) {
    std::lock_guard lock(mutex);
    const auto found = newest.find(name);
    return found == newest.end() ? ProbeState::pending : found->second.state;
  }
  std::string message(std::string_view name) {
    std::lock_guard lock(mutex);
    return newest.find(name)->second.message;
  }
  int counted(std::string_view name) {
    std::lock_guard lock(mutex);
    const auto found = count.find(name);
    return found == count.end() ? 0 : found->second;
  }
};

size_t threads_of_this_process() {
  size_t threads = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ++threads;
  return threads;
}

struct Fixture {
  static io::SystemClock& clock() {
    static io::SystemClock instance;
    return instance;
  }
  std::shared_ptr<Reports> reports = std::make_shared<Reports>();
  std::unique_ptr<Sensors> sensors;

  void start(std::vector<std::unique_ptr<Sensor>> list) {
    sensors = std::make_unique<Sensors>(
        std::move(list), clock(), [](const Sensor&) { return SensorInput{}; },
        [to = reports](const Sensor& sensor, SensorReport report) { to->take(sensor, std::move(report)); });
  }
  template <class Condition>
  bool eventually(Condition condition) {
    for (int i = 0; i < 1000; ++i) {
      sensors->tick();
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
};

std::unique_ptr<Scripted> scripted(std::string name, std::function<SensorReport(const SensorInput&)> script) {
  return std::make_unique<Scripted>(std::move(name), std::move(script));
}

std::unique_ptr<Scripted> hanging(std::string name, const std::shared_ptr<Gate>& gate) {
  auto sensor = scripted(std::move(name), [gate](const SensorInput&) {
    gate->pass();
    return good();
  });
  sensor->bound = Duration(30);
  return sensor;
}

}  // namespace

//   nvml       throws ........ failed, with its words
//   infiniband answers ....... good, again and again
//   amd        is not there .. absent
TEST_CASE("each sensor's failure is its own") {
  Fixture f;
  std::vector<std::unique_ptr<Sensor>> list;
  list.push_back(scripted("nvml", [](const SensorInput&) -> SensorReport { throw std::runtime_error("no driver"); }));
  list.push_back(scripted("odd", [](const SensorInput&) -> SensorReport { throw 7; }));
  list.push_back(scripted("infiniband", [](const SensorInput&) { return good(); }));
  list.push_back(scripted("amd", [](const SensorInput&) {
    SensorReport report;
    report.state = ProbeState::absent;
    return report;
  }));
  f.start(std::move(list));
  CHECK(f.eventually([&] { return f.sensors->all_asked() && f.reports->counted("infiniband") > 3; }));
  CHECK(f.reports->state("nvml") == ProbeState::failed);
  CHECK(f.reports->message("nvml") == "The sensor nvml failed: no driver.");
  CHECK(f.reports->message("odd") == "The sensor odd failed without saying why.");
  CHECK(f.reports->state("infiniband") == ProbeState::good);
  CHECK(f.reports->state("amd") == ProbeState::absent);
}

//   thread 1  [a hangs ...............................] returns: good again
//   thread 2  [b hangs ...............................]
//   fresh 1           [c][c][c][c]  while two are lost
TEST_CASE("sensors that hang are failed in bounded time, hold nobody up and are good again when they return") {
  Fixture f;
  const auto before = threads_of_this_process();
  auto a = std::make_shared<Gate>(), b = std::make_shared<Gate>();
  std::vector<std::unique_ptr<Sensor>> list;
  list.push_back(hanging("a", a));
  list.push_back(hanging("b", b));
  list.push_back(scripted("c", [](const SensorInput&) { return good(); }));
  f.start(std::move(list));
  CHECK(f.eventually(
      [&] { return f.reports->state("a") == ProbeState::failed && f.reports->state("b") == ProbeState::failed; }));
  CHECK(f.reports->message("a").find("The sensor a has not answered for ") == 0);
  CHECK(f.eventually([&] { return f.reports->counted("c") > 3; }));
  CHECK(f.reports->state("c") == ProbeState::good);
  CHECK(threads_of_this_process() <= before + 4);  // two lost, two at work
  a->release();
  CHECK(f.eventually([&] { return f.reports->state("a") == ProbeState::good; }));
  CHECK(f.eventually([&] { return threads_of_this_process() <= before + 3; }));
  CHECK(f.reports->state("b") == ProbeState::failed);
  b->release();
  CHECK(f.eventually([&] { return f.reports->state("b") == ProbeState::good; }));
  CHECK(f.eventually([&] { return threads_of_this_process() <= before + 2; }));
}

TEST_CASE("the end does not wait for a sensor that hangs") {
  auto gate = std::make_shared<Gate>();
  auto reports = std::make_shared<Reports>();
  {
    Fixture f;
    reports = f.reports;
    std::vector<std::unique_ptr<Sensor>> list;
    list.push_back(hanging("a", gate));
    f.start(std::move(list));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto started = std::chrono::steady_clock::now();
    f.sensors.reset();
    CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(1));
  }
  gate->release();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(reports->counted("a") == 0);
}

TEST_CASE("what the kernel says makes all look at once, but not more than once a second") {
  Fixture f;
  std::atomic<int> looks = 0;
  auto slow = scripted("slow", [&looks](const SensorInput&) {
    ++looks;
    return good();
  });
  slow->wait = Duration(60'000);
  std::vector<std::unique_ptr<Sensor>> list;
  list.push_back(std::move(slow));
  f.start(std::move(list));
  CHECK(f.eventually([&] { return looks == 1 && f.sensors->all_asked(); }));
  for (int i = 0; i < 100; ++i) f.sensors->ask_now();
  CHECK(f.eventually([&] { return looks == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(looks == 2);
  f.sensors.reset();
}

//  boot 1: a (hangs), b        | boot 2: c; what hung in a comes back and says nothing any more
TEST_CASE("another boot has sensors of its own, and those before say nothing any more") {
  auto gate = std::make_shared<Gate>();
  Fixture f;
  std::vector<std::unique_ptr<Sensor>> list;
  list.push_back(hanging("a", gate));
  list.push_back(scripted("b", [](const SensorInput&) { return good(); }));
  f.start(std::move(list));
  CHECK(f.eventually([&] { return f.reports->counted("b") > 0; }));
  std::vector<std::unique_ptr<Sensor>> next;
  next.push_back(scripted("c", [](const SensorInput&) { return good(); }));
  f.sensors->replace(std::move(next));
  const int of_b = f.reports->counted("b");
  CHECK(f.eventually([&] { return f.reports->counted("c") > 1; }));
  gate->release();
  CHECK(f.eventually([&] { return f.reports->counted("c") > 4; }));
  CHECK(f.reports->counted("b") == of_b);
  CHECK(f.reports->state("a") != ProbeState::good);
}

TEST_CASE("only what says how the accelerators are can make the node unknown") {
  CHECK(is_essential("nvml"));
  CHECK(is_essential("kmsg"));
  CHECK_FALSE(is_essential("infiniband"));
}
