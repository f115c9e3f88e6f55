// Result<T>: a value or an Error. Every layer returns it; nothing outside main() and tests throws on purpose.
#pragma once

#include <chrono>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace homeostat {

// The kinds of failure that callers react to; everything else is text.
enum class ErrorKind {
  invalid,            // the request or input itself is wrong: repeating it cannot help
  not_found,          // the thing is surely absent
  already_exists,     // a create met an object of that name
  conflict,           // the precondition (resourceVersion, uid) did not hold: observe again
  unauthorized,       // credentials missing, wrong or expired
  forbidden,          // credentials good, permission missing
  throttled,          // told to come back later (see retry_after)
  disruption_budget,  // an eviction refused by a PodDisruptionBudget
  gone,               // a resourceVersion or continue token too old: list again
  unavailable,        // the server answered that it cannot serve now (5xx)
  unreachable,        // no connection was made: the request surely had no effect
  unknown_outcome,    // the connection broke after sending: the request may or may not have taken effect
  timeout,            // no answer within the caller's bound; for a write the outcome is unknown
  cancelled,          // the caller's stop_token fired
  internal,           // a bug or an answer that makes no sense
};

constexpr std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::already_exists:
      return "already_exists";
    case ErrorKind::conflict:
      return "conflict";
    case ErrorKind::unauthorized:
      return "unauthorized";
    case ErrorKind::forbidden:
      return "forbidden";
    case ErrorKind::throttled:
      return "throttled";
    case ErrorKind::disruption_budget:
      return "disruption_budget";
    case ErrorKind::gone:
      return "gone";
    case ErrorKind::unavailable:
      return "unavailable";
    case ErrorKind::unreachable:
      return "unreachable";
    case ErrorKind::unknown_outcome:
      return "unknown_outcome";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

// `message` is a sentence for a person: what was tried, what went wrong and, where it is known, what to do.
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  std::optional<std::chrono::milliseconds> retry_after;
};

template <class T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message), std::nullopt});
}

}  // namespace homeostat
