#include "core/fault/flap.hpp"

#include <algorithm>
#include <limits>

namespace homeostat::fault {

std::uint64_t RisingCounter::take(std::optional<std::uint64_t> value) {
  reset_ = false;
  if (!value) return 0;
  if (!last_) {
    last_ = value;
    return 0;
  }
  const auto was = *last_, is = *value;
  const auto before_fall = before_fall_;
  before_fall_.reset();
  last_ = is;
  if (before_fall && is >= *before_fall) return is - *before_fall;
  if (is >= was) return is - was;
  constexpr std::uint64_t top32 = std::numeric_limits<std::uint32_t>::max();
  constexpr std::uint64_t near = 1ull << 28;
  const bool wrap64 = was > std::numeric_limits<std::uint64_t>::max() - near && is < near;
  const bool wrap32 = was <= top32 && was > top32 - near && is < near;
  if (wrap64) return is - was;  // modulo 2^64
  if (wrap32) return (is + top32 + 1) - was;
  before_fall_ = was;
  reset_ = true;
  return 0;
}

void RateWatch::add(const RateRule& rule, Duration now, std::uint64_t events) {
  const auto width = rule.window / 16;
  if (used_ > 0) {
    auto& newest = ring_[(first_ + used_ - 1) % ring_.size()];
    if (now - newest.start < width || used_ == ring_.size()) {
      newest.events += events;
      return;
    }
  }
  ring_[(first_ + used_) % ring_.size()] = {now, events};
  ++used_;
}

void RateWatch::forget(const RateRule& rule, Duration now) {
  while (used_ > 0 && now - ring_[first_].start >= rule.window) {
    sum_ -= ring_[first_].events;
    first_ = (first_ + 1) % ring_.size();
    --used_;
  }
}

bool RateWatch::observe(const RateRule& rule, Duration now, std::uint64_t events) {
  const auto since = looked_ ? now - last_look_ : Duration(0);
  if (events > 0 && since > rule.window) {
    const double share = static_cast<double>(rule.window.count()) / static_cast<double>(since.count());
    events = static_cast<std::uint64_t>(static_cast<double>(events) * share);
  }
  // A counter that jumps by an absurd amount must not wrap the sum.
  events = std::min<std::uint64_t>(events, 1ull << 48);
  last_look_ = now;
  looked_ = true;
  forget(rule, now);
  if (events > 0) {
    add(rule, now, events);
    sum_ += events;
    last_event_ = now;
  }
  if (sum_ >= rule.enter)
    active_ = true;
  else if (active_ && now - last_event_ >= rule.quiet)
    active_ = false;
  return active_;
}

bool Continuity::observe(bool bad, Duration now, Duration hold, Duration quiet) {
  if (bad) {
    good_since_.reset();
    if (!bad_since_) bad_since_ = now;
    if (now - *bad_since_ >= hold) active_ = true;
    return active_;
  }
  if (!active_) {
    bad_since_.reset();
    return false;
  }
  if (!good_since_) good_since_ = now;
  if (now - *good_since_ >= quiet) clear();
  return active_;
}

}  // namespace homeostat::fault
