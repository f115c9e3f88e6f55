#include "agent/sensors.hpp"

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>

namespace homeostat::agent {

namespace {

// Enough for a driver's library; only what is touched costs memory.
constexpr size_t stack_bytes = 1 << 20;
constexpr Duration ask_pause{1'000};
constexpr Duration idle_wait{60'000};

struct Entry {
  std::unique_ptr<Sensor> sensor;
  Duration due{0};
  std::optional<Duration> started;  // a look is under way since then
  bool given_up = false;            // and has been reported as hanging
  bool reported = false;
  bool reporting = false;
};

}  // namespace

struct Sensors::Shared {
  mutable std::mutex mutex;
  std::condition_variable wake;      // something is due, or the end has come
  std::condition_variable reported;  // no report is being handed over
  std::vector<Entry> entries;
  io::Clock& clock;
  InputFor input;
  OnReport on_report;
  unsigned wanted_threads, free_threads = 0;  // free: not lost in a sensor that was given up
  unsigned handing_over = 0;
  Duration asked_at{-1'000'000};
  bool stopped = false;

  Shared(io::Clock& the_clock, InputFor the_input, OnReport the_on_report, unsigned threads)
      : clock(the_clock), input(std::move(the_input)), on_report(std::move(the_on_report)), wanted_threads(threads) {}

  Entry* due_entry(Duration now);
  Duration until_due(Duration now) const;
  void look(std::unique_lock<std::mutex>& lock, Entry& entry);
  void hand_over(std::unique_lock<std::mutex>& lock, Entry& entry, SensorReport report);
  void work();
  void take(std::vector<std::unique_ptr<Sensor>> sensors);
  void end();  // waits for reports that are being handed over, not for a sensor that looks
};

namespace {

std::string hang_message(const Sensor& sensor, Duration since) {
  std::string message = "The sensor ";
  message.append(sensor.name()).append(" has not answered for ").append(format_duration(since));
  if (const auto file = sensor.now_reading(); !file.empty()) message.append("; it hangs in ").append(file);
  return message.append(". It is asked again when it returns.");
}

// A sensor is looked at by nobody else while its look is under way, whether or not it was given up.
bool is_idle(const Entry& entry) { return !entry.started && !entry.reporting; }

SensorReport failed(std::string message) {
  SensorReport report;
  report.state = fault::ProbeState::failed;
  report.message = std::move(message);
  return report;
}

SensorReport look_safely(Sensor& sensor, const SensorInput& input) {
  const std::string name(sensor.name());
  try {
    return sensor.look(input);
  } catch (const std::exception& error) {
    return failed("The sensor " + name + " failed: " + error.what() + ".");
  } catch (...) {
    return failed("The sensor " + name + " failed without saying why.");
  }
}

}  // namespace

Entry* Sensors::Shared::due_entry(Duration now) {
  Entry* first = nullptr;
  for (auto& entry : entries)
    if (is_idle(entry) && entry.due <= now && (first == nullptr || entry.due < first->due)) first = &entry;
  return first;
}

Duration Sensors::Shared::until_due(Duration now) const {
  Duration wait = idle_wait;
  for (const auto& entry : entries)
    if (is_idle(entry)) wait = std::min(wait, std::max(entry.due - now, Duration(1)));
  return wait;
}

void Sensors::Shared::hand_over(std::unique_lock<std::mutex>& lock, Entry& entry, SensorReport report) {
  if (stopped) return;
  entry.reporting = true;
  ++handing_over;
  lock.unlock();
  on_report(*entry.sensor, std::move(report));
  lock.lock();
  entry.reporting = false;
  entry.reported = true;
  --handing_over;
  reported.notify_all();
}

void Sensors::Shared::look(std::unique_lock<std::mutex>& lock, Entry& entry) {
  entry.started = clock.monotonic();
  entry.given_up = false;
  ++handing_over;  // the input is asked of somebody who may be going
  lock.unlock();
  const auto seen = input(*entry.sensor);
  lock.lock();
  --handing_over;
  reported.notify_all();
  if (stopped) return;
  lock.unlock();
  auto report = look_safely(*entry.sensor, seen);
  lock.lock();
  if (entry.given_up) ++free_threads;
  // tick() may be telling of the hang at this very moment: its word must not come after ours.
  reported.wait(lock, [&] { return !entry.reporting; });
  entry.started.reset();
  entry.given_up = false;
  entry.due = clock.monotonic() + entry.sensor->interval();
  hand_over(lock, entry, std::move(report));
}

void Sensors::Shared::work() {
  std::unique_lock lock(mutex);
  while (!stopped && free_threads <= wanted_threads) {
    const auto now = clock.monotonic();
    if (auto* entry = due_entry(now))
      look(lock, *entry);
    else
      wake.wait_for(lock, until_due(now));
  }
  --free_threads;
}

namespace {

// Detached, and it owns what it touches: a thread that hangs in a driver cannot be joined.
template <class Shared>
bool start_thread(const std::shared_ptr<Shared>& shared) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  ::pthread_attr_setstacksize(&attributes, stack_bytes);
  auto own = std::make_unique<std::shared_ptr<Shared>>(shared);
  pthread_t thread{};
  const auto body = [](void* argument) -> void* {
    const std::unique_ptr<std::shared_ptr<Shared>> mine(static_cast<std::shared_ptr<Shared>*>(argument));
    (*mine)->work();
    return nullptr;
  };
  const bool started = ::pthread_create(&thread, &attributes, body, own.get()) == 0;
  if (started) (void)own.release();
  ::pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

void Sensors::Shared::take(std::vector<std::unique_ptr<Sensor>> sensors) {
  entries.reserve(sensors.size());
  for (auto& sensor : sensors) {
    Entry entry;
    entry.sensor = std::move(sensor);
    entries.push_back(std::move(entry));
  }
}

void Sensors::Shared::end() {
  std::unique_lock lock(mutex);
  stopped = true;
  wake.notify_all();
  reported.wait(lock, [&] { return handing_over == 0; });
}

Sensors::Sensors(std::vector<std::unique_ptr<Sensor>> sensors, io::Clock& clock, InputFor input, OnReport on_report,
                 SensorsOptions options)
    : shared_(std::make_shared<Shared>(clock, std::move(input), std::move(on_report), options.threads)) {
  shared_->take(std::move(sensors));
  tick();
}

Sensors::~Sensors() { shared_->end(); }

std::shared_ptr<Sensors::Shared> Sensors::shared() const {
  const std::lock_guard lock(which_);
  return shared_;
}

void Sensors::replace(std::vector<std::unique_ptr<Sensor>> sensors) {
  const auto before = shared();
  before->end();
  auto next = std::make_shared<Shared>(before->clock, before->input, before->on_report, before->wanted_threads);
  next->take(std::move(sensors));
  {
    const std::lock_guard lock(which_);
    shared_ = std::move(next);
  }
  tick();
}

void Sensors::tick() {
  const auto current = shared();
  std::unique_lock lock(current->mutex);
  const auto now = current->clock.monotonic();
  for (auto& entry : current->entries) {
    if (!entry.started || entry.reporting || now - *entry.started <= entry.sensor->patience()) continue;
    if (!entry.given_up) --current->free_threads;
    entry.given_up = true;
    current->hand_over(lock, entry, failed(hang_message(*entry.sensor, now - *entry.started)));
  }
  while (!current->stopped && current->free_threads < current->wanted_threads && !current->entries.empty()) {
    ++current->free_threads;
    if (start_thread(current)) continue;
    --current->free_threads;
    break;  // no thread to be had now: the next tick tries again
  }
}

void Sensors::ask_now() {
  const auto current = shared();
  const std::lock_guard lock(current->mutex);
  const auto now = current->clock.monotonic();
  if (now - current->asked_at < ask_pause) return;
  current->asked_at = now;
  for (auto& entry : current->entries) entry.due = std::min(entry.due, now);
  current->wake.notify_all();
}

bool Sensors::all_asked() const {
  const auto current = shared();
  const std::lock_guard lock(current->mutex);
  for (const auto& entry : current->entries)
    if (!entry.reported) return false;
  return true;
}

bool is_essential(std::string_view sensor) { return sensor == "kmsg" || sensor == "nvml" || sensor == "amd"; }

}  // namespace homeostat::agent
