#include "core/repair/record.hpp"

#include <algorithm>

#include "core/names.hpp"

namespace homeostat::repair {

namespace {

struct Spelling {
  Phase phase;
  std::string_view text;
};

constexpr Spelling spellings[] = {
    {Phase::observed, "Observed"},   {Phase::notified, "Notified"}, {Phase::stopping, "Stopping"},
    {Phase::requeued, "Requeued"},   {Phase::draining, "Draining"}, {Phase::replacing, "Replacing"},
    {Phase::verifying, "Verifying"}, {Phase::done, "Done"},         {Phase::blocked, "Blocked"},
    {Phase::cancelled, "Cancelled"}, {Phase::failed, "Failed"},
};

// Bounds of one record, so that a repair that goes on for long cannot outgrow what the API server stores.
constexpr size_t max_phases = 64;
constexpr size_t max_steps = 256;

// FNV-1a, 64 bits (Fowler, Noll, Vo): short, stable over versions and machines; not a secret.
std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325ULL) {
  for (unsigned char byte : text) {
    hash ^= byte;
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

// FNV alone mixes its last bytes poorly into the high bits (finaliser of SplitMix64).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

Step* find_mutable(Record& record, std::string_view name) {
  auto found = std::ranges::find(record.steps, name, &Step::name);
  return found == record.steps.end() ? nullptr : &*found;
}

}  // namespace

std::string_view to_string(Phase phase) {
  for (const auto& [value, text] : spellings)
    if (value == phase) return text;
  return "Observed";
}

std::optional<Phase> parse_phase(std::string_view text) {
  for (const auto& [value, spelled] : spellings)
    if (spelled == text) return value;
  return std::nullopt;
}

bool is_terminal(Phase phase) { return phase == Phase::done || phase == Phase::cancelled || phase == Phase::failed; }

bool may_follow(Phase from, Phase to) {
  if (from == to) return true;
  using enum Phase;
  switch (from) {
    case observed:
      return to == notified || to == cancelled;
    case notified:
      return to == stopping || to == cancelled;
    case stopping:
      return to == requeued || to == cancelled;
    case requeued:
      return to == draining;
    case draining:
      return to == replacing || to == blocked || to == cancelled;
    case replacing:
      return to == verifying || to == blocked || to == cancelled || to == failed;
    case verifying:
      return to == done || to == replacing || to == failed;
    case blocked:
      return to == draining || to == replacing || to == cancelled;
    case done:
    case cancelled:
    case failed:
      return false;
  }
  return false;
}

std::string condition_source(std::string_view type, std::string_view status) {
  std::string source = "condition:";
  source.append(type).append("=").append(status);
  return source;
}

std::optional<SourceCondition> source_condition(const Fault& fault) {
  constexpr std::string_view prefix = "condition:";
  auto equals = fault.source.rfind('=');
  if (!fault.source.starts_with(prefix) || equals == std::string::npos) return std::nullopt;
  return SourceCondition{fault.source.substr(prefix.size(), equals - prefix.size()), fault.source.substr(equals + 1)};
}

std::string repair_name(std::string_view node_uid, std::string_view boot_id) {
  // The separator keeps ("ab","c") and ("a","bc") apart.
  std::uint64_t hash = mix(fnv1a(boot_id, fnv1a("\n", fnv1a(node_uid))));
  std::string name = "rep-";
  for (int shift = 60; shift >= 0; shift -= 4) name += "0123456789abcdef"[(hash >> shift) & 15];
  return name;
}

std::string machine_name(std::string_view pool, std::string_view token) {
  // No vowels: no words. 5 of 28 signs are 17 million names; a clash is refused by the provider as another token's
  // machine.
  constexpr std::string_view signs = "bcdfghjklmnpqrstvwxz23456789";
  std::uint64_t hash = mix(fnv1a(token));
  std::string name(pool);
  name += '-';
  for (int i = 0; i < 5; ++i, hash /= signs.size()) name += signs[hash % signs.size()];
  return name;
}

std::string spoken(const Fault& fault) {
  std::string_view component = fault.component;
  if (component.starts_with("gpu-") && component.ends_with("xid")) component.remove_prefix(4);
  return component.empty() ? fault.code : std::string(component) + " " + fault.code;
}

std::string slurm_reason(const Record& record) {
  std::string reason(names::reason_prefix);
  reason += " " + record.name + ": " + spoken(record.fault);
  if (!record.fault.device.empty()) reason += " on " + record.fault.device;
  return reason;
}

void enter(Record& record, Phase phase, TimePoint now) {
  if (record.phase == phase && !record.phases.empty()) return;
  record.phase = phase;
  record.next_look.reset();
  // The first entries tell the story; a repair that is blocked again and again drops the oldest of the later ones.
  if (record.phases.size() >= max_phases) record.phases.erase(record.phases.begin() + max_phases / 2);
  record.phases.push_back({phase, now});
}

TimePoint entered_at(const Record& record) {
  return record.phases.empty() ? TimePoint{} : record.phases.back().entered_at;
}

Phase phase_before_blocked(const Record& record) {
  for (auto entry = record.phases.rbegin(); entry != record.phases.rend(); ++entry)
    if (entry->phase != Phase::blocked) return entry->phase;
  return Phase::draining;
}

const Step* find_step(const Record& record, std::string_view name) {
  auto found = std::ranges::find(record.steps, name, &Step::name);
  return found == record.steps.end() ? nullptr : &*found;
}

void intend(Record& record, std::string_view name, std::string_view operation_id, TimePoint now) {
  if (find_mutable(record, name) != nullptr || record.steps.size() >= max_steps) return;
  record.steps.push_back({std::string(name), std::string(operation_id), now, std::nullopt, "", ""});
}

void finish(Record& record, std::string_view name, TimePoint now, std::string_view message) {
  Step* step = find_mutable(record, name);
  if (step == nullptr || step->finished_at) return;
  step->finished_at = now;
  step->outcome = "ok";
  step->message = message;
}

void note_failure(Record& record, std::string_view name, std::string_view message) {
  Step* step = find_mutable(record, name);
  if (step == nullptr || step->finished_at) return;
  step->outcome = "failed";
  step->message = message.substr(0, 512);
}

bool finished(const Record& record, std::string_view name) {
  const Step* step = find_step(record, name);
  return step != nullptr && step->finished_at.has_value();
}

}  // namespace homeostat::repair
