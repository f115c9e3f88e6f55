#include "agent/events.hpp"

#include <algorithm>
#include <set>

namespace homeostat::agent {

namespace {

constexpr double most_tokens = 8;
constexpr double tokens_per_ms = 0.0001;  // one in ten seconds

std::string_view reason_of(std::string_view verdict) {
  if (verdict == "Healthy") return "NodeHealthy";
  if (verdict == "Degraded") return "NodeDegraded";
  if (verdict == "Unhealthy") return "NodeUnhealthy";
  return "NodeUnknown";
}

std::string opened(const api::HealthIncident& incident) {
  std::string message = incident.title;
  message.append(" (").append(incident.root).append("; class ").append(incident.repair_class);
  if (incident.members.size() > 1)
    message.append("; ").append(std::to_string(incident.members.size() - 1)).append(" more findings of the same fault");
  return message.append(")");
}

}  // namespace

void EventTeller::begin(const api::NodeHealthStatus& told) {
  if (told.last_report == TimePoint{}) return;  // nobody has reported yet
  verdict_ = told.verdict;
  open_.clear();
  for (const auto& incident : told.incidents)
    if (incident.state == "Open") open_[incident.id] = incident.title;
}

bool EventTeller::may_tell(Duration monotonic) {
  tokens_ = std::min(most_tokens, tokens_ + static_cast<double>((monotonic - last_).count()) * tokens_per_ms);
  last_ = monotonic;
  if (tokens_ < 1) {
    ++left_out_;
    return false;
  }
  tokens_ -= 1;
  return true;
}

std::vector<NodeEvent> EventTeller::look(const api::NodeHealthStatus& status, Duration monotonic) {
  std::vector<NodeEvent> events;
  std::set<std::string_view> there;
  const auto tell = [&](bool warning, std::string_view reason, std::string message) {
    if (!may_tell(monotonic)) return;
    if (left_out_ > 0) message.append(" (").append(std::to_string(left_out_)).append(" earlier events were left out)");
    left_out_ = 0;
    events.push_back({warning, reason, std::move(message)});
  };
  for (const auto& incident : status.incidents) {
    there.insert(incident.id);
    if (incident.state != "Open" || open_.contains(incident.id)) continue;
    open_[incident.id] = incident.title;
    tell(true, "IncidentOpened", opened(incident));
  }
  std::erase_if(open_, [&](const auto& known) {
    if (there.contains(known.first)) return false;
    tell(false, "IncidentClosed", "No longer there: " + known.second);
    return true;
  });
  // That a starting agent cannot say yet is no news.
  const bool starting = status.verdict == "Unknown" && status.reason == "ProbePending";
  if (status.verdict != verdict_ && !starting) {
    const bool first_and_good = verdict_.empty() && status.verdict == "Healthy";
    verdict_ = status.verdict;
    if (!first_and_good) tell(status.verdict != "Healthy", reason_of(status.verdict), status.message);
  }
  return events;
}

}  // namespace homeostat::agent
