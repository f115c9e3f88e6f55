// Small readers over bytes. None of them throws, allocates more than it returns, or looks at a byte twice without need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace homeostat::fault {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr bool is_alnum(char c) { return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z'); }
constexpr bool is_space(char c) { return c == ' ' || c == '\t'; }

std::string_view trim(std::string_view text);
std::string_view skip_spaces(std::string_view text);
// "word rest" -> "word"; `text` is left at the rest, spaces skipped.
std::string_view take_word(std::string_view& text);
bool starts_with_ignoring_case(std::string_view text, std::string_view lower_case_prefix);
bool contains(std::string_view text, std::string_view part);
// `word` stands in `text` with no letter or digit beside it: "L4" is not in "L40S".
bool has_word(std::string_view text, std::string_view word);
// Decimal digits at the front of `text`, taken off it. nullopt without digits or beyond 64 bits.
std::optional<std::uint64_t> take_number(std::string_view& text);
std::optional<std::uint32_t> parse_hex32(std::string_view digits);  // with or without 0x

// A PCI address inside a text: [dddd:]bb:dd[.f], in lower case. `function` is empty where the text names none.
struct PciAddress {
  std::string device;  // "0000:05:00", or "18:00" where the text names no domain
  std::string function;
  std::string with_function() const { return function.empty() ? device : device + "." + function; }
};
std::optional<PciAddress> find_pci_address(std::string_view text);
// The last one.
std::optional<PciAddress> find_last_pci_address(std::string_view text);
// "<driver> dddd:bb:dd.f…": what a driver says of one device.
bool begins_with_device(std::string_view text);

}  // namespace homeostat::fault
