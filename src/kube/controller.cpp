#include "kube/controller.hpp"

#include <boost/json.hpp>
#include <exception>
#include <thread>

#include "io/log.hpp"

namespace homeostat::kube {

Controller::Controller(std::string name, Reconciler& reconciler, io::Clock& clock, io::Random& random,
                       ControllerOptions options)
    : name_(std::move(name)), reconciler_(reconciler), options_(options), queue_(clock, random) {}

void Controller::watch(Informer& informer, MapFunction map) {
  informers_.push_back(&informer);
  informer.subscribe([this, map = std::move(map)](const ObjectKey& key, const ObjectPtr& old, const ObjectPtr& now) {
    if (!map) return queue_.add(key);
    for (const auto& ours : map(key, old, now)) queue_.add(ours);
  });
}

void Controller::enqueue(const ObjectKey& key) { queue_.add(key); }
void Controller::enqueue_after(const ObjectKey& key, Duration delay) { queue_.add_after(key, delay); }
std::optional<Duration> Controller::next_due() const { return queue_.next_due(); }

namespace {
// An exception is a bug of the reconciler or of a library; it must not take the other keys down.
Result<ReconcileResult> guarded(Reconciler& reconciler, const ObjectKey& key, std::stop_token stop) {
  try {
    return reconciler.reconcile(key, stop);
  } catch (const std::exception& error) {
    return fail(ErrorKind::internal, std::string("an exception: ") + error.what());
  }
}
}  // namespace

void Controller::process(const ObjectKey& key, std::stop_token stop) {
  const auto result = guarded(reconciler_, key, stop);
  if (result) {
    queue_.forget(key);
    if (result->requeue_after) queue_.add_after(key, *result->requeue_after);
  } else if (result.error().kind == ErrorKind::invalid) {
    queue_.forget(key);
    queue_.add_after(key, options_.refused_retry);
    io::log_error("refused; will try again slowly",
                  {{"controller", name_}, {"object", to_string(key)}, {"error", result.error().message}});
  } else if (!stop.stop_requested()) {
    // A conflict is the normal end of a race: no noise about it.
    const auto level = result.error().kind == ErrorKind::conflict ? io::LogLevel::debug : io::LogLevel::warn;
    io::log(level, "failed; will try again",
            {{"controller", name_}, {"object", to_string(key)}, {"error", result.error().message}});
    if (result.error().retry_after && result.error().kind == ErrorKind::throttled)
      queue_.add_after(key, *result.error().retry_after);
    else
      queue_.add_failed(key);
  }
  queue_.done(key);
}

bool Controller::wait_informers(std::stop_token stop) {
  for (Informer* informer : informers_) {
    while (!informer->wait_synced(options_.sync_log_every, stop)) {
      if (stop.stop_requested()) return false;
      io::log_warn("still waiting for the first list",
                   {{"controller", name_}, {"resource", informer->resource().plural}});
    }
  }
  return true;
}

void Controller::run(std::stop_token stop) {
  if (!wait_informers(stop)) return;
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<size_t>(options_.workers));
  for (int i = 0; i < options_.workers; ++i)
    workers.emplace_back([this, stop] {
      while (auto key = queue_.take(stop)) process(*key, stop);
    });
}

bool Controller::run_one(std::stop_token stop) {
  const auto key = queue_.try_take();
  if (!key) return false;
  process(*key, stop);
  return true;
}

}  // namespace homeostat::kube
