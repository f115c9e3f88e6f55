#include "core/slurm/hostlist.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace homeostat;
using slurm::expand_hostlist;

namespace {

using Names = std::vector<std::string>;

// xorshift: the same lists in every run.
struct Chance {
  std::uint64_t state = 88172645463325252ull;
  std::uint64_t below(std::uint64_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % n;
  }
};

std::string padded(std::uint64_t value, size_t width) {
  auto digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

// One bracket group and what it stands for.
std::pair<std::string, Names> some_group(Chance& chance) {
  std::string text = "[";
  Names names;
  const size_t width = 1 + chance.below(3);
  for (auto items = 1 + chance.below(3); items > 0; --items) {
    const auto first = chance.below(90), last = first + chance.below(8);
    text += padded(first, width) + (last > first ? "-" + padded(last, width) : "") + (items > 1 ? "," : "");
    for (auto value = first; value <= last; ++value) names.push_back(padded(value, width));
  }
  return {text + "]", names};
}

std::pair<std::string, Names> some_item(Chance& chance) {
  std::string text = std::string("n") + static_cast<char>('a' + chance.below(26)) + "-";
  Names names{text};
  for (auto groups = chance.below(3); groups > 0; --groups) {
    auto [group, suffixes] = some_group(chance);
    Names longer;
    for (const auto& name : names)
      for (const auto& suffix : suffixes) longer.push_back(name + suffix + "x");
    text += group + "x";
    names = longer;
  }
  return {text, names};
}

}  // namespace

TEST_CASE("host lists as Slurm writes them") {
  CHECK(*expand_hostlist("") == Names{});
  CHECK(*expand_hostlist("gpu-1") == Names{"gpu-1"});
  CHECK(*expand_hostlist("gpu-[1-3,7]") == Names{"gpu-1", "gpu-2", "gpu-3", "gpu-7"});
  CHECK(*expand_hostlist("n[08-10],login") == Names{"n08", "n09", "n10", "login"});
  CHECK(*expand_hostlist("r[1-2]-n[1,3]") == Names{"r1-n1", "r1-n3", "r2-n1", "r2-n3"});
  CHECK(*expand_hostlist("gpu-x7f2k,gpu-a1b2c") == Names{"gpu-x7f2k", "gpu-a1b2c"});
}

TEST_CASE("a list that cannot be right is refused with a sentence") {
  for (const char* text : {"n[1-3", "n1-3]", "n[3-1]", "n[a-b]", "n[]", "n[1,,2]", "a,,b", "n[1-99999999]",
                           "n[1-300][1-300]", "n[1-18446744073709551615]", "n[-1]"}) {
    CAPTURE(text);
    const auto result = expand_hostlist(text);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().kind == ErrorKind::invalid);
    CHECK(result.error().message.ends_with("."));
  }
}

TEST_CASE("property: what is written with brackets comes back name by name") {
  Chance chance;
  for (int round = 0; round < 2'000; ++round) {
    std::string text;
    Names expected;
    for (auto items = 1 + chance.below(3); items > 0; --items) {
      auto [item, names] = some_item(chance);
      text += (text.empty() ? "" : ",") + item;
      expected.insert(expected.end(), names.begin(), names.end());
    }
    CAPTURE(text);
    const auto result = expand_hostlist(text);
    REQUIRE(result.has_value());
    REQUIRE(*result == expected);
  }
}

TEST_CASE("property: any bytes end in names or a sentence, within the bound") {
  Chance chance;
  constexpr std::string_view alphabet = "n1-,[]09x\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto length = chance.below(24); length > 0; --length) text += alphabet[chance.below(alphabet.size())];
    const auto result = expand_hostlist(text, 1'000);
    if (result) REQUIRE(result->size() <= 1'000);
  }
}
