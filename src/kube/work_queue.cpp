#include "kube/work_queue.hpp"

#include <algorithm>
#include <cmath>

namespace homeostat::kube {
namespace {
constexpr Duration first_backoff{5};
constexpr Duration max_backoff{60'000};
constexpr double failures_per_second = 10;
constexpr double failure_burst = 100;
}  // namespace

void WorkQueueCore::add(const ObjectKey& key) {
  if (const auto waiting = due_.find(key); waiting != due_.end()) {  // due now: no need to wait for the later date
    waiting_.erase({waiting->second, key});
    due_.erase(waiting);
  }
  if (processing_.contains(key)) {
    dirty_.insert(key);
    return;
  }
  if (queued_.insert(key).second) queue_.push_back(key);
}

void WorkQueueCore::add_after(const ObjectKey& key, Duration delay, Duration now) {
  if (delay <= Duration{0}) return add(key);
  if (queued_.contains(key) || dirty_.contains(key)) return;  // sooner already
  const Duration due = now + delay;
  const auto [entry, fresh] = due_.try_emplace(key, due);
  if (!fresh) {
    if (entry->second <= due) return;
    waiting_.erase({entry->second, key});
    entry->second = due;
  }
  waiting_.insert({due, key});
}

void WorkQueueCore::add_failed(const ObjectKey& key, Duration now, io::Random& random) {
  const int failures = failures_[key]++;
  // 5 ms x 2^14 is beyond the cap already; the bound keeps the shift defined.
  Duration delay = std::min(max_backoff, first_backoff * (1 << std::min(failures, 14)));
  delay = std::min(
      max_backoff,
      delay + Duration{static_cast<Duration::rep>(random.next() % static_cast<std::uint64_t>(delay.count() / 2 + 1))});
  const double seconds = std::max(0.0, std::chrono::duration<double>(now - failure_tokens_at_).count());
  failure_tokens_ = std::min(failure_burst, failure_tokens_ + seconds * failures_per_second) - 1;
  failure_tokens_at_ = std::max(failure_tokens_at_, now);
  if (failure_tokens_ < 0)
    delay =
        std::max(delay, Duration{static_cast<Duration::rep>(std::ceil(-failure_tokens_ / failures_per_second * 1000))});
  add_after(key, delay, now);
}

void WorkQueueCore::forget(const ObjectKey& key) { failures_.erase(key); }

void WorkQueueCore::promote_due(Duration now) {
  while (!waiting_.empty() && waiting_.begin()->first <= now) {
    const ObjectKey key = waiting_.begin()->second;
    add(key);  // also takes it out of the waiting ones
  }
}

std::optional<ObjectKey> WorkQueueCore::take(Duration now) {
  promote_due(now);
  if (queue_.empty()) return std::nullopt;
  ObjectKey key = std::move(queue_.front());
  queue_.pop_front();
  queued_.erase(key);
  processing_.insert(key);
  return key;
}

void WorkQueueCore::done(const ObjectKey& key) {
  processing_.erase(key);
  if (dirty_.erase(key) > 0) add(key);
}

std::optional<Duration> WorkQueueCore::next_due() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first;
}

void WorkQueue::add(const ObjectKey& key) {
  std::lock_guard lock(mutex_);
  core_.add(key);
  changed_.notify_all();
}

void WorkQueue::add_after(const ObjectKey& key, Duration delay) {
  std::lock_guard lock(mutex_);
  core_.add_after(key, delay, clock_.monotonic());
  changed_.notify_all();
}

void WorkQueue::add_failed(const ObjectKey& key) {
  std::lock_guard lock(mutex_);
  core_.add_failed(key, clock_.monotonic(), random_);
  changed_.notify_all();
}

void WorkQueue::forget(const ObjectKey& key) {
  std::lock_guard lock(mutex_);
  core_.forget(key);
}

void WorkQueue::done(const ObjectKey& key) {
  std::lock_guard lock(mutex_);
  core_.done(key);
  changed_.notify_all();
}

std::optional<ObjectKey> WorkQueue::take(std::stop_token stop) {
  constexpr Duration longest_wait{
      1'000};  // a bound, and what a clock that is not the system's needs to be looked at again
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const Duration now = clock_.monotonic();
    if (auto key = core_.take(now)) return key;
    const auto due = core_.next_due();
    const Duration wait = due ? std::clamp(*due - now, Duration{1}, longest_wait) : longest_wait;
    // Woken by a change, the stop request or the time; whatever it was, look again. A bare predicate would sleep
    // through changes.
    changed_.wait_for(lock, stop, wait, [&, due] { return core_.ready() || core_.next_due() != due; });
  }
  return std::nullopt;
}

std::optional<ObjectKey> WorkQueue::try_take() {
  std::lock_guard lock(mutex_);
  return core_.take(clock_.monotonic());
}

std::optional<Duration> WorkQueue::next_due() const {
  std::lock_guard lock(mutex_);
  if (core_.ready()) return clock_.monotonic();
  return core_.next_due();
}

size_t WorkQueue::size() const {
  std::lock_guard lock(mutex_);
  return core_.size();
}

}  // namespace homeostat::kube
