#include "cli/train_log.hpp"

#include <charconv>
#include <optional>

namespace homeostat::cli {
namespace {

std::optional<int> number_at(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

// "SIGTERM received at step 17" with prefix "SIGTERM received at step " gives 17.
std::optional<int> number_after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return number_at(text.substr(prefix.size()));
}

// "rank 1 of 2 on gpu-abcde, restart 1"
bool read_placed(std::string_view message, TrainEvent& event) {
  const auto on = message.find(" on "), restart = message.find(", restart ");
  if (!message.starts_with("rank ") || on == message.npos || restart == message.npos || restart < on) return false;
  const auto count = number_at(message.substr(restart + 10));
  if (!count) return false;
  event.kind = TrainEvent::Kind::placed;
  event.node = message.substr(on + 4, restart - on - 4);
  event.step = *count;
  return true;
}

bool read_message(std::string_view message, TrainEvent& event) {
  using Kind = TrainEvent::Kind;
  struct Row {
    std::string_view prefix;
    Kind kind;
  };
  static constexpr Row rows[] = {{"step ", Kind::step},
                                 {"starting at step ", Kind::started},
                                 {"SIGTERM received at step ", Kind::sigterm},
                                 {"checkpoint saved at step ", Kind::saved},
                                 {"resumed from step ", Kind::resumed},
                                 {"finished at step ", Kind::finished},
                                 {"lost a peer after step ", Kind::lost_peer}};
  for (const auto& row : rows) {
    if (const auto step = number_after(message, row.prefix)) {
      event.kind = row.kind;
      event.step = *step;
      return true;
    }
  }
  return read_placed(message, event);
}

std::optional<TrainEvent> read_line(std::string_view line) {
  const auto rank_at = line.find(" rank ");
  if (rank_at == line.npos) return std::nullopt;
  const auto time = parse_rfc3339(line.substr(0, rank_at));
  const auto rest = line.substr(rank_at + 6);
  const auto colon = rest.find(": ");
  const auto rank = number_at(rest);
  if (!time || !rank || colon == rest.npos) return std::nullopt;
  TrainEvent event;
  event.at = *time;
  event.rank = *rank;
  if (!read_message(rest.substr(colon + 2), event)) return std::nullopt;
  return event;
}

}  // namespace

std::vector<TrainEvent> parse_train_log(std::string_view text) {
  std::vector<TrainEvent> events;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == text.npos) break;  // the last line is still being written
    if (auto event = read_line(text.substr(0, end))) events.push_back(std::move(*event));
    text.remove_prefix(end + 1);
  }
  return events;
}

}  // namespace homeostat::cli
