#include "core/fault/repeat.hpp"

#include <algorithm>
#include <numeric>

#include "core/fault/catalog.hpp"

namespace homeostat::fault {

namespace {

constexpr Duration moment{1'000}, minute{60'000}, day{86'400'000};
constexpr std::uint32_t many = 100;  // a limit that high counts lines, a low one events

std::int64_t bucket_of(TimePoint time, const RepeatLimit& limit) {
  const auto width =
      std::max<std::int64_t>(1, limit.window.count() / static_cast<std::int64_t>(RepeatHistory::buckets));
  return time.time_since_epoch().count() / width;
}

// Moves a record's window on to `bucket`. A clock that was set back changes nothing.
void advance(RepeatHistory::Record& record, std::int64_t bucket) {
  const auto steps = bucket - record.bucket;
  if (steps <= 0) return;
  const auto shift = static_cast<size_t>(std::min<std::int64_t>(steps, RepeatHistory::buckets));
  std::move_backward(record.counts.begin(), record.counts.end() - static_cast<std::ptrdiff_t>(shift),
                     record.counts.end());
  std::fill_n(record.counts.begin(), shift, 0U);
  record.bucket = bucket;
}

std::uint64_t total(const RepeatHistory::Record& record) {
  return std::accumulate(record.counts.begin(), record.counts.end(), std::uint64_t{0});
}

std::string_view kind_of(std::string_view id) { return id.substr(0, id.find('@')); }

}  // namespace

std::optional<RepeatLimit> repeat_limit_of(const Finding& finding) {
  const auto* decision = Catalog::instance().decision(finding.component, finding.code);
  if (!decision || !decision->repeat) return std::nullopt;
  const auto& rule = *decision->repeat;
  RepeatLimit limit{rule.count, Duration(rule.window_s * 1'000), moment, rule.then, rule.different_jobs};
  // One crash prints a line for each channel or processor, and a job that is started anew needs longer than a minute.
  if (rule.different_jobs || limit.window >= day) limit.apart = minute;
  if (rule.count >= many) limit.apart = Duration(0);
  return limit;
}

RepeatHistory::Record* RepeatHistory::find(std::string_view id) {
  const auto known = std::find_if(records_.begin(), records_.end(), [&](const Record& r) { return r.id == id; });
  return known == records_.end() ? nullptr : &*known;
}

void RepeatHistory::add(std::string_view id, const RepeatLimit& limit, TimePoint seen, std::uint32_t times) {
  auto* record = find(id);
  if (!record) {
    if (records_.size() >= max_ids)
      records_.erase(std::min_element(records_.begin(), records_.end(),
                                      [](const Record& a, const Record& b) { return a.last < b.last; }));
    record = &records_.emplace_back();
    record->id = id;
    record->bucket = bucket_of(seen, limit);
  } else if (limit.apart > Duration(0) && std::chrono::abs(seen - record->last) < limit.apart) {
    record->last = seen;
    return;
  }
  advance(*record, bucket_of(seen, limit));
  record->last = seen;  // also when the clock was set back: what comes now is told apart by the clock of now
  const auto step = limit.apart > Duration(0) ? 1U : times;
  auto& newest = record->counts.front();
  newest += std::min(step, ~newest);  // stays at its largest instead of wrapping round
}

// Does another device have it about as often?
bool RepeatHistory::shared(const Record& record) const {
  const auto own = total(record);
  return std::any_of(records_.begin(), records_.end(), [&](const Record& other) {
    return &other != &record && kind_of(other.id) == kind_of(record.id) && total(other) * 2 >= own;
  });
}

bool RepeatHistory::weigh(std::string_view id, const RepeatLimit& limit, TimePoint now) {
  auto* record = find(id);
  if (!record) return false;
  advance(*record, bucket_of(now, limit));
  const auto count = total(*record);
  record->raised = record->raised ? count * 2 >= limit.count : count >= limit.count;
  if (limit.one_device_only && record->raised && shared(*record)) record->raised = false;
  return record->raised;
}

void RepeatHistory::restore(std::vector<Record> records) {
  if (records.size() > max_ids) records.resize(max_ids);
  records_ = std::move(records);
}

}  // namespace homeostat::fault
