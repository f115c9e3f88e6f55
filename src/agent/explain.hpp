// `homeostat-agent explain CODE`: what a code is, what is done about it, why, and where that is written.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace homeostat::agent {

// nullopt: nobody knows the code.
std::optional<std::string> explain_code(std::string_view code, bool json);
// What to write instead: a sentence.
std::string unknown_code(std::string_view code);

}  // namespace homeostat::agent
