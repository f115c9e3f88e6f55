#include "core/fault/cause.hpp"

#include <algorithm>
#include <array>

#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

struct CauseRow {
  std::string_view component, code;  // a code ending in "*" is a beginning; "" fits all
  Cause cause;
};

constexpr bool effect = true;
constexpr bool victim = true;

// The first row that fits decides. Depth orders by causality: supply, bus, the bus's errors, switch, memory, firmware,
// links, programs, then what the driver asks for and what is torn down. Of two faces of one fault the sharper is the
// deeper: Xid 79 names the GPU, "fallen off the bus" says the same without a code, NVML sees it seconds later.
constexpr std::array rows = {
    CauseRow{"gpu-xid", "54", {Family::power, 5}},
    CauseRow{"gpu-driver", "POWER_CABLE", {Family::power, 6}},
    CauseRow{"gpu-xid", "79", {Family::bus, 10}},
    CauseRow{"amd-gpu", "DEVICE_LOST", {Family::bus, 10}},
    CauseRow{"gpu-lost", "", {Family::bus, 11}},
    CauseRow{"pcie-link", "DEVICE_INACCESSIBLE", {Family::bus, 12}},
    CauseRow{"gpu-nvml", "LOST", {Family::bus, 13}},
    CauseRow{"amd-counters", "GPU_LOST", {Family::bus, 13}},
    CauseRow{"gpu-nvml", "GPU_MISSING", {Family::bus, 14}},
    CauseRow{"gpu-nvml", "NO_GPUS", {Family::bus, 14}},
    CauseRow{"amd-counters", "GPU_MISSING", {Family::bus, 14}},
    CauseRow{"gpu-xid", "167", {Family::pcie, 19}},
    CauseRow{"pcie-aer", "AER_FATAL", {Family::pcie, 20}},
    CauseRow{"pcie-aer", "DPC_CONTAINMENT", {Family::pcie, 20}},
    CauseRow{"pcie-link", "LINK_DOWN", {Family::pcie, 20}},
    CauseRow{"pcie-aer", "AER_NO_RECOVERY", {Family::pcie, 21}},
    CauseRow{"pcie-aer", "AER_NONFATAL", {Family::pcie, 22}},
    CauseRow{"pcie-link", "CARD_NOT_PRESENT", {Family::pcie, 23}},
    CauseRow{"pcie-link", "POWER_FAULT", {Family::pcie, 18}},
    CauseRow{"pcie-link", "TRAIN_FAILED", {Family::pcie, 20}},
    CauseRow{"pcie-link", "LINK_FLAP*", {Family::pcie, 91}},
    CauseRow{"pcie-aer", "EDR_EVENT", {Family::pcie, 22}},
    CauseRow{"pcie-aer", "AER_CORRECTABLE", {Family::pcie, 90}},
    CauseRow{"pcie-aer", "", {Family::pcie, 91}},
    CauseRow{"pcie-link", "", {Family::counter, 65}},
    CauseRow{"pcie-counters", "", {Family::pcie, 89}},
    CauseRow{"gpu-nvml", "PCIE_REPLAYS", {Family::pcie, 90}},
    CauseRow{"gpu-nvml", "PCIE*", {Family::pcie, 88}},
    CauseRow{"amd-counters", "PCIE*", {Family::pcie, 90}},
    CauseRow{"gpu-xid", "48", {Family::memory, 30}},
    CauseRow{"gpu-xid", "140", {Family::memory, 31}},
    CauseRow{"gpu-xid", "95", {Family::memory, 32}},
    CauseRow{"gpu-xid", "94", {Family::memory, 33}},
    CauseRow{"gpu-xid", "64", {Family::memory, 34}},
    CauseRow{"gpu-xid", "63", {Family::memory, 35}},
    CauseRow{"gpu-xid", "177", {Family::memory, 35}},
    CauseRow{"gpu-xid", "160", {Family::memory, 36}},
    CauseRow{"gpu-xid", "161", {Family::memory, 36}},
    CauseRow{"gpu-xid", "171", {Family::memory, 37}},
    CauseRow{"gpu-xid", "172", {Family::memory, 37}},
    CauseRow{"gpu-xid", "92", {Family::memory, 38}},
    CauseRow{"gpu-nvml", "ECC*", {Family::memory, 39}},
    CauseRow{"gpu-nvml", "SRAM*", {Family::memory, 39}},
    CauseRow{"gpu-nvml", "ROW*", {Family::memory, 39}},
    CauseRow{"gpu-nvml", "BANK*", {Family::memory, 39}},
    CauseRow{"gpu-nvml", "PAGE*", {Family::memory, 39}},
    CauseRow{"amd-ras", "RAS_UE*", {Family::memory, 30}},
    CauseRow{"amd-ras", "ATHUB_INTERRUPT", {Family::memory, 31}},
    CauseRow{"amd-ras", "POISON_CONSUMED", {Family::memory, 32}},
    CauseRow{"amd-ras", "RAS_DE*", {Family::memory, 33}},
    CauseRow{"amd-ras", "POISON_CREATED", {Family::memory, 34}},
    CauseRow{"amd-ras", "BAD_PAGE*", {Family::memory, 35}},
    CauseRow{"amd-ras", "", {Family::memory, 38}},
    CauseRow{"amd-gpu", "SQ_INTERRUPT", {Family::memory, 36}},
    CauseRow{"amd-counters", "RAS*", {Family::memory, 39}},
    CauseRow{"amd-counters", "BAD_PAGE*", {Family::memory, 39}},
    CauseRow{"gpu-xid", "62", {Family::core, 40}},
    CauseRow{"gpu-xid", "120", {Family::core, 41}},
    CauseRow{"gpu-xid", "119", {Family::core, 42}},
    CauseRow{"gpu-xid", "143", {Family::core, 43}},
    CauseRow{"gpu-xid", "46", {Family::core, 44}},
    CauseRow{"gpu-xid", "158", {Family::core, 44}},
    CauseRow{"gpu-xid", "110", {Family::core, 44}},
    CauseRow{"gpu-xid", "109", {Family::core, 45}},
    CauseRow{"gpu-driver", "RMINIT_FAILED", {Family::core, 46}},
    CauseRow{"amd-gpu", "INIT_FAILED", {Family::core, 46}},
    CauseRow{"amd-gpu", "SMU_TIMEOUT", {Family::core, 41}},
    CauseRow{"amd-gpu", "OVER_TEMPERATURE", {Family::core, 40}},
    CauseRow{"amd-gpu", "MES_TIMEOUT", {Family::core, 42}},
    CauseRow{"gpu-nvml", "NO_ANSWER", {Family::core, 47}},
    CauseRow{"amd-counters", "NO_ANSWER", {Family::core, 47}},
    CauseRow{"gpu-driver", "PROBE_FAILED", {Family::core, 48}},
    CauseRow{"gpu-driver", "GPU_IS_LOST", {Family::core, 49, effect}},
    CauseRow{"gpu-driver", "GSP_RATE_LIMIT", {Family::core, 49, effect}},
    CauseRow{"gpu-driver", "RC_WATCHDOG", {Family::core, 49, effect}},
    CauseRow{"gpu-driver", "BAR_INVALID", {Family::core, 45}},
    CauseRow{"fabric-manager", "", {Family::fabric, 26}},
    CauseRow{"nvlink", "POSTRXDET_FAILED", {Family::nvlink, 57}},
    CauseRow{"gpu-xid", "155", {Family::nvlink, 52}},
    CauseRow{"gpu-xid", "136", {Family::nvlink, 52}},
    CauseRow{"gpu-xid", "137", {Family::nvlink, 58}},
    CauseRow{"gpu-nvml", "NVLINK*", {Family::nvlink, 59}},
    CauseRow{"gpu-nvml", "FABRIC*", {Family::fabric, 59}},
    CauseRow{"amd-counters", "XGMI*", {Family::nvlink, 59}},
    CauseRow{"amd-gpu", "XGMI*", {Family::nvlink, 52}},
    CauseRow{"gpu-xid", "31", {Family::program, 60}},
    CauseRow{"amd-gpu", "PAGE_FAULT", {Family::program, 60}},
    CauseRow{"gpu-xid", "13", {Family::program, 61}},
    CauseRow{"amd-gpu", "RING_TIMEOUT", {Family::program, 61}},
    CauseRow{"amd-gpu", "QUEUE_TIMEOUT", {Family::program, 62}},
    CauseRow{"amd-gpu", "RESET_FAILED", {Family::recovery, 69}},
    CauseRow{"amd-gpu", "RING_RESET_FAILED", {Family::recovery, 69}},
    CauseRow{"gpu-driver", "RESET_REQUIRED", {Family::recovery, 71}},
    CauseRow{"gpu-reset-ack", "", {Family::recovery, 69}},
    CauseRow{"gpu-xid", "154*", {Family::recovery, 70}},
    CauseRow{"gpu-nvml", "RECOVERY*", {Family::recovery, 71}},
    CauseRow{"gpu-nvml", "154*", {Family::recovery, 71}},
    CauseRow{"gpu-nvml", "RESET_REQUIRED", {Family::recovery, 71}},
    CauseRow{"amd-gpu", "RESET_BEGIN", {Family::recovery, 72}},
    CauseRow{"amd-gpu", "VRAM_LOST", {Family::recovery, 73, effect}},
    CauseRow{"gpu-xid", "43", {Family::teardown, 80, effect}},
    CauseRow{"gpu-xid", "45", {Family::teardown, 81, effect}},
    CauseRow{"iommu", "", {Family::teardown, 82, effect}},
    CauseRow{"peermem", "", {Family::teardown, 83, effect}},
    CauseRow{"gpu-nvml", "", {Family::counter, 66}},
    CauseRow{"amd-counters", "", {Family::counter, 66}},
    CauseRow{"nic", "PCI_UNAVAILABLE", {Family::nic, 10}},
    CauseRow{"nic", "FW_FATAL", {Family::nic, 20}},
    CauseRow{"nic", "INIT_FAILED", {Family::nic, 22}},
    CauseRow{"nic", "RESET_FAILED", {Family::nic, 22}},
    CauseRow{"nic", "PCI_ERROR", {Family::nic, 19}},
    CauseRow{"nic", "UNRECOVERABLE_HW_ERROR", {Family::nic, 19}},
    CauseRow{"nic", "HEALTH_POLL_FAILED", {Family::nic, 21}},
    CauseRow{"nic", "CMD_TIMEOUT", {Family::nic, 22}},
    CauseRow{"nic", "HIGH_TEMPERATURE", {Family::nic, 23}},
    CauseRow{"nic", "CABLE*", {Family::nic, 24}},
    CauseRow{"nic", "LINK_DOWN", {Family::nic, 30}},
    CauseRow{"nic", "LINK_TRAINING", {Family::nic, 31}},
    CauseRow{"nic", "BOND*", {Family::nic, 32, effect}},
    CauseRow{"nic", "TX_TIMEOUT", {Family::nic, 33}},
    CauseRow{"nic", "", {Family::nic, 34}},
    CauseRow{"infiniband", "DEVICE_GONE", {Family::nic, 18}},
    CauseRow{"ethernet", "DEVICE_GONE", {Family::nic, 18}},
    CauseRow{"infiniband", "", {Family::nic, 35}},
    CauseRow{"ethernet", "", {Family::nic, 35}},
    CauseRow{"disk", "NVME_DEAD", {Family::disk, 10}},
    CauseRow{"disk", "NVME_DOWN", {Family::disk, 11}},
    CauseRow{"disk", "NVME_RESET", {Family::disk, 12}},
    CauseRow{"disk", "NVME_TIMEOUT", {Family::disk, 13}},
    CauseRow{"disk", "RAID*", {Family::disk, 18}},
    CauseRow{"disk", "", {Family::disk, 20}},
    CauseRow{"disk-counters", "NVME*", {Family::disk, 14}},
    CauseRow{"disk-counters", "READ_ONLY", {Family::filesystem, 34}},
    CauseRow{"disk-counters", "FS_ERRORS", {Family::filesystem, 34}},
    CauseRow{"disk-counters", "", {Family::disk, 21}},
    CauseRow{"filesystem", "JOURNAL_ERROR", {Family::filesystem, 30}},
    CauseRow{"filesystem", "JOURNAL_ABORT", {Family::filesystem, 31}},
    CauseRow{"filesystem", "SUPERBLOCK", {Family::filesystem, 32}},
    CauseRow{"filesystem", "FS_ERROR", {Family::filesystem, 32}},
    CauseRow{"filesystem", "", {Family::filesystem, 33}},
    CauseRow{"nfs", "", {Family::network_storage, 20}},
    CauseRow{"cifs", "", {Family::network_storage, 20}},
    CauseRow{"beegfs", "", {Family::network_storage, 20}},
    CauseRow{"gpfs", "", {Family::network_storage, 20}},
    CauseRow{"lustre", "CONNECTION_LOST", {Family::network_storage, 20}},
    CauseRow{"lustre", "EVICTED", {Family::network_storage, 21}},
    CauseRow{"lustre", "", {Family::network_storage, 22}},
    CauseRow{"ceph", "", {Family::network_storage, 20}},
    CauseRow{"memory-edac", "EDAC_UE", {Family::host_memory, 20}},
    CauseRow{"cpu-mce", "MCE_UE", {Family::host_memory, 21}},
    CauseRow{"cpu-mce", "MCE_EXCEPTION", {Family::host_memory, 22}},
    CauseRow{"cpu-mce", "APEI_FATAL", {Family::host_memory, 22}},
    CauseRow{"memory-edac", "MEMORY_FAILURE", {Family::host_memory, 25}},
    CauseRow{"memory-edac", "EDAC_CE", {Family::host_memory, 26}},
    CauseRow{"memory-edac", "", {Family::host_memory, 26}},
    CauseRow{"cpu-mce", "MCE_FATAL", {Family::host_memory, 21}},
    CauseRow{"cxl", "", {Family::host_memory, 20}},
    CauseRow{"memory-counters", "", {Family::host_memory, 27}},
    CauseRow{"cpu-mce", "", {Family::host_memory, 28}},
    CauseRow{"kernel", "PANIC", {Family::kernel, 50}},
    CauseRow{"kernel", "OOPS", {Family::kernel, 20}},
    CauseRow{"kernel", "HARD_LOCKUP", {Family::kernel, 30}},
    CauseRow{"kernel", "SOFT_LOCKUP", {Family::kernel, 31}},
    CauseRow{"kernel", "RCU_STALL", {Family::kernel, 32}},
    CauseRow{"kernel", "WORKQUEUE_LOCKUP", {Family::kernel, 33}},
    CauseRow{"kernel", "HUNG_TASK", {Family::kernel, 90}},
    CauseRow{"kernel", "", {Family::kernel, 25}},
    CauseRow{"oom", "OOM_HEADER", {Family::oom, 90}},
    CauseRow{"oom", "", {Family::oom, 20}},
};

