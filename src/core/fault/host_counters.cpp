#include "core/fault/host_counters.hpp"

#include <algorithm>
#include <charconv>

#include "core/fault/counter_codes.hpp"

namespace homeostat::fault {

namespace {

using namespace std::chrono_literals;
namespace codes = counter_codes;

// One corrected error a second for ten minutes is a link with bad margins; a hundred slow the link down.
constexpr RateRule correctable_rule{600, 10min, 30min};
constexpr RateRule correctable_storm_rule{60'000, 10min, 30min};
constexpr RateRule nonfatal_rule{1, 60min, 60min};
constexpr RateRule nonfatal_often_rule{10, 60min, 60min};
constexpr RateRule fatal_rule{1, 60min, 60min};
constexpr RateRule corrected_memory_rule{1000, 60min, 60min};

constexpr Duration width_hold = 60s, speed_hold = 120s, link_quiet = 60s;
constexpr Duration silent_hold = 30s;
constexpr Duration nvme_busy_hold = 10s;   // a reset takes a few seconds
constexpr Duration nvme_stuck_hold = 60s;  // the driver gives a command up after 30 s, and resets
constexpr Duration nvme_gone_hold = 10s;
constexpr Duration stalled_hold = 120s;

std::string_view first_word(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  const auto end = text.find_first_of(" \t");
  const auto word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  return word;
}

std::string_view next_line(std::string_view& text) {
  const auto end = text.find('\n');
  const auto line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> aer_total(std::string_view text, std::string_view without) {
  std::optional<std::uint64_t> total;
  std::uint64_t less = 0;
  while (!text.empty()) {
    auto line = next_line(text);
    const auto name = first_word(line);
    const auto value = number_of(first_word(line));
    if (!value) continue;
    if (name.starts_with("TOTAL_ERR_")) total = value;
    if (!without.empty() && name == without) less = *value;
  }
  if (!total) return std::nullopt;
  return *total - std::min(*total, less);
}

std::string pci_device_key(const PciReading& device) {
  const auto dot = device.kind == PciKind::accelerator ? device.address.rfind('.') : std::string::npos;
  return device.address.substr(0, dot);
}

std::vector<Finding> PcieWatch::look(const std::vector<PciReading>& devices, Duration now) {
  std::vector<Finding> out;
  for (auto& [address, memory] : memory_) memory.seen = false;
  for (const auto& device : devices) {
    if (!memory_.contains(device.address) && memory_.size() >= max_devices) continue;
    auto& memory = memory_[device.address];
    memory.seen = true;
    look_at(device, devices, memory, now, out);
  }
  std::erase_if(memory_, [](const auto& entry) { return !entry.second.seen; });
  return out;
}

namespace {

// More than half of the same cards in this node have more of it.
bool peers_have_more(const PciReading& device, const std::vector<PciReading>& all,
                     std::optional<std::uint64_t> PciReading::* what) {
  size_t peers = 1, more = 0;  // the device itself is one of them
  for (const auto& other : all) {
    if (other.model != device.model || other.kind != device.kind || &other == &device || !(other.*what)) continue;
    ++peers;
    if (*(other.*what) > *(device.*what)) ++more;
  }
  return 2 * more > peers;
}

std::string_view kind_name(PciKind kind) {
  switch (kind) {
    case PciKind::accelerator:
      return "The accelerator ";
    case PciKind::network:
      return "The network card ";
    case PciKind::bridge:
      return "The PCIe port ";
  }
  return "The device ";
}

}  // namespace

void PcieWatch::look_at(const PciReading& device, const std::vector<PciReading>& all, Memory& memory, Duration now,
                        std::vector<Finding>& out) {
  const auto key = pci_device_key(device);
  const auto report = [&](const CounterCode& code, std::string_view what) {
    std::string title(kind_name(device.kind));
    title += device.address;
    title += what;
    out.push_back(counter_finding(code, key, std::move(title)));
  };
  if (memory.silent.observe(!device.trouble.empty(), now, silent_hold, silent_hold))
    report(codes::pcie_unreadable, " cannot be asked: " + (device.trouble.empty() ? "it is back" : device.trouble));

  const auto correctable = memory.correctable.take(device.correctable);
  const bool some = memory.correctable_rate.observe(correctable_rule, now, correctable);
  const bool storm = memory.correctable_storm.observe(correctable_storm_rule, now, correctable);
  if (some || storm)
    report(storm ? codes::pcie_correctable_storm : codes::pcie_correctable, " corrects PCIe errors at a high rate");
  const auto nonfatal = memory.nonfatal.take(device.nonfatal);
  const bool once = memory.nonfatal_rate.observe(nonfatal_rule, now, nonfatal);
  const bool often = memory.nonfatal_often.observe(nonfatal_often_rule, now, nonfatal);
  if (once || often) report(often ? codes::pcie_nonfatal_often : codes::pcie_nonfatal, " had non-fatal PCIe errors");
  if (memory.fatal_rate.observe(fatal_rule, now, memory.fatal.take(device.fatal)))
    report(codes::pcie_fatal, " had a fatal PCIe error");

  if (device.kind == PciKind::bridge) return;
  const auto watch = [&](Link& link, std::optional<std::uint64_t> PciReading::* what, std::uint64_t expected,
                         Duration hold, const CounterCode& lost, const CounterCode& never, std::string_view name) {
    if (!(device.*what)) return;
    const auto is = *(device.*what);
    link.best = std::max(link.best, is);
    const bool less = is < link.best || (is < expected && peers_have_more(device, all, what));
    const bool is_lost = link.lost.observe(less, now, hold, link_quiet);
    const bool is_never = link.never.observe(!less && is < expected, now, hold, link_quiet);
    if (is_lost)
      report(lost, std::string(" has lost PCIe link ") + std::string(name));
    else if (is_never)
      report(never, std::string(" has less PCIe link ") + std::string(name) + " than it and its port can do");
  };
  watch(memory.lanes, &PciReading::lanes, device.max_lanes.value_or(0), width_hold, codes::pcie_width,
        codes::pcie_width_since_boot, "width");
  // An idle accelerator slows its link down on purpose.
  if (device.kind == PciKind::network)
    watch(memory.speed, &PciReading::speed, device.max_speed.value_or(0), speed_hold, codes::pcie_speed,
          codes::pcie_speed_since_boot, "speed");
}

// Memory.

std::vector<Finding> MemoryWatch::look(const std::vector<MemoryReading>& controllers, Duration now) {
  std::vector<Finding> out;
  for (const auto& reading : controllers) {
    if (!memory_.contains(reading.controller) && memory_.size() >= max_controllers) continue;
    auto& memory = memory_[reading.controller];
    const auto report = [&](const CounterCode& code, std::string_view what) {
      std::string title = "Memory controller " + reading.controller;
      title += what;
      if (!reading.worst_dimm.empty() && reading.trouble.empty()) {
        title += "; the module with most is ";
        title += reading.worst_dimm;
      }
      out.push_back(counter_finding(code, reading.controller, std::move(title)));
    };
    if (memory.silent.observe(!reading.trouble.empty(), now, silent_hold, silent_hold))
      report(codes::memory_unreadable,
             " cannot be asked: " + (reading.trouble.empty() ? "it is back" : reading.trouble));
    if (memory.rate.observe(corrected_memory_rule, now, memory.corrected.take(reading.corrected)))
      report(codes::memory_ce, " corrects errors at a high rate");
    if (reading.uncorrected.value_or(0) > 0) report(codes::memory_ue, " had uncorrected errors since the boot");
  }
  return out;
}

// Disks.

std::vector<Finding> DiskWatch::look(const DiskReading& reading, Duration now) {
  std::vector<Finding> out;
  for (const auto& disk : reading.nvme) look_at_nvme(disk, now, out);
  for (const auto& disk : reading.blocks) look_at_block(disk, now, out);
  look_at_mounts(reading.mounts, out);
  for (const auto& filesystem : reading.filesystems) look_at_filesystem(filesystem, out);
  for (const auto& raid : reading.degraded_raids)
    out.push_back(counter_finding(codes::disk_raid, raid, "The array " + raid + " lacks a member"));
  if (silent_.observe(!reading.troubles.empty(), now, silent_hold, silent_hold) && !reading.troubles.empty())
    out.push_back(counter_finding(codes::disk_unreadable, "", "Disks cannot be asked: " + reading.troubles.front()));
  return out;
}

void DiskWatch::look_at_nvme(const NvmeReading& disk, Duration now, std::vector<Finding>& out) {
  if (!nvme_.contains(disk.name) && nvme_.size() >= max_known) return;
  auto& memory = nvme_[disk.name];
  const auto report = [&](const CounterCode& code, std::string_view what) {
    out.push_back(counter_finding(code, disk.name, "NVMe controller " + disk.name + std::string(what)));
  };
  if (disk.moved) {
    nvme_.erase(disk.name);
    return;
  }
  const bool gone = !disk.listed && memory.was_live && !disk.fabric;
  if (memory.gone.observe(gone, now, nvme_gone_hold, nvme_gone_hold)) report(codes::nvme_gone, " has gone");
  if (!disk.listed) return;
  if (memory.silent.observe(!disk.trouble.empty(), now, silent_hold, silent_hold))
    report(codes::disk_unreadable, " cannot be asked: " + (disk.trouble.empty() ? "it is back" : disk.trouble));
  if (!disk.trouble.empty()) return;
  const bool live = disk.state == "live";
  memory.was_live |= live;
  if (disk.state == "dead") return report(codes::nvme_dead, " is dead: its driver has given it up");
  // Somebody removes it on purpose.
  const bool leaving = disk.state.starts_with("deleting");
  if (!memory.busy.observe(!live && !leaving, now, nvme_busy_hold, nvme_busy_hold)) return;
  const bool stuck = memory.busy.lasted(now) >= nvme_stuck_hold && !disk.fabric;
  report(stuck ? codes::nvme_stuck : codes::nvme_busy, " is not live");
}

void DiskWatch::look_at_block(const BlockReading& disk, Duration now, std::vector<Finding>& out) {
  if (!blocks_.contains(disk.name) && blocks_.size() >= max_known) return;
  auto& memory = blocks_[disk.name];
  const bool still = disk.in_flight > 0 && disk.completed == memory.completed;
  memory.completed = disk.completed;
  if (memory.stalled.observe(still, now, stalled_hold, 0s))
    out.push_back(
        counter_finding(codes::disk_stalled, disk.name, "Requests to disk " + disk.name + " are not answered"));
}

void DiskWatch::look_at_mounts(const std::vector<MountReading>& mounts, std::vector<Finding>& out) {
  for (auto& [key, memory] : mounts_) memory.seen = false;
  std::vector<std::string> reported;
  for (const auto& mount : mounts) {
    auto key = mount.source;
    key += ' ';
    key += mount.mountpoint;
    if (!mounts_.contains(key) && mounts_.size() >= max_known) continue;
    auto& memory = mounts_[key];
    memory.seen = true;
    memory.was_writable |= !mount.read_only;
    const bool fallen = mount.emergency || (mount.read_only && memory.was_writable);
    const auto disk = mount.source.substr(mount.source.rfind('/') + 1);
    if (!fallen || std::ranges::find(reported, disk) != reported.end()) continue;
    reported.push_back(disk);
    out.push_back(counter_finding(codes::disk_read_only, disk,
                                  "The filesystem of " + disk + " at " + mount.mountpoint + " turned read-only"));
  }
  std::erase_if(mounts_, [](const auto& entry) { return !entry.second.seen; });
}

void DiskWatch::look_at_filesystem(const FilesystemReading& filesystem, std::vector<Finding>& out) {
  if (!first_errors_.contains(filesystem.disk) && first_errors_.size() >= max_known) return;
  const auto first = first_errors_.try_emplace(filesystem.disk, filesystem.errors).first->second;
  if (filesystem.errors > first)
    out.push_back(counter_finding(codes::disk_fs_new, filesystem.disk,
                                  "The filesystem on " + filesystem.disk + " has found new errors in itself"));
  else if (filesystem.errors > 0)
    out.push_back(counter_finding(codes::disk_fs_old, filesystem.disk,
                                  "The filesystem on " + filesystem.disk + " has had errors since its last check"));
}

std::vector<MountReading> parse_mounts(std::string_view text) {
  std::vector<MountReading> mounts;
  while (!text.empty() && mounts.size() < DiskWatch::max_known) {
    auto line = next_line(text);
    const auto source = first_word(line), mountpoint = first_word(line), type = first_word(line);
    auto options = first_word(line);
    const bool keeps_data = type.starts_with("ext") || type == "xfs" || type == "btrfs" || type == "f2fs";
    if (!source.starts_with("/dev/") || !keeps_data || options.empty()) continue;
    MountReading mount;
    mount.source = source;
    mount.mountpoint = mountpoint;
    while (!options.empty()) {
      const auto comma = options.find(',');
      const auto option = options.substr(0, comma);
      options.remove_prefix(comma == std::string_view::npos ? options.size() : comma + 1);
      mount.read_only |= option == "ro";
      mount.emergency |= option == "emergency_ro" || option == "shutdown";
    }
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::vector<std::string> degraded_raids_of(std::string_view mdstat) {
  std::vector<std::string> names;
  std::string_view array;
  while (!mdstat.empty() && names.size() < DiskWatch::max_known) {
    auto line = next_line(mdstat);
    if (line.starts_with("md")) array = line.substr(0, line.find(' '));
    // "      976630464 blocks super 1.2 [2/1] [U_]"
    const auto open = line.rfind('['), close = line.rfind(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) continue;
    const auto members = line.substr(open + 1, close - open - 1);
    const bool pattern = !members.empty() && members.find_first_not_of("U_") == std::string_view::npos;
    if (pattern && members.find('_') != std::string_view::npos && !array.empty()) names.emplace_back(array);
  }
  return names;
}

std::optional<BlockReading> parse_block_stat(std::string_view name, std::string_view text) {
  std::array<std::uint64_t, 17> fields{};
  size_t count = 0;
  while (count < fields.size()) {
    const auto word = first_word(text);
    if (word.empty()) break;
    const auto value = number_of(word);
    if (!value) return std::nullopt;
    fields[count++] = *value;
  }
  if (count < 11) return std::nullopt;
  BlockReading disk;
  disk.name = name;
  disk.in_flight = fields[8];
  disk.completed = fields[0] + fields[4] + fields[11] + fields[15];  // reads, writes, discards, flushes
  return disk;
}

}  // namespace homeostat::fault
