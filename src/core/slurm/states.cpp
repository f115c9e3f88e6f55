#include "core/slurm/states.hpp"

#include <algorithm>
#include <array>

#include "core/names.hpp"

namespace homeostat::slurm {
namespace {

template <size_t N>
bool any_of(const StateSet& states, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return states.contains(word); });
}

// Base states of a job that has ended for good.
constexpr std::array<std::string_view, 9> ended = {"COMPLETED", "CANCELLED",     "FAILED",   "TIMEOUT", "NODE_FAIL",
                                                   "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE", "REVOKED"};
// Flags that keep new jobs away from a node.
constexpr std::array<std::string_view, 12> closed = {"DOWN",   "DRAIN",         "DRAINED",      "DRAINING",
                                                     "FAIL",   "MAINTENANCE",   "POWERED_DOWN", "POWERING_DOWN",
                                                     "FUTURE", "REBOOT_ISSUED", "INVALID_REG",  "INVALID"};

}  // namespace

std::string to_string(const StateSet& states) {
  std::string text;
  for (const auto& state : states) text += (text.empty() ? "" : "+") + state;
  return text.empty() ? "UNKNOWN" : text;
}

bool node_is_down(const StateSet& states) { return any_of<2>(states, {"DOWN", "ERROR"}); }

bool node_is_drain(const StateSet& states) {
  return any_of<3>(states, {"DRAIN", "DRAINED", "DRAINING"}) && !states.contains("UNDRAIN");
}

bool node_is_completing(const StateSet& states) { return states.contains("COMPLETING"); }

bool node_has_jobs(const StateSet& states) { return any_of<3>(states, {"ALLOCATED", "MIXED", "COMPLETING"}); }

bool node_takes_jobs(const StateSet& states) {
  return any_of<3>(states, {"IDLE", "MIXED", "ALLOCATED"}) && !any_of(states, closed) && node_answers(states);
}

bool node_is_dynamic(const StateSet& states) { return any_of<2>(states, {"DYNAMIC_NORM", "DYNAMIC_FUTURE"}); }

bool node_answers(const StateSet& states) { return !any_of<2>(states, {"NOT_RESPONDING", "UNKNOWN"}); }

bool job_is_running(const StateSet& states) { return states.contains("RUNNING") && !states.contains("COMPLETING"); }

bool job_is_pending(const StateSet& states) { return states.contains("PENDING") && !states.contains("COMPLETING"); }

bool job_is_completing(const StateSet& states) { return states.contains("COMPLETING"); }

bool job_is_active(const StateSet& states) { return !any_of(states, ended) && !states.empty(); }

bool job_is_ended(const StateSet& states) { return any_of(states, ended) && !states.contains("COMPLETING"); }

bool reason_is_ours(std::string_view reason) { return reason.starts_with(names::reason_prefix); }

}  // namespace homeostat::slurm
