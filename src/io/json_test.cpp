#include "io/json.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>

using namespace homeostat;
using namespace homeostat::io;

TEST_CASE("accessors give the fallback for what is missing or of another type") {
  const auto object =
      *parse_json_object(R"({"a":{"b":"text","n":7,"f":1.5,"t":true,"l":[1],"x.y/z":"dotted"},"s":"flat"})");
  CHECK(string_at(object, {"a", "b"}) == "text");
  CHECK(string_at(object, {"a", "x.y/z"}) == "dotted");
  CHECK(string_at(object, {"a", "n"}, "none") == "none");
  CHECK(string_at(object, {"s", "deeper"}, "none") == "none");
  CHECK(int_at(object, {"a", "n"}) == 7);
  CHECK(int_at(object, {"a", "f"}, -1) == -1);
  CHECK(double_at(object, {"a", "n"}) == 7.0);
  CHECK(bool_at(object, {"a", "t"}));
  CHECK(array_at(object, {"a", "l"}).size() == 1);
  CHECK(array_at(object, {"a", "b"}).empty());
  CHECK(object_at(object, {"a"}).size() == 6);
  CHECK(object_at(object, {"missing"}).empty());
}

TEST_CASE("texts that are no JSON, too long or too deep are refused with a sentence") {
  struct Case {
    std::string text;
    const char* says;
  };
  const Case cases[] = {{"{", "not valid JSON"},
                        {"{} x", "not valid JSON"},
                        {std::string(200, '['), "not valid JSON"},
                        {std::string(2000, ' '), "more than"}};
  for (const auto& [text, says] : cases) {
    const auto result = parse_json(text, "the answer", 1000);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().kind == ErrorKind::invalid);
    CHECK(result.error().message.starts_with("the answer"));
    CHECK(result.error().message.find(says) != std::string::npos);
  }
  CHECK_FALSE(parse_json_object("[1]").has_value());
}

TEST_CASE("set_at makes the levels on the way") {
  boost::json::object object{{"a", 1}};
  set_at(object, {"a", "b", "c"}, 2);
  CHECK(to_text(object) == R"({"a":{"b":{"c":2}}})");
}
