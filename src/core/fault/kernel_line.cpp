#include "core/fault/kernel_line.hpp"

#include <algorithm>
#include <iterator>

#include "core/fault/text.hpp"

namespace homeostat::fault {

std::optional<KmsgRecord> parse_kmsg_record(std::string_view record) {
  KmsgRecord parsed;
  const auto number_and_comma = [&record]() -> std::optional<std::uint64_t> {
    const auto value = take_number(record);
    if (!value || record.empty() || record.front() != ',') return std::nullopt;
    record.remove_prefix(1);
    return value;
  };
  const auto priority = number_and_comma();
  if (!priority || *priority > 0xffff) return std::nullopt;
  const auto sequence = number_and_comma();
  const auto uptime = sequence ? number_and_comma() : std::nullopt;
  if (!uptime) return std::nullopt;
  const auto semicolon = record.substr(0, 128).find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  record.remove_prefix(semicolon + 1);
  parsed.priority = static_cast<std::uint32_t>(*priority);
  parsed.sequence = *sequence;
  parsed.uptime_us = *uptime;
  parsed.text = trim(record.substr(0, record.find('\n')));
  return parsed;
}

namespace {

// hh:mm somewhere in the text, with at most two digits before the colon: a clock, not a PCI address.
bool has_clock(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon < 1 || colon + 2 >= text.size()) return false;
  if (!is_digit(text[colon - 1]) || !is_digit(text[colon + 1]) || !is_digit(text[colon + 2])) return false;
  return colon < 3 || !is_hex(text[colon - 3]);
}

std::optional<std::uint64_t> seconds_to_us(std::string_view text) {
  auto rest = trim(text);
  const auto seconds = take_number(rest);
  if (!seconds || *seconds > 10'000'000'000) return std::nullopt;
  std::uint64_t us = *seconds * 1'000'000;
  if (rest.empty()) return us;
  if (rest.front() != '.') return std::nullopt;
  rest.remove_prefix(1);
  for (std::uint64_t unit = 100'000; !rest.empty() && is_digit(rest.front()); unit /= 10, rest.remove_prefix(1))
    us += unit * static_cast<std::uint64_t>(rest.front() - '0');
  return rest.empty() ? std::optional(us) : std::nullopt;
}

bool is_time_text(std::string_view inside) {
  if (inside == "...") return true;
  bool digit = false;
  for (char c : inside) {
    digit |= is_digit(c);
    if (!is_digit(c) && c != '.' && c != ' ' && c != '+' && c != '<' && c != '>') return has_clock(inside);
  }
  return digit;
}

bool is_caller_text(std::string_view inside) {  // T1946 or C0
  inside = trim(inside);
  if (inside.size() < 2 || (inside[0] != 'T' && inside[0] != 'C')) return false;
  for (char c : inside.substr(1))
    if (!is_digit(c)) return false;
  return true;
}

// "[  123.456]", "[Sun Feb 23 16:24:18 2025]", "[  +0.000844]", "[  123.456 <    0.000844>]", "[ T1946]" at the front,
// taken off one after another.
bool strip_brackets(std::string_view& text, KernelLine& line) {
  bool any = false;
  for (int i = 0; i < 3; ++i) {
    text = skip_spaces(text);
    if (text.empty() || text.front() != '[') return any;
    const auto close = text.substr(0, 64).find(']');
    if (close == std::string_view::npos) return any;
    const auto inside = text.substr(1, close - 1);
    if (!is_caller_text(inside)) {
      if (!is_time_text(inside)) return any;
      if (!line.uptime_us) line.uptime_us = seconds_to_us(inside.substr(0, inside.find('<')));
    }
    text = text.substr(close + 1);
    if (text.starts_with(": ")) text.remove_prefix(1);  // Talos: "[2026-11-30T05:49:34Z]: text"
    any = true;
  }
  return any;
}

// "<3>": facility * 8 + level.
void strip_priority(std::string_view& text, KernelLine& line) {
  if (text.size() < 3 || text.front() != '<') return;
  auto rest = text.substr(1);
  const auto priority = take_number(rest);
  if (!priority || rest.empty() || rest.front() != '>' || *priority > 0xffff) return;
  if (*priority >> 3 != 0) line.from_kernel = false;
  text = rest.substr(1);
}

bool is_facility(std::string_view word) {
  static constexpr std::string_view names[] = {"kern",   "user",   "mail",   "daemon",   "auth",   "syslog", "lpr",
                                               "news",   "uucp",   "cron",   "authpriv", "ftp",    "local0", "local1",
                                               "local2", "local3", "local4", "local5",   "local6", "local7"};
  return std::ranges::find(names, word) != std::end(names);
}

bool is_level(std::string_view word) {
  static constexpr std::string_view names[] = {"emerg",  "alert", "crit",  "err",    "warn",
                                               "notice", "info",  "debug", "warning"};
  return std::ranges::find(names, word) != std::end(names);
}

// "kern  :err   : " of dmesg -x, "kern: warning: " of Talos. Any facility that is not kern is another program's word.
bool take_facility(std::string_view& text, KernelLine& line) {
  const auto field = [](std::string_view& rest) {
    const auto colon = rest.substr(0, 24).find(':');
    if (colon == std::string_view::npos) return std::string_view{};
    const auto value = trim(rest.substr(0, colon));
    rest = rest.substr(colon + 1);
    return value;
  };
  auto rest = text;
  const auto facility = field(rest);
  const auto level = field(rest);
  if (!is_facility(facility) || !is_level(level)) return false;
  if (facility != "kern") line.from_kernel = false;
  text = skip_spaces(rest);
  return true;
}

// Also behind the name of a node: "10.0.0.7: kern: warning: …".
bool strip_facility(std::string_view& text, KernelLine& line) {
  if (take_facility(text, line)) return true;
  auto rest = text;
  if (!take_word(rest).ends_with(':') || !take_facility(rest, line)) return false;
  text = rest;
  return true;
}

// 2024-10-07T10:17:15,145363-04:00 of dmesg: its fraction stands behind a comma. true: it was there.
bool strip_iso_time(std::string_view& text) {
  auto rest = text;
  const auto word = take_word(rest);
  const bool is_time = word.size() > 19 && is_digit(word[0]) && is_digit(word[3]) && word[4] == '-' && word[7] == '-' &&
                       word[10] == 'T' && word[13] == ':' && word[19] == ',';
  if (is_time) text = rest;
  return is_time;
}

bool is_program_tag(std::string_view word) {  // "name[123]:"
  return word.size() > 4 && word.ends_with("]:") && contains(word, "[");
}

// hh:mm:ss with anything behind it.
bool begins_with_clock(std::string_view word) {
  const size_t before = word.size();
  const auto hours = take_number(word);
  const bool short_hours = before - word.size() <= 2;  // not the domain of a PCI address
  return hours && short_hours && *hours < 25 && word.size() >= 6 && word[0] == ':' && is_digit(word[1]) &&
         is_digit(word[2]) && word[3] == ':' && is_digit(word[4]) && is_digit(word[5]);
}

// "1764481774.000001": seconds since the epoch.
bool is_unix_time(std::string_view word) {
  const auto point = word.find('.');
  if (point != 10 || word.size() < 14) return false;
  for (size_t i = 0; i < word.size(); ++i)
    if (i != point && !is_digit(word[i])) return false;
  return true;
}

// A clock as a word of its own, or an ISO instant.
bool is_clock_word(std::string_view word) {
  if (is_unix_time(word)) return true;
  if (word.size() >= 19 && word[4] == '-' && word[10] == 'T') return begins_with_clock(word.substr(11));
  return begins_with_clock(word);
}

// "- - - text" or "- - [name key="value"] text" behind the program's name in the syslog of RFC 5424.
std::optional<std::string_view> behind_rfc5424_fields(std::string_view rest) {
  for (int i = 0; i < 2; ++i)
    if (take_word(rest) != "-") return std::nullopt;
  if (!rest.starts_with('[')) return take_word(rest) == "-" ? std::optional(rest) : std::nullopt;
  const auto end = rest.substr(0, 256).find("] ");
  return end == std::string_view::npos ? std::nullopt : std::optional(skip_spaces(rest.substr(end + 1)));
}

// The journal with monotonic time: "[  812.000001] host kernel: text". The brackets are off already.
void strip_journal_tag(std::string_view& text, KernelLine& line) {
  auto rest = text;
  auto tag = take_word(rest);
  if (tag != "kernel:") tag = take_word(rest);
  if (tag != "kernel:" && !is_program_tag(tag)) return;
  if (tag != "kernel:") line.from_kernel = tag.starts_with("nv-fabricmanager[");
  text = rest;
  strip_priority(text, line);
  strip_brackets(text, line);
}

// "node17: [  812.000001] text": a shell that asks many nodes (pdsh, clush) puts their names in front.
bool strip_node_and_brackets(std::string_view& text, KernelLine& line) {
  auto rest = text;
  const auto node = take_word(rest);
  if (node.size() < 2 || !node.ends_with(':') || node == "kernel:" || !strip_brackets(rest, line)) return false;
  text = rest;
  return true;
}

bool is_zone(std::string_view word) {  // UTC, CEST, +0100
  if (word == "UTC" || word == "GMT" || word == "Z") return true;
  if (word.size() == 5 && (word[0] == '+' || word[0] == '-')) return is_digit(word[1]) && is_digit(word[4]);
  if (word.size() < 3 || word.size() > 4 || word.back() != 'T') return false;
  for (char c : word)
    if (c < 'A' || c > 'Z') return false;
  return true;
}

// What stands between clock and message in the log of a program: "INFO", "-", "|", "train.py:17]", "stdout" of a
// container.
bool is_of_a_program(std::string_view word) {
  static constexpr std::string_view words[] = {"INFO",   "WARN",  "WARNING", "ERROR", "DEBUG", "CRITICAL", "FATAL",
                                               "NOTICE", "TRACE", "-",       "|",     "::",    "stdout",   "stderr"};
  return std::ranges::find(words, word) != std::end(words) || (word.ends_with(']') && !word.starts_with('['));
}

// "kern.warn" and "user.notice" of BusyBox.
bool is_facility_and_level(std::string_view word) {
  const auto point = word.find('.');
  return point != std::string_view::npos && is_facility(word.substr(0, point)) && is_level(word.substr(point + 1));
}

// Where the message begins when no "kernel:" says it: `word`, which ends with a colon, is its first word, or its second
// where the first names a driver ("pcieport 0000:3a:00.0: …", "host nvme nvme0: …").
std::string_view message_at(std::string_view previous, std::string_view at, std::string_view word, int since_clock) {
  const bool second = since_clock >= 2 || (since_clock == 1 && find_pci_address(word));
  return second ? previous : at;
}

// Syslog and journal: "<words and numbers> <clock> [zone] [host] kernel: text". What a tool wrapped round such a line
// goes as well. A tag of another program before the message, or the words of a program's log, make it that program's.
void strip_syslog(std::string_view& text, KernelLine& line) {
  static constexpr int words_of_a_line = 14, words_behind_clock = 3;
  auto rest = text;
  std::string_view previous;
  int since_clock = -1;  // words behind the last clock; -1: no clock yet
  for (int words = 0; words < words_of_a_line && !rest.empty(); ++words) {
    const auto at = rest;
    const auto word = take_word(rest);
    if (word.empty() || since_clock > words_behind_clock) return;
    if (word == "kernel:") {
      if (since_clock >= 0 || words <= 1) text = rest;
      return;
    }
    if (is_clock_word(word)) {
      // Without a "kernel:" behind it the message begins after the clock.
      if (since_clock < 0 && words <= 4) text = rest;
      since_clock = 0;
      continue;
    }
    if (since_clock < 0) {
      if (word.front() == '[' || is_program_tag(word)) return;
      continue;
    }
    if (is_program_tag(word)) {
      line.from_kernel = word.starts_with("nv-fabricmanager[");
      text = rest;
      return;
    }
    if (word == "kernel")
      if (const auto message = behind_rfc5424_fields(rest)) {
        text = *message;
        return;
      }
    if (word.front() == '[' || (word.ends_with(':') && !rest.starts_with("kernel: "))) {
      text = word.front() == '[' ? at : message_at(previous, at, word, since_clock);
      return;
    }
    if (is_of_a_program(word) || (is_facility_and_level(word) && !word.starts_with("kern."))) line.from_kernel = false;
    if (since_clock == 0 && is_zone(word)) continue;
    previous = at;
    ++since_clock;
  }
}

// The value behind "key": in an object of JSON, escapes as they are.
std::string_view json_string(std::string_view object, std::string_view quoted_key) {
  const auto key_at = object.find(quoted_key);
  if (key_at == std::string_view::npos) return {};
  auto rest = skip_spaces(object.substr(key_at + quoted_key.size()));
  if (!rest.starts_with(':')) return {};
  rest = skip_spaces(rest.substr(1));
  if (!rest.starts_with('"')) return {};
  rest.remove_prefix(1);
  size_t end = 0;
  while (end < rest.size() && rest[end] != '"') end += rest[end] == '\\' ? 2 : 1;
  return rest.substr(0, end);
}

// An entry of the journal as an object of JSON. Only its transport, which the journal itself writes, says that the
// kernel spoke; any other object is a program's.
bool strip_json(std::string_view& text, KernelLine& line) {
  if (!text.starts_with('{') || !skip_spaces(text.substr(1)).starts_with('"')) return false;
  line.from_kernel = json_string(text, "\"_TRANSPORT\"") == "kernel";
  auto since_boot = json_string(text, "\"_SOURCE_MONOTONIC_TIMESTAMP\"");
  if (line.from_kernel) line.uptime_us = take_number(since_boot);
  text = json_string(text, "\"MESSAGE\"");
  return true;
}

// "message repeated 9 times: [ text ]"
void strip_repetition(std::string_view& text, KernelLine& line) {
  static constexpr std::string_view head = "message repeated ";
  if (!text.starts_with(head)) return;
  auto rest = text.substr(head.size());
  const auto times = take_number(rest);
  static constexpr std::string_view tail = " times: [";
  if (!times || !rest.starts_with(tail)) return;
  rest = trim(rest.substr(tail.size()));
  if (rest.ends_with(']')) rest.remove_suffix(1);
  text = trim(rest);
  line.repeats = *times > 1'000'000 ? 1'000'000 : static_cast<std::uint32_t>(*times == 0 ? 1 : *times);
}

}  // namespace

KernelLine parse_kernel_line(std::string_view raw) {
  KernelLine line;
  auto text = trim(raw.substr(0, max_line_bytes));
  if (const auto record = parse_kmsg_record(text)) {
    line.from_kernel = record->from_kernel();
    line.sequence = record->sequence;
    line.uptime_us = record->uptime_us;
    line.text = record->text;
    strip_repetition(line.text, line);
    return line;
  }
  if (strip_json(text, line)) {
    strip_repetition(text, line);
    line.text = trim(text);
    return line;
  }
  strip_priority(text, line);
  const bool with_facility = strip_facility(text, line);
  const bool by_dmesg = strip_iso_time(text) || with_facility;
  const bool bracketed = strip_brackets(text, line);
  if (bracketed && !by_dmesg) strip_journal_tag(text, line);
  if (!bracketed && !by_dmesg && !strip_node_and_brackets(text, line)) {
    strip_syslog(text, line);
    strip_repetition(text, line);
    strip_priority(text, line);
    strip_brackets(text, line);
  }
  text = skip_spaces(text);
  strip_repetition(text, line);
  strip_brackets(text, line);
  line.text = trim(text);
  return line;
}

}  // namespace homeostat::fault
