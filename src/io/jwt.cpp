#include "io/jwt.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <boost/json.hpp>
#include <cctype>

namespace homeostat::io {
namespace {

constexpr std::string_view standard_alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view url_alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string encode(std::string_view bytes, std::string_view alphabet, bool padding) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j) group = (group << 8) | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) {
      if (j <= count)
        out.push_back(alphabet[(group >> (18 - 6 * j)) & 63]);
      else if (padding)
        out.push_back('=');
    }
  }
  return out;
}

int value_of(char c) {
  if (c == '-') return 62;
  if (c == '_') return 63;
  const auto at = standard_alphabet.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

std::string base64_encode(std::string_view bytes) { return encode(bytes, standard_alphabet, true); }
std::string base64url_encode(std::string_view bytes) { return encode(bytes, url_alphabet, false); }

Result<std::string> base64_decode(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;  // bits in `bits`
  size_t digits = 0, pads = 0;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    if (c == '=') {
      ++pads;
      continue;
    }
    const int value = value_of(c);
    if (value < 0 || pads > 0) return fail(ErrorKind::invalid, "not base64: a character outside its alphabet");
    ++digits;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out.push_back(static_cast<char>((bits >> held) & 0xff));
    }
  }
  if (digits % 4 == 1 || pads > 2 || (pads > 0 && (digits + pads) % 4 != 0))
    return fail(ErrorKind::invalid, "not base64: its length is wrong");
  return out;
}

std::string mint_jwt(std::string_view key_bytes, const JwtClaims& claims) {
  const auto seconds = [](TimePoint time) {
    return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  };
  const boost::json::object payload{
      {"exp", seconds(claims.expires_at)}, {"iat", seconds(claims.issued_at)}, {"sun", claims.user}};
  std::string text =
      base64url_encode(R"({"alg":"HS256","typ":"JWT"})") + "." + base64url_encode(boost::json::serialize(payload));
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), key_bytes.data(), static_cast<int>(key_bytes.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &length);
  return text + "." + base64url_encode({reinterpret_cast<const char*>(mac.data()), length});
}

}  // namespace homeostat::io