bool code_fits(std::string_view pattern, std::string_view code) {
  if (pattern.empty()) return true;
  if (pattern.back() == '*') return code.starts_with(pattern.substr(0, pattern.size() - 1));
  return code == pattern || (code.size() > pattern.size() && code.starts_with(pattern) && code[pattern.size()] == '/');
}

// 74 and 144 to 150: a link that has failed for good on this GPU, one that suffers from the other end, or a note.
Cause link_cause(const Finding& finding) {
  if (finding.action == "XID_154_EVAL") return {Family::nvlink, 55, false, victim};
  if (finding.severity < Severity::error) return {Family::nvlink, 58, false, victim};
  const bool points_away = contains(finding.title, "INVESTIGATE_PEER_DEVICE") || contains(finding.title, "SYMPATHETIC");
  return {Family::nvlink, points_away ? 51 : 50};
}

// Codes that no row names: an unknown Xid is told by how grave it is.
Cause unnamed_cause(const Finding& finding) {
  if (finding.component == "gpu-sxid")
    return {Family::fabric, finding.severity >= Severity::fatal ? 25 : finding.severity >= Severity::error ? 53 : 56};
  if (finding.component == "gpu-xid" && finding.action == "RESTART_APP") return {Family::program, 62};
  if (finding.component == "gpu-xid" || finding.component == "gpu-driver" || finding.component == "amd-gpu")
    return {Family::core, finding.severity >= Severity::fatal ? 46 : finding.severity >= Severity::error ? 63 : 75};
  return {};
}

}  // namespace

