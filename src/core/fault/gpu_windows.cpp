#include "core/fault/gpu_windows.hpp"

#include <algorithm>
#include <numeric>

namespace homeostat::fault {

bool Lasting::update(bool active, Duration elapsed, Duration hold) {
  if (remembered_) level_ = hold;
  remembered_ = false;
  level_ = std::clamp(active ? level_ + elapsed : level_ - elapsed / 2, Duration(0), hold);
  if (active && level_ >= hold) raised_ = true;
  if (!active && level_ <= Duration(0)) raised_ = false;
  return raised_;
}

std::uint64_t Growth::add(std::optional<std::uint64_t> value, Duration now, Duration window) {
  const auto step = std::max<std::int64_t>(window.count() / static_cast<std::int64_t>(buckets), 1);
  const auto bucket = now.count() / step;
  const auto passed = bucket - bucket_;
  if (passed < 0 || passed >= static_cast<std::int64_t>(buckets)) {
    grown_.fill(0);
  } else {
    for (auto b = bucket_ + 1; b <= bucket; ++b) grown_[static_cast<size_t>(b) % buckets] = 0;
  }
  bucket_ = bucket;
  if (value) {
    if (last_) grown_[static_cast<size_t>(bucket) % buckets] += *value >= *last_ ? *value - *last_ : *value;
    last_ = value;
  }
  return within();
}

std::uint64_t Growth::within() const { return std::accumulate(grown_.begin(), grown_.end(), std::uint64_t{0}); }

bool Growing::update(std::optional<std::uint64_t> value, Duration now, Duration window, std::uint64_t limit) {
  if (!since_) since_ = now;
  const auto grown = growth_.add(value, now, window);
  if (remembered_ && now - *since_ >= window) remembered_ = false;
  if (grown >= limit)
    raised_ = true;
  else if (grown < (limit + 1) / 2 && !remembered_)
    raised_ = false;
  return raised_;
}

}  // namespace homeostat::fault
