#include "core/fault/ledger.hpp"

#include <algorithm>
#include <functional>

#include "core/fault/catalog.hpp"
#include "core/fault/incident.hpp"

namespace homeostat::fault {

std::string_view to_string(Role role) {
  switch (role) {
    case Role::none:
      return "";
    case Role::root:
      return "root";
    case Role::companion:
      return "companion";
    case Role::cascade:
      return "cascade";
    case Role::victim:
      return "victim";
  }
  return "";
}

Role parse_role(std::string_view text) {
  for (const auto role : {Role::root, Role::companion, Role::cascade, Role::victim})
    if (to_string(role) == text) return role;
  return Role::none;
}

std::string finding_id(const Finding& finding) {
  std::string id = finding.component + ":" + finding.code;
  if (!finding.device.empty()) id += "@" + finding.device;
  return id;
}

namespace {

std::string printable(std::string_view text, size_t longest = 300) {
  std::string out(text.substr(0, longest));
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

// A reset cures what went wrong inside a GPU; not a missing cable, a dead bus or worn-out memory.
bool is_cured_by_reset(const Finding& finding) {
  const auto family = cause_of(finding).family;
  return is_of_gpu(family) && family != Family::bus && family != Family::power && family != Family::counter &&
         finding.action != "RMA" && finding.action != "REBOOT" && !finding.component.ends_with("-nvml") &&
         !finding.component.ends_with("-counters");
}

// Which entries a piece of good news takes out.
bool cured_by(const Finding& old, const Finding& news) {
  const auto is = [&news](std::string_view component, std::string_view code) {
    return news.component == component && news.code == code;
  };
  if (is("gpu-xid", "154/0x0") || is("gpu-reset-ack", "RESET_OK") || is("amd-gpu", "RESET_OK"))
    return same_pci_device(old.device, news.device) &&
           (is_cured_by_reset(old) || old.code == "RESET_FAILED");  // the one after it went through
  if (is("nic", "LINK_UP"))
    return old.component == "nic" && old.device == news.device &&
           (old.code == "LINK_DOWN" || old.code == "LINK_TRAINING");
  // What other good news take back is data. A finding that names no device is taken back whichever the news name.
  return old.component == news.component && Catalog::instance().clears(news.component, news.code, old.code) &&
         (old.device == news.device || old.device.empty() || news.device.empty() || old.upstream == news.device);
}

bool is_news_only(const Finding& finding) {
  return finding.action == "CLEAR" || finding.code == "154/0x0" || finding.code == "LINK_UP";
}

bool is_recovery_action(const Finding& finding) {
  return finding.component == "gpu-xid" && (finding.code == "154" || finding.code.starts_with("154/"));
}

// What comes and goes and leaves the device as it was.
bool leaves_no_state(const Finding& finding) {
  switch (finding.repair_class) {
    case RepairClass::ignore:
    case RepairClass::watch:
    case RepairClass::restart_job:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Ledger::comes_too_often(const LedgerEntry& entry, TimePoint now) {
  const auto limit = repeat_limit_of(entry.finding);
  return limit && history_.weigh(entry.id, *limit, now);
}

// Takes the marked entries out. An incident whose cause and companions are gone is over, with all that it has done.
bool Ledger::take_out(const std::vector<bool>& gone) {
  std::vector<std::string> touched, alive;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto& entry = entries_[i];
    if (gone[i])
      touched.push_back(entry.incident);
    else if (entry.role != Role::cascade && entry.role != Role::victim)
      alive.push_back(entry.incident);
  }
  if (touched.empty()) return false;
  const auto holds = [](const std::vector<std::string>& list, const std::string& id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  size_t index = 0;
  std::erase_if(entries_, [&](const LedgerEntry& entry) {
    const bool over = !entry.incident.empty() && holds(touched, entry.incident) && !holds(alive, entry.incident);
    return gone[index++] || over;
  });
  unjoined_ = true;  // another member may be the root now
  return true;
}

bool Ledger::resolve(const Finding& good_news, TimePoint seen) {
  std::vector<bool> gone(entries_.size());
  bool kept = false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    // Old news cures nothing that has come since.
    if (!cured_by(entries_[i].finding, good_news) || entries_[i].last_seen > seen) continue;
    entries_[i].cured = comes_too_often(entries_[i], seen);
    gone[i] = !entries_[i].cured;
    kept |= entries_[i].cured;
  }
  return take_out(gone) || kept;
}

void Ledger::count_dropped(std::string_view id) {
  constexpr size_t most_ids = 256;
  const auto hash = std::hash<std::string_view>{}(id);
  if (std::find(dropped_ids_.begin(), dropped_ids_.end(), hash) != dropped_ids_.end()) return;
  ++dropped_;
  if (dropped_ids_.size() < most_ids) dropped_ids_.push_back(hash);
}

// The mildest entry goes, the oldest of its kind first; but never for a milder one.
bool Ledger::make_room(const std::string& for_id, Severity for_severity) {
  if (entries_.size() < max_entries) return true;
  const auto mildest = std::min_element(
      entries_.begin(), entries_.end(),
      [](const LedgerEntry& a, const LedgerEntry& b) { return a.finding.severity < b.finding.severity; });
  const bool gives_way = mildest->finding.severity < for_severity;
  count_dropped(gives_way ? mildest->id : for_id);
  if (gives_way) entries_.erase(mildest);
  return gives_way;
}

Change Ledger::observe_again(LedgerEntry& known, const Finding& finding, TimePoint seen, std::string_view evidence) {
  if (seen - known.last_seen > pause && leaves_no_state(finding) && !known.raised_to) {
    known.began = seen;
    known.incident.clear();
    known.role = Role::none;
    unjoined_ = true;
  }
  known.count += finding.repeats;
  known.last_seen = std::max(known.last_seen, seen);
  known.cured = false;
  if (finding.severity <= known.finding.severity) return Change::repeated;
  known.finding = finding;
  known.evidence = printable(evidence);
  unjoined_ = true;
  return Change::fresh;
}

namespace {

// What a line says may be of any length and any bytes; what the API takes is not.
Finding bounded(Finding finding) {
  constexpr size_t longest_word = 80, longest_title = 400;
  finding.component = printable(finding.component, longest_word);
  finding.code = printable(finding.code, longest_word);
  finding.device = printable(finding.device, longest_word);
  finding.title = printable(finding.title, longest_title);
  return finding;
}

}  // namespace

Change Ledger::observe(const Finding& seen_finding, TimePoint seen, std::string_view evidence) {
  auto finding = bounded(seen_finding);
  for (const auto& [other_name, pci] : names_)
    if (finding.component == "gpu-reset-ack" && finding.device == other_name) finding.device = pci;
  if (is_news_only(finding)) return resolve(finding, seen) ? Change::resolved : Change::none;
  const auto id = finding_id(finding);
  if (const auto limit = repeat_limit_of(finding)) history_.add(id, *limit, seen, finding.repeats);
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const LedgerEntry& e) { return e.id == id; });
  if (known != entries_.end()) return observe_again(*known, finding, seen, evidence);
  LedgerEntry fresh{id, finding, seen, seen, finding.repeats, printable(evidence)};
  fresh.began = seen;
  unjoined_ = true;
  // A new recovery action of a GPU takes the place of the one before it, and its part in the incident.
  const auto before = std::find_if(entries_.begin(), entries_.end(), [&](const LedgerEntry& e) {
    return is_recovery_action(finding) && is_recovery_action(e.finding) &&
           same_pci_device(e.finding.device, finding.device);
  });
  if (before != entries_.end()) {
    fresh.began = before->began;
    fresh.incident = before->incident;
    fresh.incident_since = before->incident_since;
    fresh.role = before->role;
    entries_.erase(before);
  } else if (!make_room(id, finding.severity)) {
    return Change::none;
  }
  entries_.push_back(std::move(fresh));
  return Change::fresh;
}

bool Ledger::retain(std::string_view component, std::span<const std::string> still_there_ids) {
  std::vector<bool> gone(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i)
    gone[i] = entries_[i].finding.component == component &&
              std::find(still_there_ids.begin(), still_there_ids.end(), entries_[i].id) == still_there_ids.end();
  return take_out(gone);
}

bool Ledger::weigh_repeats(TimePoint now) {
  bool changed = false;
  std::vector<bool> gone(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    auto& entry = entries_[i];
    const auto limit = repeat_limit_of(entry.finding);
    std::optional<RepairClass> raised_to;
    if (limit && history_.weigh(entry.id, *limit, now)) raised_to = limit->then;
    changed |= raised_to != entry.raised_to;
    entry.raised_to = raised_to;
    gone[i] = entry.cured && !raised_to;
  }
  return take_out(gone) || changed;
}

bool Ledger::settle(TimePoint now) {
  bool changed = weigh_repeats(now);
  if (!unjoined_) return changed;
  unjoined_ = false;
  ++joinings_;
  changed |= join_incidents(entries_, names_, topology_);
  return changed;
}

void Ledger::name_device(std::string_view other_name, std::string_view pci_device) {
  const auto known =
      std::find_if(names_.begin(), names_.end(), [&](const auto& name) { return name.first == other_name; });
  if (known != names_.end() && known->second == pci_device) return;
  if (known == names_.end() && names_.size() >= max_names) return;
  if (known != names_.end())
    known->second = pci_device;
  else
    names_.emplace_back(other_name, pci_device);
  unjoined_ = true;  // what stood alone may be of a device that another entry names
}

void Ledger::restore(std::vector<LedgerEntry> entries, std::uint64_t dropped,
                     std::vector<RepeatHistory::Record> history) {
  if (entries.size() > max_entries) entries.resize(max_entries);
  entries_ = std::move(entries);
  dropped_ = dropped;
  history_.restore(std::move(history));
  join_incidents(entries_, names_, topology_);
  unjoined_ = false;
}

void Ledger::clear() {
  entries_.clear();
  history_.clear();
  dropped_ids_.clear();
  dropped_ = 0;
  unjoined_ = false;
}

}  // namespace homeostat::fault
