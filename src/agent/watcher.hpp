// Follows the kernel log of one boot after another into the NodeState. A log or boot id that cannot be read is a state
// of the node (Unknown), not the end of the agent: it is tried again every two seconds. One thread.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "agent/node_state.hpp"
#include "agent/saver.hpp"
#include "io/clock.hpp"
#include "io/kmsg.hpp"

namespace homeostat::agent {

struct WatcherOptions {
  std::string kmsg_path = "/dev/kmsg";
  std::string boot_id_path = "/proc/sys/kernel/random/boot_id";
  std::string state_folder;  // "": nothing is remembered
};

class Watcher {
 public:
  // saver may be null. on_urgent: the log has just said something that somebody must know at once.
  Watcher(WatcherOptions options, NodeState& state, io::Clock& clock, Saver* saver, std::function<void()> on_urgent)
      : options_(std::move(options)), state_(state), clock_(clock), saver_(saver), on_urgent_(std::move(on_urgent)) {}

  // One round, of at most half a second. Says whether all that the log holds has been read.
  bool turn(std::stop_token stop);
  bool can_read() const { return reader_ != nullptr; }

 private:
  void begin();
  void recall();
  void read(std::stop_token stop);
  void lose_log(const Error& error);
  void save_when_due(bool changed, bool taken);
  bool has_booted_anew();

  WatcherOptions options_;
  NodeState& state_;
  io::Clock& clock_;
  Saver* saver_;
  std::function<void()> on_urgent_;
  std::string boot_id_;
  std::unique_ptr<io::KmsgReader> reader_;
  size_t gpus_saved_ = 0;
  Duration saved_at_{0}, boot_checked_at_{0}, tried_at_{-1'000'000};
  bool caught_up_ = false, unsaved_ = false;
};

Result<std::string> read_boot_id(const std::string& path);

}  // namespace homeostat::agent
