// Log lines as JSON objects on stderr: one line each, with ts, level, component, msg and the fields given. Secrets
// never go in.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace homeostat::io {

enum class LogLevel { debug, info, warn, error };

using LogField = std::pair<std::string_view, std::string>;

// Process-wide: who speaks and from which level on. Called once in main().
void log_setup(std::string component, LogLevel minimum);

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void log_info(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::info, message, fields);
}
inline void log_warn(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::warn, message, fields);
}
inline void log_error(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::error, message, fields);
}

}  // namespace homeostat::io
