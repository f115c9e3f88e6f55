#include "io/signals.hpp"

#include <csignal>
#include <ctime>

namespace homeostat::io {

StopSignals::StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  waiter_ = std::jthread([this, set](std::stop_token stop) {
    const timespec tick{0, 100'000'000};  // how long the end of the program may wait for this thread
    while (!stop.stop_requested())
      if (::sigtimedwait(&set, nullptr, &tick) > 0) source_.request_stop();
  });
}

}  // namespace homeostat::io
