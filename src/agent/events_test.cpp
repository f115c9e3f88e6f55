#include "agent/events.hpp"

#include <doctest/doctest.h>

using namespace homeostat;
using namespace homeostat::agent;

namespace {

api::HealthIncident incident(std::string id, std::string state = "Open") {
  api::HealthIncident out;
  out.id = std::move(id);
  out.root = "gpu-xid:79@0000:0a:00";
  out.title = "The GPU has fallen off the bus";
  out.repair_class = "replace-node";
  out.state = std::move(state);
  out.members = {{out.root, "root"}};
  return out;
}

api::NodeHealthStatus status(std::string verdict, std::vector<api::HealthIncident> incidents) {
  api::NodeHealthStatus out;
  out.verdict = std::move(verdict);
  out.message = "A sentence.";
  out.last_report = TimePoint(Duration(1));
  out.incidents = std::move(incidents);
  return out;
}

std::vector<std::string> reasons(const std::vector<NodeEvent>& events) {
  std::vector<std::string> out;
  out.reserve(events.size());
  for (const auto& event : events) out.emplace_back(event.reason);
  return out;
}

using Reasons = std::vector<std::string>;

}  // namespace

//   healthy ─ gathering ─ open ─ same ─ gone
//      -          -       2 told   -    2 told
TEST_CASE("an incident is told when it opens and when it closes, a verdict when it changes") {
  EventTeller teller;
  CHECK(teller.look(status("Healthy", {}), Duration(1)).empty());
  CHECK(teller.look(status("Healthy", {incident("a", "Gathering")}), Duration(2)).empty());
  const auto opened = teller.look(status("Unhealthy", {incident("a")}), Duration(3));
  CHECK(reasons(opened) == Reasons{"IncidentOpened", "NodeUnhealthy"});
  CHECK(opened[0].warning);
  CHECK(opened[0].message == "The GPU has fallen off the bus (gpu-xid:79@0000:0a:00; class replace-node)");
  CHECK(teller.look(status("Unhealthy", {incident("a")}), Duration(4)).empty());
  const auto closed = teller.look(status("Healthy", {}), Duration(5));
  CHECK(reasons(closed) == Reasons{"IncidentClosed", "NodeHealthy"});
  CHECK_FALSE(closed[1].warning);
}

TEST_CASE("what the agent before this one told is not told again") {
  EventTeller teller;
  teller.begin(status("Unhealthy", {incident("a")}));
  auto starting = status("Unknown", {incident("a")});
  starting.reason = "ProbePending";
  CHECK(teller.look(starting, Duration(1)).empty());
  CHECK(teller.look(status("Unhealthy", {incident("a")}), Duration(2)).empty());
  CHECK(reasons(teller.look(status("Unhealthy", {incident("a"), incident("b")}), Duration(3))) ==
        Reasons{"IncidentOpened"});
}

TEST_CASE("a storm is told by a few events, and how many were left out") {
  EventTeller teller;
  size_t told = 0;
  for (int i = 0; i < 1000; ++i)
    told += teller.look(status("Unhealthy", {incident(std::to_string(i))}), Duration(i)).size();
  CHECK(told <= 8);
  const auto later = teller.look(status("Unhealthy", {incident("z")}), Duration(30'000));
  REQUIRE_FALSE(later.empty());
  CHECK(later[0].message.find("earlier events were left out") != std::string::npos);
}
