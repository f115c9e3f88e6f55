// `up`, `down`, `status` and what else a person asks of the lab from outside its supervisor.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "lab/config.hpp"
#include "lab/machine_book.hpp"
#include "lab/progress.hpp"

namespace homeostat::lab {

inline constexpr int exit_good = 0, exit_failed = 1, exit_usage = 2, exit_missing = 3, exit_refused = 4;

struct UpOptions {
  LabConfig config;  // state, instance, ranges, and the folders that were given
  bool detach = false;
};
// Checks, starts the supervisor and follows it until the lab is ready. Interrupted, it takes down what it started.
int up(UpOptions options, std::stop_token stop);

// Sentences about what is missing on this machine; empty: go ahead.
std::vector<std::string> missing_programs();

struct DownReport {
  std::vector<std::string> left;  // what could not be removed
};
Result<DownReport> take_down(const LabConfig& config);
int down(const std::string& state, const std::string& instance);

bool serve_runs(const LabConfig& config);
int status(const std::string& state, bool as_json);

// The provider's API from the command line. body: "" for none.
Result<std::string> call_provider(const LabConfig& config, const std::string& method, const std::string& path,
                                  const std::string& body);

// Brings images (those of `folder`) into the machines that run and into those that will be made.
Result<void> load_images(LabConfig config, const std::string& folder);

}  // namespace homeostat::lab