Cause cause_of(const Finding& finding) {
  for (const auto& row : rows)
    if (row.component == finding.component && code_fits(row.code, finding.code)) return row.cause;
  if (finding.component == "nvlink") return link_cause(finding);
  return unnamed_cause(finding);
}

bool is_of_gpu(Family family) {
  switch (family) {
    case Family::power:
    case Family::bus:
    case Family::memory:
    case Family::core:
    case Family::nvlink:
    case Family::program:
    case Family::recovery:
    case Family::teardown:
    case Family::counter:
      return true;
    default:
      return false;
  }
}

bool is_grave(const Occurrence& o) { return o.finding->severity >= Severity::error; }

bool gpu_has_died(const Occurrence& o) {
  const auto family = o.cause.family;
  return is_grave(o) && !o.cause.after_effect &&
         (family == Family::bus || family == Family::power || family == Family::core);
}

bool Topology::leads_to(std::string_view port, std::string_view device) const {
  return std::any_of(above.begin(), above.end(),
                     [&](const auto& pair) { return pair.second == port && same_pci_device(pair.first, device); });
}

namespace {

std::string_view without_function(std::string_view device) { return device.substr(0, device.find('.')); }

bool has_domain(std::string_view device) { return std::count(device.begin(), device.end(), ':') >= 2; }

// "nvme4n1p2" -> "nvme4"; "" for any other name.
std::string_view nvme_controller(std::string_view device) {
  if (!device.starts_with("nvme")) return {};
  size_t end = 4;
  while (end < device.size() && is_digit(device[end])) ++end;
  return end > 4 ? device.substr(0, end) : std::string_view{};
}

// Volumes over other disks, and lines that name no disk: which disk lies below is not told.
bool hides_its_disk(std::string_view device) {
  return device.empty() || device.starts_with("md") || device.starts_with("dm-");
}

bool same_disk(const Occurrence& a, const Occurrence& b) {
  if (hides_its_disk(a.device) || hides_its_disk(b.device)) return true;
  const auto controller = nvme_controller(a.device);
  if (!controller.empty()) return controller == nvme_controller(b.device);
  return a.device.starts_with(b.device) || b.device.starts_with(a.device);  // sda, sda1
}

// A fault of the whole adapter shows on each of its functions; a lost link is one port's own.
bool concerns_adapter(const Occurrence& o) { return o.cause.family == Family::nic && o.cause.depth < 24; }

// Fault and device of the PCI bus, by what is known of the wiring.
bool same_branch(const Occurrence& a, const Occurrence& b, const Topology& topology) {
  const auto one = a.device, two = b.device;
  if (one.empty() || two.empty()) return false;
  // The line itself may name both ends.
  if (a.finding->upstream == two || b.finding->upstream == one) return true;
  return same_pci_device(one, two) || topology.leads_to(one, two) || topology.leads_to(two, one);
}

bool same_gpu(const Occurrence& a, const Occurrence& b) { return same_pci_device(a.device, b.device); }

// What a probe finds in one look may have begun at any time before.
bool is_polled(const Occurrence& o) {
  const std::string_view component = o.finding->component;
  return component.ends_with("-nvml") || component.ends_with("-counters");
}

// What two probes see of one link to the bus is one fault, whichever of them looks first.
bool are_sights_of_one_link(const Occurrence& a, const Occurrence& b) {
  return a.cause.family == Family::pcie && b.cause.family == Family::pcie && is_polled(a) && is_polled(b) &&
         same_pci_device(a.device, b.device);
}

bool buses_are_companions(const Occurrence& a, const Occurrence& b, const Topology& topology) {
  if (!same_branch(a, b, topology)) return false;
  return a.cause.family == b.cause.family || gpu_has_died(a) || gpu_has_died(b) || !is_polled(a) || !is_polled(b);
}

bool are_companions_on_gpu(const Occurrence& a, const Occurrence& b) {
  const auto one = a.cause.family, two = b.cause.family;
  if (one == two) return true;
  if (one == Family::counter || two == Family::counter) return false;
  const bool is_sweeping = gpu_has_died(a) || gpu_has_died(b) || one == Family::recovery || two == Family::recovery;
  return is_sweeping || !is_polled(a) || !is_polled(b);
}

bool gpus_are_companions(const Occurrence& a, const Occurrence& b) {
  const auto one = a.cause.family, two = b.cause.family;
  if (same_gpu(a, b)) return are_companions_on_gpu(a, b);
  // Lines of the driver that name no GPU belong to the GPU that is failing right now.
  if (a.device.empty() || b.device.empty())
    return (one == Family::bus || one == Family::core) && (two == Family::bus || two == Family::core);
  const auto is = [&](Family x, Family y) { return (one == x && two == y) || (one == y && two == x); };
  if (is(Family::nvlink, Family::nvlink) || is(Family::program, Family::program)) return true;
  if (one == Family::nvlink) return gpu_has_died(b);
  if (two == Family::nvlink) return gpu_has_died(a);
  // The job of the failing GPU has ranks on the others: their channels are torn down with it.
  if (one == Family::teardown) return two == Family::teardown || (is_grave(b) && two != Family::counter);
  if (two == Family::teardown) return is_grave(a) && one != Family::counter;
  // GPUs of one XGMI hive are reset together.
  return a.finding->component == "amd-gpu" && b.finding->component == "amd-gpu" &&
         (a.finding->code == "RESET_BEGIN" || b.finding->code == "RESET_BEGIN");
}

bool nics_are_companions(const Occurrence& a, const Occurrence& b) {
  if (a.finding->code.starts_with("BOND") || b.finding->code.starts_with("BOND")) return true;
  if (a.device.empty() || b.device.empty()) return false;
  if (a.device == b.device) return true;
  return same_pci_device(a.device, b.device) && (concerns_adapter(a) || concerns_adapter(b));
}

}  // namespace

