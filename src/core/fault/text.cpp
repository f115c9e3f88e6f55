#include "core/fault/text.hpp"

namespace homeostat::fault {

std::string_view skip_spaces(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && is_space(text[at])) ++at;
  return text.substr(at);
}

std::string_view trim(std::string_view text) {
  text = skip_spaces(text);
  while (!text.empty() && (is_space(text.back()) || text.back() == '\r' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

std::string_view take_word(std::string_view& text) {
  text = skip_spaces(text);
  size_t end = 0;
  while (end < text.size() && !is_space(text[end])) ++end;
  const auto word = text.substr(0, end);
  text = skip_spaces(text.substr(end));
  return word;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view lower_case_prefix) {
  if (text.size() < lower_case_prefix.size()) return false;
  for (size_t i = 0; i < lower_case_prefix.size(); ++i)
    if (to_lower(text[i]) != lower_case_prefix[i]) return false;
  return true;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool has_word(std::string_view text, std::string_view word) {
  if (word.empty()) return false;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_alnum(text[at - 1])) && (end == text.size() || !is_alnum(text[end]))) return true;
  }
  return false;
}

std::optional<std::uint64_t> take_number(std::string_view& text) {
  size_t end = 0;
  std::uint64_t value = 0;
  while (end < text.size() && is_digit(text[end])) {
    if (end == 18) return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(text[end] - '0');
    ++end;
  }
  if (end == 0) return std::nullopt;
  text.remove_prefix(end);
  return value;
}

std::optional<std::uint32_t> parse_hex32(std::string_view digits) {
  if (starts_with_ignoring_case(digits, "0x")) digits.remove_prefix(2);
  if (digits.empty() || digits.size() > 8) return std::nullopt;
  std::uint32_t value = 0;
  for (char c : digits) {
    if (!is_hex(c)) return std::nullopt;
    const char lower = to_lower(c);
    value = value << 4 | static_cast<std::uint32_t>(is_digit(lower) ? lower - '0' : lower - 'a' + 10);
  }
  return value;
}

namespace {

// `width` hex digits exactly, at `at`, and no further one behind them.
bool hex_group(std::string_view text, size_t at, size_t width) {
  if (at + width > text.size()) return false;
  for (size_t i = 0; i < width; ++i)
    if (!is_hex(text[at + i])) return false;
  return at + width == text.size() || !is_alnum(text[at + width]);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = to_lower(c);
  return out;
}

// bb:dd[.f] at `at`; `start` is where the whole address began. A bare bb:dd must have its function, or clock times
// would match.
std::optional<PciAddress> bus_and_device(std::string_view text, size_t start, size_t at) {
  if (!hex_group(text, at, 2) || at + 2 >= text.size() || text[at + 2] != ':' || !hex_group(text, at + 3, 2))
    return std::nullopt;
  const size_t end = at + 5;
  PciAddress found{lower(text.substr(start, end - start)), ""};
  if (end + 1 < text.size() && text[end] == '.' && text[end + 1] >= '0' && text[end + 1] <= '7' &&
      (end + 2 == text.size() || !is_alnum(text[end + 2])))
    found.function = text.substr(end + 1, 1);
  else if (start == at)
    return std::nullopt;
  return found;
}

// The address whose first or, without a domain, second colon stands at `colon`.
std::optional<PciAddress> address_at(std::string_view text, size_t colon) {
  for (const size_t width : {size_t{8}, size_t{4}}) {
    if (colon < width || (colon > width && is_alnum(text[colon - width - 1]))) continue;
    if (!hex_group(text, colon - width, width)) continue;
    if (auto found = bus_and_device(text, colon - width, colon + 1)) {
      if (width == 8) found->device.erase(0, 4);  // NVML's form 00000000:05:00.0
      return found;
    }
  }
  if (colon >= 2 && (colon == 2 || (!is_alnum(text[colon - 3]) && text[colon - 3] != ':')))
    return bus_and_device(text, colon - 2, colon - 2);
  return std::nullopt;
}

}  // namespace

std::optional<PciAddress> find_pci_address(std::string_view text) {
  for (size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1))
    if (auto found = address_at(text, colon)) return found;
  return std::nullopt;
}

std::optional<PciAddress> find_last_pci_address(std::string_view text) {
  for (size_t colon = text.rfind(':'); colon != std::string_view::npos && colon > 0; colon = text.rfind(':', colon - 1))
    if (auto found = address_at(text, colon)) return found;
  return std::nullopt;
}

bool begins_with_device(std::string_view text) {
  const auto space = text.substr(0, 32).find(' ');
  if (space == 0 || space == std::string_view::npos) return false;
  const auto at = space + 1;
  return at + 12 <= text.size() && text[at + 4] == ':' && text[at + 7] == ':' && text[at + 10] == '.' &&
         is_hex(text[at]) && is_hex(text[at + 5]) && is_hex(text[at + 8]) && is_digit(text[at + 11]);
}

}  // namespace homeostat::fault
