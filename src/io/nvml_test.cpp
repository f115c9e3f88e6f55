#include "io/nvml.hpp"

#include <doctest/doctest.h>

#include <set>

#include "io/nvml_ask.hpp"

using namespace homeostat;
using namespace homeostat::io;

TEST_CASE("a library that is missing or is not NVML is told in a sentence") {
  const auto missing = load_nvml("/nonexistent/libnvidia-ml.so.1");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().kind == ErrorKind::not_found);
  const auto other = load_nvml("libm.so.6");
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().kind == ErrorKind::invalid);
  CHECK(other.error().message == "The library libm.so.6 is not NVML or is older than its version 11.");
}

TEST_CASE("nvml: each code has a word and a sentence of its own") {
  std::set<std::string> words, sentences;
  for (int code :
       {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25, 26, 27, 28, 29, 999}) {
    CHECK(words.insert(nvml::word(code)).second);
    CHECK(sentences.insert(nvml::sentence(code)).second);
    CHECK(nvml::sentence(code).back() == '.');
    CHECK(nvml::word(code).find_first_of("0123456789") == std::string::npos);
  }
  CHECK(nvml::word(-7) == "-7");
  CHECK(nvml::sentence(-7) == "The driver answered with the unknown code -7.");
}

TEST_CASE("nvml: the value of a field in each type that the driver may choose") {
  const auto field = [](unsigned type, auto member, auto value) {
    nvml::FieldValue f{};
    f.value_type = type;
    f.value.*member = value;
    return f;
  };
  using V = nvml::Value;
  CHECK(nvml::unsigned_of(field(0, &V::number, 7.9)) == 7);
  CHECK_FALSE(nvml::unsigned_of(field(0, &V::number, -1.0)));
  CHECK_FALSE(nvml::unsigned_of(field(0, &V::number, 1e300)));
  CHECK(nvml::unsigned_of(field(1, &V::u32, 4'000'000'000U)) == 4'000'000'000U);
  CHECK(nvml::unsigned_of(field(2, &V::ul, 5UL)) == 5);
  CHECK(nvml::unsigned_of(field(3, &V::u64, ~0ULL)) == ~0ULL);
  CHECK(nvml::unsigned_of(field(4, &V::i64, 6LL)) == 6);
  CHECK_FALSE(nvml::unsigned_of(field(4, &V::i64, -6LL)));
  CHECK(nvml::unsigned_of(field(5, &V::i32, 3)) == 3);
  CHECK_FALSE(nvml::unsigned_of(field(5, &V::i32, -3)));
  CHECK(nvml::unsigned_of(field(6, &V::u16, static_cast<unsigned short>(9))) == 9);
  CHECK_FALSE(nvml::unsigned_of(field(99, &V::u32, 1U)));
  CHECK(nvml::signed_of(field(5, &V::i32, -3)) == -3);
  CHECK(nvml::signed_of(field(1, &V::u32, 0xffff'fffeU)) == -2);
  CHECK(nvml::signed_of(field(4, &V::i64, -2LL)) == -2);
  CHECK_FALSE(nvml::signed_of(field(4, &V::i64, 1LL << 40)));
  CHECK_FALSE(nvml::signed_of(field(99, &V::i32, -3)));
}

// What a code does to a reading: not offered, lost, in need of a reset, failed; and when no more is asked.
TEST_CASE("nvml: what each answer makes of a reading") {
  for (int code : {2, 3, 6, 13, 21, 22, 25, 26, 27}) {
    GpuReading gpu{0, {}, {}, false, {}, {}, {}};
    nvml::Ask ask(gpu);
    CHECK_FALSE(ask.settle("figure", code));
    CHECK(gpu.unreadable.empty());
    CHECK(gpu.readable());
    CHECK(ask.may());
  }
  for (int code : {1, 4, 7, 8, 10, 11, 14, 17, 18, 19, 20, 23, 29, 999, 4711}) {
    GpuReading gpu{0, {}, {}, false, {}, {}, {}};
    nvml::Ask ask(gpu);
    for (int i = 0; i < 10; ++i) CHECK_FALSE(ask.settle("figure", code));
    CHECK(gpu.unreadable.size() == fault::max_unreadable);
    CHECK(gpu.readable());
    CHECK_FALSE(ask.may());
  }
  GpuReading lost{0, {}, {}, false, {}, {}, {}}, reset{0, {}, {}, false, {}, {}, {}},
      vital{0, {}, {}, false, {}, {}, {}};
  CHECK_FALSE(nvml::Ask(lost).settle("figure", 15));
  CHECK(lost.lost);
  CHECK_FALSE(nvml::Ask(lost).may());
  CHECK_FALSE(nvml::Ask(reset).settle_vital("GPU", 16));
  CHECK(reset.reset_required);
  CHECK_FALSE(nvml::Ask(reset).may());
  CHECK_FALSE(nvml::Ask(vital).settle_vital("GPU", 19));
  CHECK(vital.trouble ==
        "The GPU cannot be read (IN_USE). The GPU is held by another operation, such as a reset, and cannot be asked "
        "now.");
  CHECK_FALSE(nvml::Ask(vital).may());
}