bool attaches_to_one(const Occurrence& o) {
  if (o.cause.family == Family::teardown || o.finding->code == "OOM_HEADER") return true;
  if (o.cause.family == Family::nic) return o.cause.after_effect;
  return is_of_gpu(o.cause.family) && o.device.empty();
}

bool names_cause(const Occurrence& cause, const Occurrence& effect) {
  const auto& named = effect.finding->caused_by;
  return !named.empty() && same_gpu(cause, effect) && code_fits(named, cause.finding->code) &&
         (cause.finding->component == "gpu-xid" || cause.finding->component == "nvlink");
}

bool same_pci_device(std::string_view a, std::string_view b) {
  a = without_function(a);
  b = without_function(b);
  if (a.empty() || b.empty()) return false;
  if (a == b) return true;
  if (has_domain(a) == has_domain(b)) return false;
  const auto& longer = has_domain(a) ? a : b;
  const auto& shorter = has_domain(a) ? b : a;
  return longer.size() > shorter.size() && longer.ends_with(shorter) &&
         longer[longer.size() - shorter.size() - 1] == ':';
}

bool are_companions(const Occurrence& a, const Occurrence& b, const Topology& topology) {
  const auto one = a.cause.family, two = b.cause.family;
  if (is_of_gpu(one) && is_of_gpu(two)) return gpus_are_companions(a, b);
  if (one == Family::pcie || two == Family::pcie) return buses_are_companions(a, b, topology);
  if (one == Family::fabric || two == Family::fabric) {
    const auto other = one == Family::fabric ? two : one;
    return other == Family::fabric || other == Family::nvlink || other == Family::teardown;
  }
  if (one == Family::nic && two == Family::nic) return nics_are_companions(a, b);
  const auto is_storage = [](Family f) { return f == Family::disk || f == Family::filesystem; };
  if (is_storage(one) && is_storage(two)) return same_disk(a, b);
  if (one != two) return false;
  if (one == Family::oom)
    return a.device == b.device || a.finding->code == "OOM_HEADER" || b.finding->code == "OOM_HEADER";
  return one == Family::network_storage || one == Family::host_memory || one == Family::kernel;
}

