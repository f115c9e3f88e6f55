#include "io/jwt.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::io;

TEST_CASE("base64: the vectors of RFC 4648, both alphabets, and what is not base64") {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : vectors) {
    CHECK(base64_encode(plain) == coded);
    CHECK(base64_decode(coded) == std::string(plain));
  }
  CHECK(base64url_encode("\xfb\xff") == "-_8");
  CHECK(base64_decode("-_8") == "\xfb\xff");
  CHECK(base64_decode("Zm9v\nYmFy\n") == "foobar");
  for (const char* bad : {"Z", "Zm9v!", "Zg==Zg==", "Zg=", "Zm9v="}) CHECK_FALSE(base64_decode(bad).has_value());
}

TEST_CASE("a token for a user, signed with HS256") {
  // Computed with `openssl dgst -sha256 -hmac secret` over the first two parts.
  const JwtClaims claims{"slurm", TimePoint{std::chrono::seconds(1000)}, TimePoint{std::chrono::seconds(1600)}};
  const auto token = mint_jwt("secret", claims);
  const auto first = token.find('.'), second = token.rfind('.');
  CHECK(base64_decode(token.substr(0, first)) == R"({"alg":"HS256","typ":"JWT"})");
  CHECK(base64_decode(token.substr(first + 1, second - first - 1)) == R"({"exp":1600,"iat":1000,"sun":"slurm"})");
  CHECK(token.substr(second + 1) == "libph8qLS5bkfEc5XLNqaKwOrqbuqXNCzZC8ugHCmAQ");
  CHECK(mint_jwt("other", claims) != token);
}
