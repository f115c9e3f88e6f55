// SIGINT and SIGTERM as a stop request. Make one in main() before any other thread: every thread started after it has
// them blocked, and this one's thread waits for them. SIGPIPE is ignored. A program that becomes another one (exec)
// must not have made one.
#pragma once

#include <stop_token>
#include <thread>

namespace homeostat::io {

class StopSignals {
 public:
  StopSignals();
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread waiter_;
};

}  // namespace homeostat::io
