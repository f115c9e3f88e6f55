// Wall-clock instants with millisecond resolution, and their RFC 3339 text. Core never asks what time it is: `now` is
// passed in.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace homeostat {

using Duration = std::chrono::milliseconds;
using TimePoint = std::chrono::sys_time<Duration>;

// "2026-11-30T05:49:34.123Z": always UTC, always three decimals, so that texts sort as instants do.
std::string format_rfc3339(TimePoint time);

// Accepts any RFC 3339 instant (Z or an offset, 0 to 9 decimals; digits beyond milliseconds are cut).
std::optional<TimePoint> parse_rfc3339(std::string_view text);

// "1.2s", "3m05s", "2h10m": for people.
std::string format_duration(Duration duration);

}  // namespace homeostat
