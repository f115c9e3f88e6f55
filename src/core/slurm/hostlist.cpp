#include "core/slurm/hostlist.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace homeostat::slurm {
namespace {

constexpr size_t max_digits = 18;  // what std::uint64_t surely holds

std::unexpected<Error> bad(std::string_view text, const std::string& why) {
  return fail(ErrorKind::invalid, "\"" + std::string(text.substr(0, 200)) + "\" is not a host list: " + why + ".");
}

std::optional<std::uint64_t> number(std::string_view digits) {
  if (digits.empty() || digits.size() > max_digits) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::string padded(std::uint64_t value, size_t width) {
  auto digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

// "1-3,7" -> 1 2 3 7
Result<std::vector<std::string>> expand_ranges(std::string_view ranges, std::string_view whole, size_t max_hosts) {
  std::vector<std::string> out;
  while (true) {
    const auto comma = ranges.find(',');
    const auto item = ranges.substr(0, comma);
    const auto dash = item.find('-');
    const auto first = number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
    if (!first || !last) return bad(whole, "\"" + std::string(item) + "\" is not a number or a range of numbers");
    if (*last < *first) return bad(whole, "the range \"" + std::string(item) + "\" runs backward");
    if (*last - *first >= max_hosts - std::min(max_hosts, out.size())) return bad(whole, "it names too many hosts");
    const auto width = dash == std::string_view::npos ? item.size() : dash;
    for (auto value = *first; value <= *last; ++value) out.push_back(padded(value, width));
    if (comma == std::string_view::npos) return out;
    ranges.remove_prefix(comma + 1);
  }
}

// One item of the list, with any number of bracket groups: "rack[1-2]-n[1-4]".
Result<std::vector<std::string>> expand_item(std::string_view item, std::string_view whole, size_t max_hosts) {
  std::vector<std::string> names{""};
  while (!item.empty()) {
    const auto open = item.find('[');
    const auto plain = item.substr(0, open);
    if (plain.find(']') != std::string_view::npos) return bad(whole, "a bracket closes that never opened");
    for (auto& name : names) name += plain;
    if (open == std::string_view::npos) break;
    const auto close = item.find(']', open);
    if (close == std::string_view::npos) return bad(whole, "a bracket is not closed");
    auto ranges = expand_ranges(item.substr(open + 1, close - open - 1), whole, max_hosts);
    if (!ranges) return ranges;
    if (ranges->size() > max_hosts / names.size()) return bad(whole, "it names too many hosts");
    std::vector<std::string> longer;
    longer.reserve(names.size() * ranges->size());
    for (const auto& name : names)
      for (const auto& suffix : *ranges) longer.push_back(name + suffix);
    names = std::move(longer);
    item.remove_prefix(close + 1);
  }
  return names;
}

// Where the item that begins at `from` ends: the next comma outside brackets.
size_t item_end(std::string_view text, size_t from) {
  int depth = 0;
  for (size_t i = from; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] == ',' && depth <= 0) return i;
  }
  return text.size();
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text, size_t max_hosts) {
  std::vector<std::string> out;
  for (size_t from = 0; from < text.size();) {
    const auto end = item_end(text, from);
    const auto item = text.substr(from, end - from);
    if (item.empty()) return bad(text, "there is nothing between two commas");
    auto names = expand_item(item, text, max_hosts);
    if (!names) return names;
    if (out.size() + names->size() > max_hosts) return bad(text, "it names too many hosts");
    out.insert(out.end(), names->begin(), names->end());
    from = end + 1;
  }
  return out;
}

}  // namespace homeostat::slurm
