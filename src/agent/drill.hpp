// Drills on this node (docs/operators/drills.md). DrillBook holds those that the controller has armed and judges what
// programs write into the kernel log; DrillWatcher keeps it up to date with the API server and, on a real node, writes
// the drill's lines itself. A token is never logged. DrillBook: any thread, no I/O under its lock.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/drill.hpp"
#include "core/fault/drill.hpp"
#include "core/fault/finding.hpp"
#include "core/time.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"

namespace homeostat::agent {

class DrillBook {
 public:
  // A record whose facility is not the kernel's. drill: take `line` as if the kernel had written it, with drill set;
  // forgery: count it.
  fault::UserLineVerdict judge(std::string_view text, TimePoint now);
  // Says whether a finding, of the kernel log or of a sensor, is what a drill of this node is to bring about.
  bool marks(const fault::Finding& finding) const;
  bool marks(std::string_view finding_id) const;

  // Armed or Seen: holds it, and its lines count from now on for as long as the controller gave it; else forgets it.
  void hold(const api::Drill& drill, TimePoint now);
  void forget(std::string_view name);
  size_t size() const;

  static constexpr size_t max_drills = 16;

 private:
  mutable std::mutex mutex_;
  std::vector<fault::ArmedDrill> armed_;
};

struct DrillWatcherOptions {
  std::string node_name;
  // Where a real node's drill is written; "" (the lab): its fake hardware fails instead.
  std::string kmsg_path = {};
  // The kernel takes ten lines of processes in five seconds and drops the rest (printk_devkmsg=ratelimit).
  size_t lines_at_once = 8;
  Duration pause_between_lines{600};
};

// Holds each drill, says so in the annotation names::drill_annotation of the NodeHealth, and writes its lines at most
// once, even when it is started anew in between.
class DrillWatcher {
 public:
  DrillWatcher(DrillWatcherOptions options, DrillBook& book, kube::ClientFactory clients, io::Clock& clock,
               io::Random& random)
      : options_(std::move(options)), book_(book), clients_(std::move(clients)), clock_(clock), random_(random) {}

  // Watches until stop is requested. On a thread of its own.
  void run(std::stop_token stop);

 private:
  struct Task {
    std::string name;
    std::vector<api::DrillLine> lines;
    std::string token;
    Duration give_up_at{0};  // monotonic
  };
  void take(const api::Drill& drill);
  void drop(const std::string& name);
  std::optional<Task> next(std::stop_token stop);
  bool carry_out(kube::Client& client, const Task& task, std::stop_token stop);
  void write(const Task& task, std::stop_token stop);

  DrillWatcherOptions options_;
  DrillBook& book_;
  kube::ClientFactory clients_;
  io::Clock& clock_;
  io::Random& random_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> tasks_;            // at most DrillBook::max_drills
  std::deque<std::string> finished_;  // names of drills that need no more work; the last few
};

}  // namespace homeostat::agent
