// NVLink and the fabric behind it.
#include <algorithm>
#include <utility>

#include "core/fault/gpu_memory.hpp"

namespace homeostat::fault {

namespace {

// How many links must be up: what the model has where its GPUs work together, or what was up before. With MIG links are
// not used, and a lone GPU (as in a small virtual machine) has nobody to talk to.
unsigned wanted_links(const GpuLook& look) {
  if (look.gpu.mig_enabled.value_or(false)) return 0;
  const unsigned by_model = look.model && look.siblings > 1 ? look.model->nvlinks : 0;
  return std::max(by_model, look.memory.most_links);
}

std::string down_links(const GpuReading& gpu) {
  std::string text;
  for (const auto& link : gpu.links)
    if (!link.up) {
      text += text.empty() ? "" : ", ";
      text += std::to_string(link.link);
    }
  return text;
}

void judge_missing_links(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory;
  const auto up = links_up(look.gpu);
  const auto wanted = wanted_links(look);
  // Links that have never been up may wait for the fabric manager, which trains them minutes after boot.
  const auto hold = memory.most_links == 0 && up == 0 ? look.limits.fabric : look.limits.link_down;
  // No list at all: this driver cannot say, or the question failed.
  if (!look.gpu.links.empty()) memory.links_missing.update(up < wanted, look.elapsed, hold);
  const bool dropped = memory.most_links > up;
  if (!look.gpu.mig_enabled.value_or(false)) memory.most_links = std::max(memory.most_links, up);
  if (!memory.links_missing.raised()) return;
  const bool alike = look.links_alike && !dropped;
  std::string title = std::to_string(up) + " of " + std::to_string(wanted) + " NVLinks are up";
  if (const auto down = down_links(look.gpu); !down.empty()) title += "; down: " + down;
  if (alike) title += "; all GPUs here show the same, so the machine may be built so";
  findings.push_back(look.make(alike ? gpu_codes::links_fewer : gpu_codes::link_down, std::move(title)));
}

struct LinkTrouble {
  Severity severity = Severity::none;
  unsigned link = 0;
  std::uint64_t count = 0;
  std::string_view what;
};

// The gravest that one link's counters tell.
LinkTrouble judge_one_link(const GpuLook& look, const NvLinkReading& link, LinkMemory& memory) {
  const auto hour = look.limits.hour;
  const auto& limits = look.limits;
  const bool unrecovered = memory.unrecovered.update(link.unrecovered, look.now, hour, 1);
  const bool often = memory.recovery_error.update(link.recovery, look.now, hour, limits.link_recoveries_error);
  const bool some = memory.recovery_warn.update(link.recovery, look.now, hour, limits.link_recoveries_warn);
  const bool crc = memory.crc.update(link.crc, look.now, hour, limits.link_crc_per_hour);
  const bool replay = memory.replay.update(link.replay, look.now, hour, limits.link_replays_per_hour);
  const bool symbol = memory.symbol.update(link.symbol, look.now, hour, limits.link_symbols_per_hour);
  if (unrecovered) return {Severity::error, link.link, memory.unrecovered.within(), "failed recoveries"};
  if (often)
    return {Severity::error, link.link, memory.recovery_error.within(), "recoveries (links like it fail soon)"};
  if (crc) return {Severity::error, link.link, memory.crc.within(), "checksum errors"};
  if (some) return {Severity::warn, link.link, memory.recovery_warn.within(), "recoveries"};
  if (replay) return {Severity::warn, link.link, memory.replay.within(), "replays"};
  if (symbol) return {Severity::warn, link.link, memory.symbol.within(), "errors left after correction"};
  return {};
}

Finding link_finding(const GpuLook& look, const LinkTrouble& worst, unsigned links) {
  std::string title = "NVLink " + std::to_string(worst.link);
  title += " had ";
  title += std::to_string(worst.count);
  title += ' ';
  title += worst.what;
  title += " within an hour";
  if (links > 1) title += ", and " + std::to_string(links - 1) + " more links have errors";
  return look.make(worst.severity == Severity::error ? gpu_codes::link_errors : gpu_codes::link_errors_some,
                   std::move(title));
}

}  // namespace

// One finding for all links of a GPU: eighteen would drown the others.
void judge_links(const GpuLook& look, Findings& findings) {
  judge_missing_links(look, findings);
  LinkTrouble worst;
  unsigned troubled = 0;
  for (const auto& link : look.gpu.links) {
    if (link.link >= max_nvlinks) continue;
    if (look.memory.links.size() <= link.link) look.memory.links.resize(link.link + 1);
    const auto trouble = judge_one_link(look, link, look.memory.links[link.link]);
    if (trouble.severity == Severity::none) continue;
    ++troubled;
    if (std::pair(trouble.severity, trouble.count) > std::pair(worst.severity, worst.count)) worst = trouble;
  }
  const bool before = look.memory.link_errors_before.update(std::nullopt, look.now, look.limits.hour, 1);
  if (troubled > 0)
    findings.push_back(link_finding(look, worst, troubled));
  else if (before)
    findings.push_back(look.make(gpu_codes::link_errors_some, "NVLinks had errors before the agent was restarted"));
}

namespace {

// Two bits each, where 1 says that it is so; the configuration has four, where 0 and 1 are good.
constexpr unsigned health_degraded = 0, health_route = 4, health_access_timeout = 6, health_configuration = 8;
bool says_yes(std::uint32_t mask, unsigned shift) { return (mask >> shift & 3) == 1; }

std::string configuration_words(unsigned value) {
  switch (value) {
    case 2:
      return "the system's GUID is wrong";
    case 3:
      return "the chassis' serial number is wrong";
    case 4:
      return "the GPU is in no partition";
    case 5:
      return "too few NVLinks are up";
    case 6:
      return "the GPU's firmware does not fit";
    case 7:
      return "the GPU's location is wrong";
    default:
      return "its configuration is wrong (" + std::to_string(value) + ")";
  }
}

void judge_fabric_health(const GpuLook& look, std::uint32_t mask, Findings& findings) {
  const auto configuration = mask >> health_configuration & 0xf;
  std::string what;
  const auto add = [&](std::string_view words) {
    what += what.empty() ? "" : "; ";
    what += words;
  };
  if (says_yes(mask, health_degraded)) add("its bandwidth is degraded");
  if (says_yes(mask, health_route)) add("a route is unhealthy");
  if (says_yes(mask, health_access_timeout)) add("it recovers from an access timeout");
  if (configuration > 1) add(configuration_words(configuration));
  if (!what.empty()) findings.push_back(look.make(gpu_codes::fabric_degraded, "NVLink's fabric is not sound: " + what));
}

}  // namespace

void judge_fabric(const GpuLook& look, Findings& findings) {
  auto& memory = look.memory;
  const auto& fabric = look.gpu.fabric;
  if (fabric) {
    const bool starting = fabric->state == FabricState::not_started || fabric->state == FabricState::in_progress;
    if (!starting) memory.fabric_starting = Lasting();  // having joined ends it at once
    memory.fabric_starting.update(starting, look.elapsed, look.limits.fabric);
  }
  if (memory.fabric_starting.raised())
    findings.push_back(look.make(gpu_codes::fabric_waits,
                                 "The GPU has not joined NVLink's fabric for minutes: is the fabric manager running?"));
  if (!fabric || fabric->state != FabricState::completed) return;
  if (fabric->status != 0)
    findings.push_back(
        look.make(gpu_codes::fabric_failed, "The GPU could not join NVLink's fabric. " + fabric->status_sentence));
  judge_fabric_health(look, fabric->health_mask, findings);
}

}  // namespace homeostat::fault
