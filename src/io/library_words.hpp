// What a vendor's library means by its status codes: one table for each library, one way to look a code up.
// Header only, so that neither library's reader needs the other. Any thread.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace homeostat::io {

struct StatusMeaning {
  int code;
  const char* word;      // the vendor's own, without its prefix
  const char* sentence;  // what it is, and what to do where something can be done
};

// `who` begins the sentence on a code that the table does not have: "The driver".
inline std::string status_sentence(std::span<const StatusMeaning> meanings, int code, std::string_view who) {
  const auto found = std::ranges::find(meanings, code, &StatusMeaning::code);
  if (found != meanings.end()) return found->sentence;
  std::string unknown(who);
  return (unknown += " answered with the unknown code ") += std::to_string(code) + ".";
}

inline std::string status_word(std::span<const StatusMeaning> meanings, int code) {
  const auto found = std::ranges::find(meanings, code, &StatusMeaning::code);
  return found != meanings.end() ? found->word : std::to_string(code);
}

}  // namespace homeostat::io
