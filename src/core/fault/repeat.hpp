// What is tolerated once and not for ever: how often a finding has come within a window. The memory of it outlives the
// finding's resolution (a reset in between), not a boot. Bounded; one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

// A row of catalog/policy.tsv, with what counts as one occurrence.
struct RepeatLimit {
  std::uint32_t count = 0;
  Duration window{0};
  Duration apart{0};  // occurrences closer than this are one: the lines of one event; 0: every line counts
  RepairClass then = RepairClass::watch;
  bool one_device_only = false;  // when other devices have it as often, it is the program and not the device
};

// nullopt: its repetition means nothing.
std::optional<RepeatLimit> repeat_limit_of(const Finding& finding);

class RepeatHistory {
 public:
  static constexpr size_t max_ids = 128;
  static constexpr size_t buckets = 6;

  struct Record {
    std::string id;                               // of the finding
    std::int64_t bucket = 0;                      // the newest one, in sixths of the window since the epoch
    std::array<std::uint32_t, buckets> counts{};  // the newest first
    TimePoint last{};
    bool raised = false;
  };

  void add(std::string_view id, const RepeatLimit& limit, TimePoint seen, std::uint32_t times);
  // Raised from `count` within the window on, until less than half of it is left.
  bool weigh(std::string_view id, const RepeatLimit& limit, TimePoint now);
  const std::vector<Record>& records() const { return records_; }
  void restore(std::vector<Record> records);
  void clear() { records_.clear(); }

 private:
  Record* find(std::string_view id);
  bool shared(const Record& record) const;

  std::vector<Record> records_;
};

}  // namespace homeostat::fault
