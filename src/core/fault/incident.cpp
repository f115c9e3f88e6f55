#include "core/fault/incident.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace homeostat::fault {

std::string_view to_string(IncidentState state) { return state == IncidentState::gathering ? "Gathering" : "Open"; }

namespace {

// So many devices of a kind do not fail by chance within a second: what they share has failed.
constexpr size_t many_devices = 3;
constexpr Duration same_moment{1'000};

// What attaches to one fault is looked at anew each time: its true cause may have come after it. Only what was a root
// itself has an incident to bring along.
bool brings_incident(const LedgerEntry& entry, const Occurrence& seen) {
  if (entry.incident.empty()) return false;
  return !attaches_to_one(seen) || (entry.role == Role::root && seen.cause.family != Family::teardown);
}

// Entries joined to groups. A group is known by its smallest member.
class Groups {
 public:
  Groups(const std::vector<LedgerEntry>& entries, const std::vector<Occurrence>& seen)
      : parent_(entries.size()), since_(entries.size()), assigned_(entries.size()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (size_t i = 0; i < entries.size(); ++i) {
      assigned_[i] = brings_incident(entries[i], seen[i]);
      since_[i] = assigned_[i] ? entries[i].incident_since : seen[i].at;
    }
  }
  size_t find(size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  void unite(size_t a, size_t b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    const auto low = std::min(a, b), high = std::max(a, b);
    parent_[high] = low;
    since_[low] = std::min(since_[low], since_[high]);
    assigned_[low] = assigned_[low] || assigned_[high];
  }
  TimePoint since(size_t i) const { return since_[find(i)]; }
  bool assigned(size_t i) const { return assigned_[find(i)]; }

 private:
  std::vector<size_t> parent_;
  std::vector<TimePoint> since_;
  std::vector<bool> assigned_;
};

std::vector<Occurrence> occurrences_of(const std::vector<LedgerEntry>& entries,
                                       std::span<const std::pair<std::string, std::string>> names) {
  std::vector<Occurrence> seen;
  seen.reserve(entries.size());
  for (const auto& entry : entries) {
    std::string_view device = entry.finding.device;
    for (const auto& [other_name, pci] : names)
      if (device == other_name) device = pci;
    seen.push_back({&entry.finding, device, cause_of(entry.finding), entry.began});
  }
  return seen;
}

std::vector<size_t> by_time(const std::vector<LedgerEntry>& entries, const std::vector<Occurrence>& seen) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(seen[a].at, entries[a].id) < std::tie(seen[b].at, entries[b].id);
  });
  return order;
}

void join_same_incident(const std::vector<LedgerEntry>& entries, const std::vector<Occurrence>& seen, Groups& groups) {
  for (size_t i = 0; i < entries.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (entries[i].incident == entries[j].incident && brings_incident(entries[i], seen[i]) &&
          brings_incident(entries[j], seen[j]))
        groups.unite(i, j);
}

// The window counts from the group's first entry: no chain of lines makes it longer.
void join_companions(const std::vector<Occurrence>& seen, const std::vector<size_t>& order, const Topology& topology,
                     Groups& groups) {
  for (size_t j = 1; j < order.size(); ++j)
    for (size_t i = j; i-- > 0;) {
      const auto late = order[j], early = order[i];
      if (seen[late].at - seen[early].at > companion_window) break;
      if (attaches_to_one(seen[late]) || attaches_to_one(seen[early])) continue;
      if (seen[late].at - groups.since(early) > companion_window ||
          seen[late].at - groups.since(late) > companion_window)
        continue;
      if (groups.find(late) != groups.find(early) && are_companions(seen[early], seen[late], topology))
        groups.unite(early, late);
    }
}

// Of networks only what the kernel said: a probe finds a port down long after it went.
bool counts_as_failed_device(const Occurrence& o) {
  if (o.device.empty()) return false;
  return gpu_has_died(o) ||
         (o.finding->component == "nic" && !o.cause.after_effect && o.finding->severity >= Severity::warn);
}

bool is_nic(const Occurrence& o) { return o.cause.family == Family::nic; }

// How many devices of one kind failed in the same moment as `centre`.
std::vector<size_t> failed_together(const std::vector<Occurrence>& seen, size_t centre) {
  std::vector<size_t> together;
  std::set<std::string_view> devices;
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto apart = seen[i].at > seen[centre].at ? seen[i].at - seen[centre].at : seen[centre].at - seen[i].at;
    if (apart > same_moment || !counts_as_failed_device(seen[i]) || is_nic(seen[i]) != is_nic(seen[centre])) continue;
    together.push_back(i);
    devices.insert(is_nic(seen[i]) ? seen[i].device : seen[i].device.substr(0, seen[i].device.find('.')));
  }
  if (devices.size() < many_devices) together.clear();
  return together;
}

