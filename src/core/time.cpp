#include "core/time.hpp"

#include <cstdint>
#include <cstdio>

namespace homeostat {
namespace {

// Reads exactly `digits` decimal digits at `at`; nullopt if any is missing.
std::optional<int> read_digits(std::string_view text, size_t at, int digits) {
  int value = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    if (at >= text.size() || text[at] < '0' || text[at] > '9') return std::nullopt;
    value = value * 10 + (text[at] - '0');
  }
  return value;
}

bool is_char(std::string_view text, size_t at, std::string_view any_of) {
  return at < text.size() && any_of.find(text[at]) != std::string_view::npos;
}

}  // namespace

std::string format_rfc3339(TimePoint time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const auto ms = (time - day).count();
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), static_cast<int>(ms / 3600000),
                static_cast<int>(ms / 60000 % 60), static_cast<int>(ms / 1000 % 60), static_cast<int>(ms % 1000));
  return buffer;
}

std::optional<TimePoint> parse_rfc3339(std::string_view text) {
  const auto year = read_digits(text, 0, 4), month = read_digits(text, 5, 2), day = read_digits(text, 8, 2);
  const auto hour = read_digits(text, 11, 2), minute = read_digits(text, 14, 2), second = read_digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  if (!is_char(text, 4, "-") || !is_char(text, 7, "-") || !is_char(text, 10, "Tt ") || !is_char(text, 13, ":") ||
      !is_char(text, 16, ":"))
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{*year}, std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;

  size_t at = 19;
  int ms = 0;
  if (is_char(text, at, ".")) {
    ++at;
    int digits = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++digits)
      if (digits < 3) ms = ms * 10 + (text[at] - '0');
    if (digits == 0) return std::nullopt;
    for (; digits < 3; ++digits) ms *= 10;
  }
  int offset_minutes = 0;
  if (is_char(text, at, "Zz")) {
    ++at;
  } else if (is_char(text, at, "+-")) {
    const auto offset_hour = read_digits(text, at + 1, 2), offset_minute = read_digits(text, at + 4, 2);
    if (!offset_hour || !offset_minute || !is_char(text, at + 3, ":")) return std::nullopt;
    offset_minutes = (*offset_hour * 60 + *offset_minute) * (text[at] == '-' ? -1 : 1);
    at += 6;
  } else {
    return std::nullopt;
  }
  if (at != text.size()) return std::nullopt;
  return TimePoint{std::chrono::sys_days{date}} + std::chrono::hours{*hour} + std::chrono::minutes{*minute} +
         std::chrono::seconds{*second} + Duration{ms} - std::chrono::minutes{offset_minutes};
}

std::string format_duration(Duration duration) {
  const std::int64_t ms = duration.count();
  if (ms < 0) return "-" + format_duration(-duration);
  char buffer[48];
  if (ms < 60'000) {
    std::snprintf(buffer, sizeof buffer, "%.1fs", static_cast<double>(ms) / 1000.0);
  } else if (ms < 3'600'000) {
    std::snprintf(buffer, sizeof buffer, "%dm%02ds", static_cast<int>(ms / 60'000), static_cast<int>(ms / 1000 % 60));
  } else {
    std::snprintf(buffer, sizeof buffer, "%dh%02dm", static_cast<int>(ms / 3'600'000),
                  static_cast<int>(ms / 60'000 % 60));
  }
  return buffer;
}

}  // namespace homeostat