namespace {

constexpr Duration victim_patience{60'000};    // a send over a dead link is retried that long before it gives up
constexpr Duration bus_patience{60'000};       // the driver notices a dead bus when it next talks to the GPU
constexpr Duration storage_patience{600'000};  // the kernel complains after 120 s, and of later ones later

bool leads_later_on_gpu(const Occurrence& cause, const Occurrence& effect) {
  const auto from = cause.cause.family, to = effect.cause.family;
  const bool twin = from == Family::bus && to == Family::bus;
  if (!same_gpu(cause, effect)) {
    const bool unnamed = cause.device.empty() || effect.device.empty();
    if (twin && unnamed) return true;
    return to == Family::nvlink && effect.cause.victim_kind && effect.at - cause.at <= victim_patience &&
           (gpu_has_died(cause) || (from == Family::nvlink && is_grave(cause) && !cause.cause.victim_kind));
  }
  if (twin || names_cause(cause, effect)) return true;
  if (from == Family::teardown || from == Family::counter) return false;
  if (to == Family::teardown || to == Family::recovery) return is_grave(cause) || to == Family::teardown;
  if (to == Family::memory) return from == Family::memory && effect.cause.depth > cause.cause.depth;
  if (to == Family::core) return gpu_has_died(cause) && effect.cause.depth > cause.cause.depth;
  if (to == Family::nvlink)
    return gpu_has_died(cause) || (from == Family::nvlink && effect.cause.depth > cause.cause.depth);
  return false;
}

}  // namespace

bool leads_later(const Occurrence& cause, const Occurrence& effect, const Topology& topology) {
  const auto from = cause.cause.family, to = effect.cause.family;
  const bool twin = from == Family::bus && to == Family::bus;
  if (effect.at < cause.at && !twin) return false;
  if (is_of_gpu(from) && is_of_gpu(to)) return leads_later_on_gpu(cause, effect);
  if (are_sights_of_one_link(cause, effect)) return true;
  if (to == Family::pcie)
    return (from == Family::pcie || from == Family::bus) && effect.cause.depth > cause.cause.depth &&
           same_branch(cause, effect, topology);
  if (from == Family::pcie)
    return to == Family::bus && is_grave(cause) && effect.at - cause.at <= bus_patience &&
           same_branch(cause, effect, topology);
  if (from == Family::fabric)
    return is_grave(cause) && (to == Family::nvlink || to == Family::fabric) &&
           effect.at - cause.at <= victim_patience && effect.cause.depth > cause.cause.depth;
  if (to == Family::nic)
    return from == Family::nic && effect.cause.depth >= cause.cause.depth && nics_are_companions(cause, effect);
  const bool storage = from == Family::disk || from == Family::filesystem || from == Family::network_storage;
  if (storage && to == Family::kernel)
    return effect.finding->code == "HUNG_TASK" && effect.at - cause.at <= storage_patience;
  if (from == Family::disk || from == Family::filesystem)
    return (to == Family::disk || to == Family::filesystem) && effect.cause.depth > cause.cause.depth &&
           same_disk(cause, effect);
  return from == to && (from == Family::network_storage || from == Family::host_memory) &&
         cause.finding->component == effect.finding->component && effect.at - cause.at <= storage_patience &&
         effect.cause.depth >= cause.cause.depth;
}

}  // namespace homeostat::fault
