// How far the lab's start is, in a file that `up` follows and `status` shows. Written by serve alone.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::lab {

struct ProgressStep {
  std::string name;
  std::string state = "waiting";  // waiting, running, done, failed
  std::string detail = {};        // the newest word on it
};

struct ProgressReport {
  std::vector<ProgressStep> steps;
  bool ready = false;
  std::string error;  // why the start failed
};

Result<ProgressReport> parse_progress(std::string_view text);
std::string to_json(const ProgressReport& report);

// The lines that turn `before` into `after` for a reader, e.g. "control plane: running" or "images: importing ...".
std::vector<std::string> news(const ProgressReport& before, const ProgressReport& after);

class Progress {
 public:
  Progress(std::string path, std::vector<std::string> steps);
  void set(std::string_view step, std::string_view state, std::string detail = {});
  void ready();
  void fail(std::string error);

 private:
  void write();
  std::mutex mutex_;
  std::string path_;
  ProgressReport report_;
};

}  // namespace homeostat::lab
