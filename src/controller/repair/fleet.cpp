#include "controller/repair/fleet.hpp"

#include <algorithm>
#include <utility>

#include "api/repair.hpp"
#include "core/names.hpp"
#include "core/repair/detectors.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {
// Four heartbeats of the agent.
constexpr Duration counts_as_silent{40'000};
}  // namespace

FleetWatch::Entry& FleetWatch::entry(const std::string& node) {
  auto [found, fresh] = nodes_.try_emplace(node);
  if (fresh) found->second.heard = clock_.monotonic();
  return found->second;
}

void FleetWatch::see_node(const kube::Object& node) {
  std::lock_guard lock(mutex_);
  entry(kube::name_of(node)).in_pool = kube::has_label(node, names::pool_label);
}

bool FleetWatch::see_health(const kube::Object& health) {
  std::string report = io::string_at(health, {"status", "lastReport"});
  if (report.empty()) return false;
  std::lock_guard lock(mutex_);
  Entry& node = entry(kube::name_of(health));
  if (node.reported && node.last_report == report) return false;
  node.reported = true;
  node.last_report = std::move(report);
  node.heard = clock_.monotonic();
  return std::exchange(node.told, false);
}

void FleetWatch::see_repair(const kube::Object& object) {
  repair::Record record = api::decode_repair(object);
  std::lock_guard lock(mutex_);
  if (repair::is_terminal(record.phase))
    in_repair_.erase(record.name);
  else
    in_repair_[record.name] = record.node;
}

void FleetWatch::forget_node(const std::string& name) {
  std::lock_guard lock(mutex_);
  nodes_.erase(name);
}

void FleetWatch::forget_repair(const std::string& name) {
  std::lock_guard lock(mutex_);
  in_repair_.erase(name);
}

Duration FleetWatch::silent_for(const std::string& node) const {
  std::lock_guard lock(mutex_);
  auto found = nodes_.find(node);
  return found == nodes_.end() ? Duration{0} : clock_.monotonic() - found->second.heard;
}

std::string FleetWatch::silence_of_many(const std::string& node) const {
  std::vector<repair::FleetNode> fleet;
  {
    std::lock_guard lock(mutex_);
    std::set<std::string> in_repair;
    for (const auto& [name, of] : in_repair_) in_repair.insert(of);
    Duration now = clock_.monotonic();
    fleet.reserve(nodes_.size());
    // Only nodes that should report: those of pools, whose agent has reported before, and that nobody takes away.
    for (const auto& [name, entry] : nodes_)
      if (entry.in_pool && entry.reported && !in_repair.contains(name))
        fleet.push_back({name, now - entry.heard >= counts_as_silent, entry.heard});
  }
  return repair::silence_of_many(node, fleet);
}

std::vector<kube::ObjectKey> FleetWatch::newly_silent(Duration after) {
  std::vector<kube::ObjectKey> silent;
  std::lock_guard lock(mutex_);
  Duration now = clock_.monotonic();
  for (auto& [name, entry] : nodes_) {
    if (!entry.in_pool || entry.told || now - entry.heard < after) continue;
    entry.told = true;
    silent.push_back({"", name});
  }
  return silent;
}

}  // namespace homeostat::controller