void join_whole_node(const std::vector<Occurrence>& seen, Groups& groups) {
  for (size_t centre = 0; centre < seen.size(); ++centre) {
    if (!counts_as_failed_device(seen[centre])) continue;
    const auto together = failed_together(seen, centre);
    for (auto i : together)
      if (seen[i].at - groups.since(centre) <= companion_window &&
          seen[centre].at - groups.since(i) <= companion_window)
        groups.unite(centre, i);
  }
}

bool is_deeper(const std::vector<LedgerEntry>& entries, const std::vector<Occurrence>& seen, size_t a, size_t b) {
  return std::tie(seen[a].cause.depth, seen[a].at, entries[a].id) <
         std::tie(seen[b].cause.depth, seen[b].at, entries[b].id);
}

// A new group that another one leads to, though it comes long after, is no incident of its own.
void join_late(const std::vector<LedgerEntry>& entries, const std::vector<Occurrence>& seen,
               const std::vector<size_t>& order, const Topology& topology, Groups& groups) {
  for (auto i : order) {
    if (groups.assigned(i) || attaches_to_one(seen[i])) continue;
    auto deepest = i;
    for (size_t k = 0; k < entries.size(); ++k)
      if (groups.find(k) == groups.find(i) && is_deeper(entries, seen, k, deepest)) deepest = k;
    std::optional<size_t> cause;
    for (auto k : order)
      if (!attaches_to_one(seen[k]) && groups.find(k) != groups.find(i) &&
          leads_later(seen[k], seen[deepest], topology))
        cause = k;
    if (cause) groups.unite(*cause, i);
  }
}

// How well `cause` explains an entry that attaches to one: smaller is better, nullopt is not at all.
using Fit = std::tuple<int, Duration, int, TimePoint, std::string_view>;
std::optional<Fit> fit_of(const Occurrence& cause, std::string_view cause_id, const Occurrence& entry,
                          const Topology& topology) {
  if (attaches_to_one(cause) && (cause.cause.family == Family::teardown || cause.cause.depth >= entry.cause.depth))
    return std::nullopt;
  const auto apart = entry.at > cause.at ? entry.at - cause.at : cause.at - entry.at;
  const bool near = apart <= companion_window && are_companions(cause, entry, topology);
  const bool same_device = same_pci_device(cause.device, entry.device);
  const auto fit = [&](int kind, Duration distance) {
    return Fit{kind, distance, cause.cause.depth, cause.at, cause_id};
  };
  if (names_cause(cause, entry)) return fit(0, apart);
  if (near && same_device) return fit(1, Duration(0));
  if (leads_later(cause, entry, topology)) return fit(2, apart);
  if (near) return fit(3, Duration(0));
  return std::nullopt;
}

void attach(const std::vector<LedgerEntry>& entries, const std::vector<Occurrence>& seen,
            const std::vector<size_t>& order, const Topology& topology, Groups& groups) {
  for (auto i : order) {
    if (!attaches_to_one(seen[i])) continue;
    std::optional<std::pair<Fit, size_t>> best;
    for (auto k : order) {
      const auto fit = k == i ? std::nullopt : fit_of(seen[k], entries[k].id, seen[i], topology);
      if (fit && (!best || *fit < best->first)) best = {*fit, k};
    }
    // Without a cause it stays where it is.
    for (auto k : order)
      if (!best && !attaches_to_one(seen[k]) && !entries[i].incident.empty() &&
          entries[k].incident == entries[i].incident)
        best = {Fit{}, k};
    if (best) groups.unite(best->second, i);
  }
}

// One PCI port's failure explains several lost devices below it better than as many devices failing at once.
std::optional<size_t> failed_port(const std::vector<size_t>& members, const std::vector<Occurrence>& seen,
                                  const Topology& topology) {
  for (auto p : members) {
    if (seen[p].cause.family != Family::pcie || !is_grave(seen[p])) continue;
    std::set<std::string_view> below;
    for (auto m : members)
      if (gpu_has_died(seen[m]) && topology.leads_to(seen[p].device, seen[m].device))
        below.insert(seen[m].device.substr(0, seen[m].device.find('.')));
    if (below.size() >= 2) return p;
  }
  return std::nullopt;
}

// By causality among those seen within the window: what comes later does not change what the incident is called.
size_t root_of(const std::vector<size_t>& members, const std::vector<LedgerEntry>& entries,
               const std::vector<Occurrence>& seen, TimePoint since, const Topology& topology) {
  std::vector<size_t> in_window;
  for (auto m : members)
    if (seen[m].at - since <= companion_window) in_window.push_back(m);
  if (in_window.empty()) in_window = members;
  if (const auto port = failed_port(in_window, seen, topology)) return *port;
  return *std::min_element(in_window.begin(), in_window.end(),
                           [&](size_t a, size_t b) { return is_deeper(entries, seen, a, b); });
}

