#include "core/fault/ledger.hpp"

#include <algorithm>

namespace homeostat::fault {

std::string finding_id(const Finding& finding) {
  std::string id = finding.component + ":" + finding.code;
  if (!finding.device.empty()) id += "@" + finding.device;
  return id;
}

namespace {

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 300));
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

bool same_gpu(std::string_view a, std::string_view b) {
  return !a.empty() && a.substr(0, a.find('.')) == b.substr(0, b.find('.'));
}

// Which entries a piece of good news takes out.
bool cured_by(const Finding& old, const Finding& news) {
  const auto is = [&news](std::string_view component, std::string_view code) {
    return news.component == component && news.code == code;
  };
  const bool of_gpu = old.component == "gpu-xid" || old.component == "nvlink";
  // The driver no longer asks for a recovery, or a reset went through: what a reset cures is cured. A lost GPU is not.
  if (is("gpu-xid", "154/0x0") || is("gpu-reset-ack", "RESET_OK"))
    return (of_gpu || old.component == "gpu-reset-ack") && same_gpu(old.device, news.device) &&
           old.repair_class != RepairClass::replace_node;
  if (is("amd-gpu", "RESET_OK")) return old.component == "amd-gpu" && same_gpu(old.device, news.device);
  if (is("nic", "LINK_UP"))
    return old.component == "nic" && old.device == news.device &&
           (old.code == "LINK_DOWN" || old.code == "LINK_TRAINING");
  if (is("nic", "BOND_SLAVE_UP")) return old.component == "nic" && old.code == "BOND_SLAVE_DOWN";
  if (is("nfs", "SERVER_OK")) return old.component == "nfs" && old.code == "NOT_RESPONDING";
  if (is("lustre", "CONNECTION_RESTORED")) return old.component == "lustre" && old.code == "CONNECTION_LOST";
  return false;
}

bool is_news_only(const Finding& finding) {
  static constexpr std::string_view codes[] = {"154/0x0",       "RESET_OK",  "LINK_UP",
                                               "BOND_SLAVE_UP", "SERVER_OK", "CONNECTION_RESTORED"};
  return std::find(std::begin(codes), std::end(codes), finding.code) != std::end(codes);
}

}  // namespace

bool Ledger::resolve(const Finding& good_news) {
  auto news = good_news;
  for (const auto& [uuid, pci] : aliases_)
    if (news.device == uuid) news.device = pci;
  // A new recovery action replaces the one before it.
  const bool recovery_change = news.component == "gpu-xid" && news.code.starts_with("154/");
  return std::erase_if(entries_, [&](const LedgerEntry& entry) {
           const bool old_recovery = recovery_change && entry.finding.code.starts_with("154") &&
                                     entry.finding.code != news.code && same_gpu(entry.finding.device, news.device);
           return old_recovery || cured_by(entry.finding, news);
         }) > 0;
}

// The mildest entry goes, the oldest of its kind first; but never for a milder one.
bool Ledger::make_room(Severity for_severity) {
  if (entries_.size() < max_entries) return true;
  ++dropped_;
  const auto mildest = std::min_element(
      entries_.begin(), entries_.end(),
      [](const LedgerEntry& a, const LedgerEntry& b) { return a.finding.severity < b.finding.severity; });
  if (mildest->finding.severity >= for_severity) return false;
  entries_.erase(mildest);
  return true;
}

Change Ledger::observe(const Finding& finding, TimePoint seen, std::string_view evidence) {
  const bool resolved = resolve(finding);
  if (is_news_only(finding)) return resolved ? Change::resolved : Change::none;
  const auto id = finding_id(finding);
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const LedgerEntry& e) { return e.id == id; });
  if (known == entries_.end()) {
    if (!make_room(finding.severity)) return resolved ? Change::resolved : Change::none;
    entries_.push_back({id, finding, seen, seen, finding.repeats, printable(evidence)});
    return Change::fresh;
  }
  known->count += finding.repeats;
  known->last_seen = std::max(known->last_seen, seen);
  if (finding.severity <= known->finding.severity) return Change::repeated;
  known->finding = finding;
  known->evidence = printable(evidence);
  return Change::fresh;
}

bool Ledger::retain(std::string_view component, std::span<const std::string> still_there_ids) {
  return std::erase_if(entries_, [&](const LedgerEntry& entry) {
           return entry.finding.component == component &&
                  std::find(still_there_ids.begin(), still_there_ids.end(), entry.id) == still_there_ids.end();
         }) > 0;
}

void Ledger::name_device(std::string_view uuid, std::string_view pci_device) {
  const auto known =
      std::find_if(aliases_.begin(), aliases_.end(), [&](const auto& alias) { return alias.first == uuid; });
  if (known != aliases_.end())
    known->second = pci_device;
  else if (aliases_.size() < max_entries)
    aliases_.emplace_back(uuid, pci_device);
}

void Ledger::restore(std::vector<LedgerEntry> entries, std::uint64_t dropped) {
  if (entries.size() > max_entries) entries.resize(max_entries);
  entries_ = std::move(entries);
  dropped_ = dropped;
}

void Ledger::clear() {
  entries_.clear();
  dropped_ = 0;
}

}  // namespace homeostat::fault
