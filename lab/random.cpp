#include "lab/random.hpp"

#include "io/clock.hpp"

namespace homeostat::lab {

std::string random_hex(int bytes) {
  io::SystemRandom random;
  return io::random_hex(random, static_cast<size_t>(bytes));
}

std::string random_uuid() {
  auto hex = random_hex(16);
  hex[12] = '4';
  hex[16] = "89ab"[hex[16] % 4];
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

}  // namespace homeostat::lab
