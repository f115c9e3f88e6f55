// For tests: findings as text that a CHECK can compare, "LINK_DOWN:error@mlx5_0/1 79:fatal@0000:0a:00".
#pragma once

#include <span>
#include <string>

#include "core/fault/catalog.hpp"
#include "core/fault/finding.hpp"

namespace homeostat::fault {

inline std::string codes_of(std::span<const Finding> findings, bool with_device = true) {
  std::string text;
  for (const auto& finding : findings) {
    if (!text.empty()) text += " ";
    text += finding.code;
    text += ":";
    text += to_string(finding.severity);
    if (with_device) (text += "@") += finding.device;
  }
  return text;
}

}  // namespace homeostat::fault
