#include "io/nvml_links.hpp"

#include <algorithm>
#include <utility>

namespace homeostat::io::nvml {

namespace {

using fault::NvLinkReading;
using Counter = std::optional<std::uint64_t> NvLinkReading::*;

// `l6` is 0 where the id takes the link as its scope. Of several families that count the same thing the first that
// answers is taken; within a family the figures add up.
struct LinkField {
  Counter into;
  unsigned id, l6;
  int family;
};

constexpr std::array<LinkField, Links::counters> fields = {{
    {&NvLinkReading::replay, field_nvlink_replay, 0, 0},
    {&NvLinkReading::recovery, field_nvlink_recovery, 0, 0},
    {&NvLinkReading::crc, field_nvlink_crc, 0, 0},
    {&NvLinkReading::crc, field_nvlink5_receive_errors, 0, 1},
    {&NvLinkReading::unrecovered, field_nvlink5_unrecovered, 0, 1},
    {&NvLinkReading::recovery, field_nvlink5_recoveries, 0, 1},
    {&NvLinkReading::symbol, field_nvlink5_effective_errors, 0, 1},
    {&NvLinkReading::crc, field_crc_flit_l0, field_crc_flit_l6, 2},
    {&NvLinkReading::crc, field_crc_data_l0, field_crc_data_l6, 2},
    {&NvLinkReading::replay, field_replay_l0, field_replay_l6, 2},
    {&NvLinkReading::recovery, field_recovery_l0, field_recovery_l6, 2},
}};

constexpr unsigned links_with_own_ids = 12, links_guessed = 18;

bool covers(const LinkField& field, unsigned link) { return field.l6 == 0 || link < links_with_own_ids; }

FieldValue question(const LinkField& field, unsigned link) {
  FieldValue value{};
  if (field.l6 == 0) {
    value.field_id = field.id;
    value.scope_id = link;
  } else {
    value.field_id = link < 6 ? field.id + link : field.l6 + (link - 6);
  }
  return value;
}

// States by field; false when the driver knows none of them.
bool states_by_field(const Functions& call, Handle handle, Ask& ask, unsigned count,
                     std::vector<NvLinkReading>& links) {
  std::array<FieldValue, fault::max_nvlinks> values{};
  for (unsigned link = 0; link < count; ++link) {
    values[link].field_id = field_nvlink_state;
    values[link].scope_id = link;
  }
  if (!ask("state of the NVLinks", call.field_values, handle, static_cast<int>(count), values.data())) return false;
  for (unsigned link = 0; link < count; ++link)
    if (ask.settle("state of an NVLink", values[link].result))
      links.push_back({link, unsigned_of(values[link]).value_or(0) == 1, {}, {}, {}, {}, {}});
  return !links.empty();
}

void states_one_by_one(const Functions& call, Handle handle, Ask& ask, unsigned count,
                       std::vector<NvLinkReading>& links) {
  for (unsigned link = 0; link < count; ++link)
    if (const auto active = ask.number<int>("state of an NVLink", call.nvlink_state, handle, link))
      links.push_back({link, *active == 1, {}, {}, {}, {}, {}});
    else if (link == 0)
      return;  // this GPU has none, or cannot say
}

}  // namespace

std::vector<NvLinkReading> Links::read(const Functions& call, Handle handle, Ask& ask, std::optional<unsigned> count) {
  std::vector<NvLinkReading> links;
  const unsigned there = std::min(count.value_or(links_guessed), fault::max_nvlinks);
  if (there == 0) return links;
  links.reserve(there);
  if (!states_by_field(call, handle, ask, there, links)) states_one_by_one(call, handle, ask, there, links);
  const auto up = std::find_if(links.begin(), links.end(), [](const NvLinkReading& link) { return link.up; });
  if (up == links.end()) return links;
  if (!learned_) learn_counters(call, handle, ask, up->link);
  if (std::find(offered_.begin(), offered_.end(), true) != offered_.end())
    read_counters(call, handle, ask, links);
  else
    read_counters_one_by_one(call, handle, ask, links);
  return links;
}

void Links::learn_counters(const Functions& call, Handle handle, Ask& ask, unsigned link) {
  std::array<FieldValue, counters> values{};
  for (size_t i = 0; i < counters; ++i) values[i] = question(fields[i], link);
  if (!ask("counters of an NVLink", call.field_values, handle, static_cast<int>(counters), values.data())) return;
  learned_ = true;
  for (size_t i = 0; i < counters; ++i) {
    bool wanted = values[i].result == success && covers(fields[i], link);
    for (size_t before = 0; before < i && wanted; ++before)
      wanted = !offered_[before] || fields[before].into != fields[i].into || fields[before].family == fields[i].family;
    offered_[i] = wanted;
  }
}

void Links::read_counters(const Functions& call, Handle handle, Ask& ask, std::vector<NvLinkReading>& links) const {
  struct Target {
    size_t link, field;
  };
  std::array<FieldValue, max_batch> values{};
  std::array<Target, max_batch> targets{};
  size_t filled = 0;
  const auto flush = [&] {
    const size_t count = std::exchange(filled, 0);
    if (count == 0) return;
    if (!ask("counters of the NVLinks", call.field_values, handle, static_cast<int>(count), values.data())) return;
    for (size_t i = 0; i < count; ++i) {
      if (!ask.settle("counter of an NVLink", values[i].result)) continue;
      auto& into = links[targets[i].link].*fields[targets[i].field].into;
      if (const auto value = unsigned_of(values[i])) into = into.value_or(0) + *value;
    }
  };
  for (size_t link = 0; link < links.size(); ++link)
    for (size_t field = 0; field < counters; ++field) {
      if (!offered_[field] || !covers(fields[field], links[link].link)) continue;
      targets[filled] = {link, field};
      values[filled++] = question(fields[field], links[link].link);
      if (filled == max_batch) flush();
    }
  flush();
}

void Links::read_counters_one_by_one(const Functions& call, Handle handle, Ask& ask,
                                     std::vector<NvLinkReading>& links) const {
  for (auto& link : links) {
    const auto count = [&](int counter) -> std::optional<std::uint64_t> {
      return ask.number<unsigned long long>("counter of an NVLink", call.nvlink_errors, handle, link.link, counter);
    };
    link.replay = count(nvlink_replay);
    link.recovery = count(nvlink_recovery);
    link.crc = count(nvlink_crc_flit);
    if (const auto data = count(nvlink_crc_data)) link.crc = link.crc.value_or(0) + *data;
  }
}

}  // namespace homeostat::io::nvml
