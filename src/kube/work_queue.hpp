// The queue in front of a reconciler: each key waits at most once, is never handed to two workers at a time, and comes
// back later each time it fails (5 ms, doubled, to 60 s, with jitter; the failures of all keys together: 10 per second
// after a burst of 100). Holds at most one entry per key, so its size is bounded by the number of objects. Core is
// pure; WorkQueue adds lock and wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>

#include "io/clock.hpp"
#include "kube/object_key.hpp"

namespace homeostat::kube {

// `now` is monotonic everywhere.
class WorkQueueCore {
 public:
  void add(const ObjectKey& key);  // due now; while it is processed: once more afterwards
  void add_after(const ObjectKey& key, Duration delay, Duration now);       // the earlier of two wins
  void add_failed(const ObjectKey& key, Duration now, io::Random& random);  // after the key's backoff
  void forget(const ObjectKey& key);                                        // success: the backoff starts over
  std::optional<ObjectKey> take(Duration now);                              // oldest due key, now being processed
  void done(const ObjectKey& key);                                          // every taken key, however it went
  std::optional<Duration> next_due() const;                                 // of the waiting ones
  bool ready() const { return !queue_.empty(); }
  size_t size() const { return queue_.size() + waiting_.size(); }

 private:
  void promote_due(Duration now);

  std::deque<ObjectKey> queue_;
  std::set<ObjectKey> queued_;  // what queue_ holds
  std::set<ObjectKey> processing_;
  std::set<ObjectKey> dirty_;                         // added while processing
  std::map<ObjectKey, Duration> due_;                 // waiting: when
  std::set<std::pair<Duration, ObjectKey>> waiting_;  // the same by time
  std::map<ObjectKey, int> failures_;
  double failure_tokens_ = 100;
  Duration failure_tokens_at_{0};
};

class WorkQueue {
 public:
  WorkQueue(io::Clock& clock, io::Random& random) : clock_(clock), random_(random) {}

  void add(const ObjectKey& key);
  void add_after(const ObjectKey& key, Duration delay);
  void add_failed(const ObjectKey& key);
  void forget(const ObjectKey& key);
  void done(const ObjectKey& key);
  std::optional<ObjectKey> take(std::stop_token stop);  // waits; nullopt: stopped
  std::optional<ObjectKey> try_take();                  // does not wait
  std::optional<Duration> next_due() const;
  size_t size() const;

 private:
  io::Clock& clock_;
  io::Random& random_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  WorkQueueCore core_;
};

}  // namespace homeostat::kube
