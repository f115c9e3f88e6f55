#include "io/log.hpp"

#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <mutex>

#include "core/time.hpp"

namespace homeostat::io {
namespace {

struct LogState {
  std::mutex mutex;
  std::string component = "homeostat";
  LogLevel minimum = LogLevel::info;
};

LogState& state() {
  static LogState instance;
  return instance;
}

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
      return "error";
  }
  return "error";
}

// One write() per line keeps lines of several threads and processes whole.
void write_line(std::string line) {
  line.push_back('\n');
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n <= 0) return;  // nobody reads: nothing sensible is left to do
    done += static_cast<size_t>(n);
  }
}

}  // namespace

void log_setup(std::string component, LogLevel minimum) {
  std::lock_guard lock(state().mutex);
  state().component = std::move(component);
  state().minimum = minimum;
}

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  std::lock_guard lock(state().mutex);
  if (level < state().minimum) return;
  boost::json::object line;
  line["ts"] = format_rfc3339(std::chrono::floor<Duration>(std::chrono::system_clock::now()));
  line["level"] = name_of(level);
  line["component"] = state().component;
  line["msg"] = message;
  for (const auto& [key, value] : fields) line[key] = value;
  write_line(boost::json::serialize(line));
}

}  // namespace homeostat::io
