#include "lab/random.hpp"

#include "io/clock.hpp"

namespace homeostat::lab {

std::string random_hex(int bytes) {
  io::SystemRandom random;
  std::string hex;
  for (const char c : io::random_bytes(random, static_cast<size_t>(bytes))) {
    const auto byte = static_cast<unsigned char>(c);
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string random_uuid() {
  auto hex = random_hex(16);
  hex[12] = '4';
  hex[16] = "89ab"[hex[16] % 4];
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

}  // namespace homeostat::lab