size_t gpus_with_links_down(const std::vector<size_t>& members, const std::vector<Occurrence>& seen) {
  std::set<std::string_view> gpus;
  for (auto m : members)
    if (seen[m].cause.family == Family::nvlink) gpus.insert(seen[m].device);
  return gpus.size();
}

Role link_role(const Occurrence& root, const Occurrence& member, size_t gpus_hit) {
  const auto from = root.cause.family;
  // Of a switch and one GPU either end of the link may be at fault; where several GPUs suffer it is the switch.
  if (from == Family::fabric) return gpus_hit > 1 || member.cause.victim_kind ? Role::victim : Role::companion;
  if (same_pci_device(root.device, member.device)) return from == Family::nvlink ? Role::companion : Role::cascade;
  // Victims of a link that nobody here has lost: none of them is the other's cause.
  if (root.cause.victim_kind) return Role::companion;
  return Role::victim;
}

Role role_of(const Occurrence& root, const Occurrence& member, size_t gpus_hit) {
  if (member.cause.after_effect) return Role::cascade;
  switch (member.cause.family) {
    case Family::nvlink:
      return link_role(root, member, gpus_hit);
    case Family::program:
      return root.cause.family == Family::program ? Role::companion : Role::cascade;
    case Family::recovery:
      return member.finding->code == "RESET_BEGIN" && !same_pci_device(root.device, member.device) ? Role::victim
                                                                                                   : Role::companion;
    case Family::kernel:
      return root.cause.family == Family::kernel ? Role::companion : Role::cascade;
    default:
      return Role::companion;
  }
}

// The id of the oldest incident in the group, else a new one from the root that no other group has.
std::string id_of(const std::vector<size_t>& members, const std::vector<LedgerEntry>& entries,
                  const std::vector<Occurrence>& seen, size_t root) {
  const LedgerEntry* oldest = nullptr;
  for (auto m : members) {
    const auto& entry = entries[m];
    if (!brings_incident(entry, seen[m])) continue;
    if (!oldest || std::tie(entry.incident_since, entry.incident) < std::tie(oldest->incident_since, oldest->incident))
      oldest = &entry;
  }
  if (oldest) return oldest->incident;
  // Taken: what it began lives on without it, and now it begins another.
  const auto own = entries[root].id + "#" + format_rfc3339(seen[root].at);
  const auto is_taken = [&](const std::string& id) {
    for (size_t i = 0; i < entries.size(); ++i)
      if (entries[i].incident == id && brings_incident(entries[i], seen[i])) return true;
    return false;
  };
  auto id = own;
  for (size_t copy = 2; copy <= entries.size() + 1 && is_taken(id); ++copy) id = own + "/" + std::to_string(copy);
  return id;
}

bool assign(LedgerEntry& entry, const std::string& incident, TimePoint since, Role role) {
  if (entry.incident == incident && entry.incident_since == since && entry.role == role) return false;
  entry.incident = incident;
  entry.incident_since = since;
  entry.role = role;
  return true;
}

}  // namespace

bool join_incidents(std::vector<LedgerEntry>& entries, std::span<const std::pair<std::string, std::string>> names,
                    const Topology& topology) {
  const auto seen = occurrences_of(entries, names);
  const auto order = by_time(entries, seen);
  Groups groups(entries, seen);
  join_same_incident(entries, seen, groups);
  join_companions(seen, order, topology, groups);
  join_whole_node(seen, groups);
  join_late(entries, seen, order, topology, groups);
  attach(entries, seen, order, topology, groups);
  std::vector<std::vector<size_t>> members(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) members[groups.find(i)].push_back(i);
  bool changed = false;
  for (const auto& group : members) {
    if (group.empty()) continue;
    const auto since = groups.since(group.front());
    const auto root = root_of(group, entries, seen, since, topology);
    const auto id = id_of(group, entries, seen, root);
    const auto gpus_hit = gpus_with_links_down(group, seen);
    for (auto m : group)
      changed |= assign(entries[m], id, since, m == root ? Role::root : role_of(seen[root], seen[m], gpus_hit));
  }
  return changed;
}

