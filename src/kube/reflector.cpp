#include "kube/reflector.hpp"

#include <algorithm>

namespace homeostat::kube {
namespace {
constexpr Duration first_backoff{800};
constexpr Duration max_backoff{30'000};
constexpr Duration healthy_after{120'000};
constexpr Duration shortest_watch{1'000};  // one that ends sooner is a failure in disguise: do not spin
}  // namespace

Duration Backoff::next(Duration now, io::Random& random) {
  const bool recovered = healthy_since_ && now - *healthy_since_ >= reset_after_;
  healthy_since_.reset();
  current_ = current_ == Duration{0} || recovered ? first_ : std::min(max_, current_ * 2);
  const auto jitter =
      Duration{static_cast<Duration::rep>(random.next() % static_cast<std::uint64_t>(current_.count() + 1))};
  return std::min(max_, current_ + jitter);
}

Reflector::Reflector(io::Random& random) : random_(random), backoff_(first_backoff, max_backoff, healthy_after) {}

Reflector::Action Reflector::next(Duration now) {
  switch (state_) {
    case State::waiting:
      state_ = after_wait_;
      return {.what = Do::wait, .delay = delay_};
    case State::empty:
    case State::listing:
      state_ = State::listing;
      return {.what = Do::list, .resource_version = list_version_};
    case State::watching:
      watch_started_ = now;
      backoff_.start_health(now);
      // The server ends the watch after 5 to 10 minutes, spread so that not all clients come back at once.
      return {.what = Do::watch,
              .resource_version = resource_version_,
              .timeout = std::chrono::seconds(300 + random_.next() % 301)};
  }
  return {};
}

void Reflector::wait(Duration delay, State then) {
  delay_ = delay;
  after_wait_ = then;
  state_ = State::waiting;
}

void Reflector::listed(std::string resource_version, Duration now) {
  resource_version_ = std::move(resource_version);
  list_version_ = resource_version_;
  state_ = State::watching;
  backoff_.start_health(now);
}

void Reflector::list_failed(const Error& error, Duration now) {
  // 410, or a version that the server cannot have: ask for the newest instead, through quorum.
  if (error.kind == ErrorKind::gone || error.kind == ErrorKind::throttled) {
    const bool was_newest = list_version_.empty();
    if (error.kind == ErrorKind::gone) list_version_.clear();
    if (error.kind == ErrorKind::gone && !was_newest) {
      state_ = State::listing;
      return;
    }
  }
  const Duration delay = backoff_.next(now, random_);
  wait(std::max(delay, error.retry_after.value_or(Duration{0})), State::listing);
}

void Reflector::seen(std::string resource_version) {
  if (!resource_version.empty()) resource_version_ = std::move(resource_version);
}

void Reflector::watch_ended(Duration now) {
  if (now - watch_started_ < shortest_watch)
    wait(backoff_.next(now, random_), State::watching);
  else
    state_ = State::watching;
}

void Reflector::watch_failed(const Error& error, Duration now) {
  const Duration delay = std::max(backoff_.next(now, random_), error.retry_after.value_or(Duration{0}));
  if (error.kind == ErrorKind::gone) {
    list_version_ = resource_version_;  // client-go: first at the last version seen, then at the newest
    wait(delay, State::listing);
  } else {
    wait(delay, State::watching);
  }
}

}  // namespace homeostat::kube
