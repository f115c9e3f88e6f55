#include "agent/node_state.hpp"

#include <algorithm>

namespace homeostat::agent {

using fault::Change;
using fault::Finding;
using fault::RepairClass;
using fault::Severity;

void NodeState::begin_boot(std::string boot_id) {
  std::lock_guard lock(mutex_);
  boot_id_ = std::move(boot_id);
  last_sequence_.reset();
  ledger_.clear();
  classifier_ = {};
  gpus_.clear();
  ++version_;
}

bool NodeState::recall(Memory memory) {
  std::lock_guard lock(mutex_);
  if (memory.boot_id != boot_id_) return false;
  last_sequence_ = memory.last_sequence;
  ledger_.restore(std::move(memory.entries), memory.dropped);
  gpus_ = std::move(memory.gpus);
  ++version_;
  return true;
}

Memory NodeState::memory() const {
  std::lock_guard lock(mutex_);
  return {boot_id_, last_sequence_, ledger_.entries(), ledger_.dropped(), gpus_};
}

namespace {

// When a record was written: its time since boot, laid on the wall clock. A log whose clock is not the machine's is
// dated now.
TimePoint date_of(std::uint64_t uptime_us, TimePoint now, Duration uptime) {
  const Duration at(static_cast<std::int64_t>(std::min<std::uint64_t>(uptime_us / 1000, 1'000'000'000'000)));
  return uptime > Duration(0) && at <= uptime ? now - (uptime - at) : now;
}

Finding gap_finding(std::uint64_t lost) {
  Finding finding;
  finding.component = "agent";
  finding.code = "KMSG_GAP";
  finding.severity = Severity::warn;
  finding.title = lost > 0 ? std::to_string(lost) + " kernel records were overwritten before they could be read"
                           : "Kernel records were overwritten before they could be read";
  finding.repair_class = RepairClass::watch;
  return finding;
}

bool is_urgent(Change change, const Finding& finding) {
  if (change == Change::resolved) return true;
  return change == Change::fresh && finding.severity >= Severity::error;
}

}  // namespace

void NodeState::note(Change change, const Finding& finding, Intake& intake) {
  if (change == Change::none) return;
  intake.changed = true;
  intake.urgent |= is_urgent(change, finding);
}

// Says whether the record was one and new.
bool NodeState::take_record(const std::string& text, TimePoint now, Duration uptime, Intake& intake) {
  const auto record = fault::parse_kmsg_record(text);
  if (!record) return false;  // a continuation line (" SUBSYSTEM=…") or garbage
  if (last_sequence_ && record->sequence <= *last_sequence_) return false;
  if (last_sequence_ && record->sequence > *last_sequence_ + 1) {
    const auto gap = gap_finding(record->sequence - *last_sequence_ - 1);
    note(ledger_.observe(
             gap, now,
             "sequence " + std::to_string(*last_sequence_) + " is followed by " + std::to_string(record->sequence)),
         gap, intake);
  }
  last_sequence_ = record->sequence;
  const auto finding = classifier_(fault::parse_kernel_line(text));
  if (finding) note(ledger_.observe(*finding, date_of(record->uptime_us, now, uptime), record->text), *finding, intake);
  return true;
}

NodeState::Intake NodeState::take_records(const std::vector<std::string>& records, bool overrun, TimePoint now,
                                          Duration uptime) {
  std::lock_guard lock(mutex_);
  Intake intake;
  const auto before = last_sequence_;
  for (const auto& text : records)
    if (take_record(text, now, uptime, intake)) ++intake.taken;
  // Where the sequence numbers already told of the gap it is not told twice.
  const bool told = overrun && before && last_sequence_ && intake.changed;
  if (overrun && !told) {
    const auto gap = gap_finding(0);
    note(ledger_.observe(gap, now, "the kernel's ring overran"), gap, intake);
  }
  publish(intake);
  return intake;
}

int NodeState::expected_now() const { return expected_gpus_.value_or(static_cast<int>(gpus_.size())); }

// Remembers the names of GPUs that can say them and gives them to those that no longer can.
void NodeState::learn_gpus(io::NvmlReading& reading) {
  for (auto& gpu : reading.gpus) {
    const auto known =
        std::find_if(gpus_.begin(), gpus_.end(), [&](const KnownGpu& k) { return k.index == gpu.index; });
    if (!gpu.pci.empty() && !gpu.uuid.empty()) {
      ledger_.name_device(gpu.uuid, gpu.pci);
      if (known == gpus_.end())
        gpus_.push_back({gpu.index, gpu.uuid, gpu.pci});
      else
        *known = {gpu.index, gpu.uuid, gpu.pci};
    } else if (known != gpus_.end()) {
      gpu.uuid = known->uuid;
      gpu.pci = known->pci;
    }
  }
}

NodeState::Intake NodeState::take_probe(const ProbeReport& report, TimePoint now) {
  std::lock_guard lock(mutex_);
  Intake intake;
  const bool turned = report.state != probe_.state;
  const bool fresh_reading =
      report.state == fault::ProbeState::good && report.reading && report.rounds != probe_.rounds;
  probe_ = report;
  if (probe_.reading) learn_gpus(*probe_.reading);
  if (fresh_reading) {
    std::vector<std::string> ids;
    for (const auto& finding : findings_of(*probe_.reading, expected_now())) {
      ids.push_back(fault::finding_id(finding));
      const auto change = ledger_.observe(finding, now, finding.title);
      if (change != Change::repeated) note(change, finding, intake);
    }
    if (ledger_.retain("gpu-nvml", ids)) intake.changed = intake.urgent = true;
  }
  if (turned) intake.changed = intake.urgent = true;
  publish(intake);
  return intake;
}

void NodeState::publish(const Intake& intake) {
  if (intake.changed) ++version_;
  if (intake.urgent) {
    ++urgent_version_;
    wake_.notify_all();
  }
}

void NodeState::set_policy(std::vector<fault::PolicyRule> rules) {
  std::lock_guard lock(mutex_);
  rules_ = std::move(rules);
  ++version_;
}

void NodeState::set_expected_gpus(int count) {
  std::lock_guard lock(mutex_);
  if (expected_gpus_ != count) ++version_;
  expected_gpus_ = count;
}

int NodeState::expected_gpus() const {
  std::lock_guard lock(mutex_);
  return expected_now();
}

namespace {

api::HealthFinding to_api(const fault::LedgerEntry& entry) {
  const auto& finding = entry.finding;
  return {entry.id,
          finding.component,
          finding.code,
          finding.device,
          std::string(fault::to_string(finding.severity)),
          finding.action,
          entry.first_seen,
          entry.last_seen,
          static_cast<std::int64_t>(entry.count),
          entry.evidence,
          finding.injected};
}

bool is_of_gpu(std::string_view component) {
  return component.starts_with("gpu-") || component.starts_with("amd-") || component == "nvlink";
}

// The state of one device, from the probe and from what the kernel said about it.
api::DeviceHealth device_health(const io::GpuReading& gpu, bool probe_good, const fault::Ledger& ledger,
                                const std::vector<fault::PolicyRule>& rules) {
  api::DeviceHealth device{gpu.pci.empty() ? "gpu-" + std::to_string(gpu.index) : gpu.pci, gpu.index, gpu.uuid, "Good",
                           gpu.trouble};
  if (!probe_good) device.state = "Unknown";
  if (gpu.lost) device.state = "Lost";
  for (const auto& entry : ledger.entries()) {
    const auto& finding = entry.finding;
    if (finding.device != device.id || !is_of_gpu(finding.component)) continue;
    const auto how = fault::treatment(finding, rules).repair_class;
    if (finding.code == "79" && how == RepairClass::replace_node)
      device.state = "Lost";
    else if (device.state != "Lost" && (how == RepairClass::replace_node || how == RepairClass::reset))
      device.state = "Sick";
    else
      continue;
    device.message = finding.component + " " + finding.code + ": " + finding.title;
  }
  return device;
}

}  // namespace

NodeState::View NodeState::view(TimePoint now) const {
  std::lock_guard lock(mutex_);
  View view;
  view.version = version_;
  view.probe = probe_.state;
  view.probe_message = probe_.message;
  view.judgement = fault::judge(ledger_.entries(), probe_.state, probe_.message, rules_);
  auto& status = view.status;
  status.boot_id = boot_id_;
  status.last_report = now;
  status.expected_gpus = expected_now();
  status.dropped_findings = static_cast<std::int64_t>(ledger_.dropped());
  status.verdict = fault::to_string(view.judgement.verdict);
  status.reason = view.judgement.reason;
  status.message = view.judgement.message;
  for (const auto& entry : ledger_.entries()) status.findings.push_back(to_api(entry));
  if (probe_.reading)
    for (const auto& gpu : probe_.reading->gpus)
      status.devices.push_back(device_health(gpu, probe_.state == fault::ProbeState::good, ledger_, rules_));
  return view;
}

NodeState::Wake NodeState::wait(std::uint64_t seen_urgent, Duration at_most, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, stop, at_most, [&] { return urgent_version_ != seen_urgent; });
  return {version_, urgent_version_ != seen_urgent};
}

std::uint64_t NodeState::urgent_version() const {
  std::lock_guard lock(mutex_);
  return urgent_version_;
}

}  // namespace homeostat::agent