namespace {

int gravity(RepairClass repair_class) {
  switch (repair_class) {
    case RepairClass::ignore:
      return 0;
    case RepairClass::watch:
      return 1;
    case RepairClass::restart_job:
      return 2;
    case RepairClass::drain_after_job:
      return 3;
    case RepairClass::reset:
      return 4;
    case RepairClass::replace_node:
      return 5;
  }
  return 0;
}

bool raises(const LedgerEntry& entry) { return entry.role != Role::cascade && entry.role != Role::victim; }

// Devices of the members that count as failed, where one shared cause has failed them.
bool concerns_whole_node(const std::vector<const LedgerEntry*>& members) {
  std::set<std::string_view> gpus, nics;
  for (const auto* entry : members) {
    const Occurrence o{&entry->finding, entry->finding.device, cause_of(entry->finding), entry->began};
    if (raises(*entry) && counts_as_failed_device(o))
      (is_nic(o) ? nics : gpus).insert(is_nic(o) ? o.device : o.device.substr(0, o.device.find('.')));
  }
  return gpus.size() >= many_devices || nics.size() >= many_devices;
}

std::string title_of(const LedgerEntry& root, const std::vector<const LedgerEntry*>& members) {
  std::string title =
      root.finding.title.empty() ? root.finding.component + " " + root.finding.code : root.finding.title;
  if (root.raised_to) title += "; it comes more often than is tolerated";
  if (cause_of(root.finding).victim_kind && root.finding.severity >= Severity::error)
    title += "; this GPU suffers from a link that another device has lost";
  if (concerns_whole_node(members))
    title.insert(0, "Several devices failed in the same moment, so what they share has: ");
  return title;
}

Incident describe(const std::vector<const LedgerEntry*>& members, std::span<const PolicyRule> rules, TimePoint now) {
  const auto* root = members.front();
  Incident incident;
  incident.id = root->incident.empty() ? root->id + "#" + format_rfc3339(root->began) : root->incident;
  incident.root = root->id;
  incident.cause = root->finding;
  incident.title = title_of(*root, members);
  incident.since = root->incident.empty() ? root->began : root->incident_since;
  for (const auto* entry : members) {
    incident.last_seen = std::max(incident.last_seen, entry->last_seen);
    if (incident.members.size() < IncidentSet::max_members)
      incident.members.push_back({entry->id, entry->incident.empty() ? Role::root : entry->role});
    else
      ++incident.left_out;
    if (!raises(*entry)) continue;
    const auto how = treatment(*entry, rules);
    if (gravity(how.repair_class) > gravity(incident.repair_class)) incident.repair_class = how.repair_class;
    incident.severity = std::max(incident.severity, entry->finding.severity);
    incident.at_once |= how.unambiguous;
  }
  // A clock that was set back makes nobody wait for ever.
  const auto age = now - incident.since;
  const bool young = age < companion_window && age > -companion_window;
  incident.state = young && !incident.at_once ? IncidentState::gathering : IncidentState::open;
  return incident;
}

// A lone note, or an after-effect of nothing.
bool is_only_a_note(const Incident& incident) {
  return incident.repair_class == RepairClass::ignore ||
         (incident.repair_class == RepairClass::watch && incident.severity <= Severity::info);
}

}  // namespace

IncidentSet incidents_of(std::span<const LedgerEntry> entries, std::span<const PolicyRule> rules, TimePoint now) {
  std::vector<std::vector<const LedgerEntry*>> groups;
  for (const auto& entry : entries) {
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return !entry.incident.empty() && group.front()->incident == entry.incident;
    });
    if (known == groups.end())
      groups.push_back({&entry});
    else
      known->push_back(&entry);
  }
  IncidentSet set;
  for (auto& group : groups) {
    // The root first, then those that count: what is left out of a long list is the least.
    std::stable_sort(group.begin(), group.end(),
                     [](const LedgerEntry* a, const LedgerEntry* b) { return a->role < b->role; });
    auto incident = describe(group, rules, now);
    if (!is_only_a_note(incident)) set.incidents.push_back(std::move(incident));
  }
  const auto graver = [](const Incident& a, const Incident& b) {
    return std::make_tuple(-gravity(a.repair_class), -static_cast<int>(a.severity), a.since, a.id) <
           std::make_tuple(-gravity(b.repair_class), -static_cast<int>(b.severity), b.since, b.id);
  };
  std::sort(set.incidents.begin(), set.incidents.end(), graver);
  if (set.incidents.size() > IncidentSet::max_incidents) {
    set.left_out = set.incidents.size() - IncidentSet::max_incidents;
    set.incidents.resize(IncidentSet::max_incidents);
  }
  std::sort(set.incidents.begin(), set.incidents.end(),
            [](const Incident& a, const Incident& b) { return std::tie(a.since, a.id) < std::tie(b.since, b.id); });
  return set;
}

std::optional<TimePoint> next_change(const IncidentSet& set) {
  std::optional<TimePoint> next;
  for (const auto& incident : set.incidents)
    if (incident.state == IncidentState::gathering && (!next || incident.since + companion_window < *next))
      next = incident.since + companion_window;
  return next;
}

}  // namespace homeostat::fault
