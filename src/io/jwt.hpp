// JSON Web Tokens signed with HS256, as Slurm's auth/jwt takes them, and base64. Pure computation; keys never reach an
// Error.
#pragma once

#include <string>
#include <string_view>

#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::io {

struct JwtClaims {
  std::string user = {};  // claim "sun", Slurm's user name
  TimePoint issued_at{};
  TimePoint expires_at{};
};

std::string mint_jwt(std::string_view key_bytes, const JwtClaims& claims);

std::string base64_encode(std::string_view bytes);     // RFC 4648 with padding
std::string base64url_encode(std::string_view bytes);  // URL alphabet, no padding
Result<std::string> base64_decode(
    std::string_view text);  // either alphabet; white space is skipped, padding is optional

}  // namespace homeostat::io
