#include "core/fault/nvlink_registers.hpp"

#include <algorithm>
#include <array>

#include "core/fault/catalog.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

constexpr size_t register_count = 7;
using Registers = std::array<std::uint32_t, register_count>;

// "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)": how many could be read.
size_t read_registers(std::string_view text, Registers& registers) {
  if (!text.starts_with('(')) return 0;
  text = text.substr(1, std::min(text.find(')'), text.size()) - 1);
  size_t count = 0;
  while (count < register_count && !text.empty()) {
    auto word = take_word(text);
    while (word.ends_with(',')) word.remove_suffix(1);
    const auto bits = parse_hex32(word);
    if (!bits) break;
    registers[count++] = *bits;
  }
  return count;
}

// "; register 3 bit 16 (meaning)"
void append_bits(std::string& title, size_t number, std::uint32_t bits, std::string_view meaning) {
  if (bits == 0) return;
  title.append("; register ").append(std::to_string(number)).append(" bit");
  for (unsigned bit = 0; bit < 32; ++bit)
    if (bits >> bit & 1) title.append(" ").append(std::to_string(bit));
  title.append(" (").append(meaning).append(")");
}

// Appends what the bits mean; the gravest weight among them, hardware for one that nobody names.
NvlinkWeight weigh(const Registers& registers, std::string& title) {
  NvlinkWeight gravest = NvlinkWeight::harmless;
  Registers unnamed = registers;
  for (const auto& entry : Catalog::instance().nvlink_registers()) {
    const auto bits = registers[entry.number - 1] & entry.bits;
    if (bits == 0) continue;
    unnamed[entry.number - 1] &= ~entry.bits;
    append_bits(title, entry.number, bits, entry.meaning);
    gravest = std::max(gravest, entry.weight);
  }
  for (size_t i = 0; i < register_count; ++i) {
    append_bits(title, i + 1, unnamed[i], "not published");
    if (unnamed[i] != 0) gravest = NvlinkWeight::hardware;
  }
  return gravest;
}

void soften(NvlinkWeight weight, Finding& finding) {
  if (weight == NvlinkWeight::hardware) return;
  const bool harmless = weight == NvlinkWeight::harmless;
  finding.severity = harmless ? Severity::warn : Severity::error;
  finding.action = harmless ? "IGNORE" : "CORRELATE";
  finding.repair_class = RepairClass::watch;
  finding.unambiguous = false;
}

}  // namespace

void decode_nvlink_registers(std::string_view detail, Finding& finding) {
  static constexpr std::string_view key = " link ";
  const auto at = detail.rfind(key);  // a process may have the word in its name
  if (at == std::string_view::npos) return;
  auto rest = detail.substr(at + key.size());
  const auto link = take_number(rest);
  if (!link) return;
  finding.title = "NVLink error on link " + std::to_string(*link);
  Registers registers{};
  const auto count = read_registers(skip_spaces(rest), registers);
  const auto weight = weigh(registers, finding.title);
  const bool all_zero = std::ranges::all_of(registers, [](auto bits) { return bits == 0; });
  if (count == register_count && !all_zero) soften(weight, finding);
}

}  // namespace homeostat::fault
