#include "agent/node_state.hpp"

#include <algorithm>

#include "agent/sensors.hpp"
#include "agent/steps_sensor.hpp"
#include "api/health_report.hpp"

namespace homeostat::agent {

using fault::Change;
using fault::Finding;
using fault::ProbeState;
using fault::RepairClass;
using fault::Severity;

namespace {

constexpr std::string_view kmsg = "kmsg";
constexpr std::string_view gap_id = "agent:KMSG_GAP";
constexpr size_t max_sources = 16;
constexpr size_t max_samples = 1024;      // of one sensor
constexpr size_t max_performance = 16;    // as the API has it
constexpr Duration log_patience{10'000};  // the reader goes round at least twice a second

}  // namespace

std::string NodeState::boot_id() const {
  const std::lock_guard lock(mutex_);
  return boot_id_;
}

void NodeState::begin_boot(std::string boot_id) {
  std::lock_guard lock(mutex_);
  boot_id_ = std::move(boot_id);
  last_sequence_.reset();
  ledger_.clear();
  classifier_ = drill_classifier_ = {};
  nvidia_ = amd_ = {};
  kmsg_.gaps = kmsg_.lost_records = 0;
  forgeries_ = 0;
  ++version_;
}

bool NodeState::recall(Memory memory) {
  std::lock_guard lock(mutex_);
  if (memory.boot_id != boot_id_) return false;
  last_sequence_ = memory.last_sequence;
  ledger_.restore(std::move(memory.entries), memory.dropped, std::move(memory.history));
  nvidia_.known.clear();
  amd_.known.clear();
  for (auto& gpu : memory.gpus) {
    if (!gpu.uuid.empty()) ledger_.name_device(gpu.uuid, gpu.pci);
    gpus_of(gpu.vendor).known.push_back(std::move(gpu));
  }
  kmsg_.gaps = memory.gaps;
  kmsg_.lost_records = memory.lost_records;
  forgeries_ = memory.forgeries;
  ++version_;
  return true;
}

Memory NodeState::memory() const {
  std::lock_guard lock(mutex_);
  auto gpus = nvidia_.known;
  gpus.insert(gpus.end(), amd_.known.begin(), amd_.known.end());
  return {boot_id_,          last_sequence_, ledger_.entries(),  ledger_.dropped(), std::move(gpus),
          ledger_.history(), kmsg_.gaps,     kmsg_.lost_records, forgeries_};
}

namespace {

// When a record was written: its time since boot, laid on the wall clock. A log whose clock is not the machine's is
// dated now.
TimePoint date_of(std::uint64_t uptime_us, TimePoint now, Duration uptime) {
  const Duration at(static_cast<std::int64_t>(std::min<std::uint64_t>(uptime_us / 1000, 1'000'000'000'000)));
  return uptime > Duration(0) && at <= uptime ? now - (uptime - at) : now;
}

std::string gap_title(std::uint64_t lost) {
  return std::to_string(lost) + " kernel records were overwritten before they could be read";
}

bool is_urgent(Change change, const Finding& finding) {
  if (change == Change::resolved) return true;
  return change == Change::fresh && finding.severity >= Severity::error;
}

}  // namespace

void NodeState::note(Change change, const Finding& finding, Intake& intake) {
  if (change == Change::none) return;
  ++changes_;
  intake.changed = true;
  intake.urgent |= is_urgent(change, finding);
}

void NodeState::take_gap(std::uint64_t lost, std::string_view evidence, TimePoint now, Intake& intake) {
  ++kmsg_.gaps;
  kmsg_.lost_records += lost;
  Finding gap;
  gap.component = "agent";
  gap.code = "KMSG_GAP";
  gap.severity = Severity::warn;
  gap.title = gap_title(lost);
  gap.repair_class = RepairClass::watch;
  take_finding(gap, now, evidence, intake);
}

void NodeState::take_finding(const Finding& finding, TimePoint seen, std::string_view evidence, Intake& intake) {
  counts_.add(finding, seen, finding.repeats);
  note(ledger_.observe(finding, seen, evidence), finding, intake);
}

// Says whether the record was one and new.
bool NodeState::take_record(const std::string& text, TimePoint now, Duration uptime, Intake& intake) {
  const auto record = fault::parse_kmsg_record(text);
  if (!record) return false;  // a continuation line (" SUBSYSTEM=…") or garbage
  if (last_sequence_ && record->sequence <= *last_sequence_) return false;
  if (last_sequence_ && record->sequence > *last_sequence_ + 1)
    take_gap(record->sequence - *last_sequence_ - 1,
             "sequence " + std::to_string(*last_sequence_) + " is followed by " + std::to_string(record->sequence), now,
             intake);
  last_sequence_ = record->sequence;
  kmsg_.last_record = now;
  ++kmsg_.records;
  const auto seen = date_of(record->uptime_us, now, uptime);
  if (record->from_kernel()) {
    auto finding = classifier_(fault::parse_kernel_line(text));
    if (!finding) return true;
    if (drills_ != nullptr) finding->drill |= drills_->marks(*finding);
    take_finding(*finding, seen, record->text, intake);
    return true;
  }
  // A program's words: a drill that proves itself is taken as what it says, the token itself is kept nowhere.
  auto judged = drills_ != nullptr ? drills_->judge(record->text, now) : fault::judge_user_line(record->text, {}, now);
  if (judged.what == fault::UserLine::forgery) ++forgeries_;
  if (judged.what != fault::UserLine::drill) return true;
  auto finding = drill_classifier_(fault::parse_kernel_line(judged.line));
  if (!finding) return true;
  finding->drill = true;
  take_finding(*finding, seen, judged.line, intake);
  return true;
}

NodeState::Intake NodeState::take_records(const std::vector<std::string>& records, TimePoint now, Duration uptime) {
  std::lock_guard lock(mutex_);
  Intake intake;
  for (const auto& text : records)
    if (take_record(text, now, uptime, intake)) ++intake.taken;
  if (intake.changed) (void)ledger_.settle(now);
  publish(intake);
  return intake;
}

NodeState::Source* NodeState::source(std::string_view name) {
  const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) { return s.name == name; });
  if (found != sources_.end()) return &*found;
  if (sources_.size() >= max_sources) return nullptr;
  sources_.push_back({std::string(name), ProbeState::pending, {}, {}, {}});
  return &sources_.back();
}

const NodeState::Source* NodeState::source(std::string_view name) const {
  const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) { return s.name == name; });
  return found == sources_.end() ? nullptr : &*found;
}

void NodeState::expect_sensors(std::span<const std::string_view> names) {
  std::lock_guard lock(mutex_);
  source(kmsg);
  for (const auto name : names) source(name);
  ++version_;
}

// Says whether the state is another than before; words alone (for how long it hangs) are no news.
bool NodeState::turn(Source& source, ProbeState state, std::string message, TimePoint now) {
  const bool turned = source.state != state;
  source.state = state;
  source.message = std::move(message);
  if (state == ProbeState::good) source.last_success = now;
  return turned;
}

NodeState::Intake NodeState::take_sensor(std::string_view name, std::span<const std::string_view> components,
                                         SensorReport report, TimePoint now) {
  std::lock_guard lock(mutex_);
  Intake intake;
  auto* from = source(name);
  if (from == nullptr) return intake;
  if (turn(*from, report.state, std::move(report.message), now)) {
    intake.changed = true;
    intake.urgent = is_essential(name);
  }
  if (report.performance.size() > max_performance) report.performance.resize(max_performance);
  if (name == "steps") performance_ = std::move(report.performance);
  for (const auto& [other_name, pci] : report.names) ledger_.name_device(other_name, pci);
  // A sensor that cannot say leaves what it said: nothing has recovered.
  if (report.state == ProbeState::good || report.state == ProbeState::absent) {
    if (report.samples.size() > max_samples) report.samples.resize(max_samples);
    from->samples = std::move(report.samples);
    std::vector<std::string> ids;
    ids.reserve(report.findings.size());
    for (auto& finding : report.findings) {
      if (drills_ != nullptr) finding.drill |= drills_->marks(finding);
      ids.push_back(fault::finding_id(finding));
      // What a sensor tells is a state: that it still lasts is no further occurrence.
      const auto is_known = [&](const fault::LedgerEntry& entry) { return entry.id == ids.back(); };
      if (std::ranges::any_of(ledger_.entries(), is_known)) finding.repeats = 0;
      const auto change = ledger_.observe(finding, now, finding.title);
      if (change == Change::repeated) continue;
      counts_.add(finding, now, 1);
      note(change, finding, intake);
    }
    for (const auto component : components)
      if (ledger_.retain(component, ids)) {
        ++changes_;
        intake.changed = intake.urgent = true;
      }
  }
  intake.changed |= ledger_.settle(now);
  publish(intake);
  return intake;
}

void NodeState::take_log_state(ProbeState state, std::string message, TimePoint now) {
  std::lock_guard lock(mutex_);
  Intake intake;
  if (auto* log = source(kmsg)) intake.changed = intake.urgent = turn(*log, state, std::move(message), now);
  publish(intake);
}

void NodeState::log_turns(Duration monotonic) {
  std::lock_guard lock(mutex_);
  log_turned_ = monotonic;
}

Duration NodeState::log_turned() const {
  std::lock_guard lock(mutex_);
  return log_turned_;
}

void NodeState::check_log(Duration monotonic, TimePoint now) {
  const auto stands_for = monotonic - log_turned();
  if (log_turned() == Duration(0) || stands_for <= log_patience) return;
  take_log_state(ProbeState::failed, "The kernel log's reader has stood still for " + format_duration(stands_for) + ".",
                 now);
}

int NodeState::expected_now() const {
  return expected_gpus_.value_or(static_cast<int>(gpus_of(vendor_now()).known.size()));
}

// Who made the GPUs, where nobody has said: whose sensor has seen some. AMD's is absent where there are none, so one
// that fails or waits, and says for what, has found some on the bus.
GpuVendor NodeState::vendor_now() const {
  if (vendor_ != GpuVendor::unknown) return vendor_;
  if (!nvidia_.known.empty()) return GpuVendor::nvidia;
  if (!amd_.known.empty()) return GpuVendor::amd;
  const auto* amd = source("amd");
  const bool seen = amd != nullptr &&
                    (amd->last_success != TimePoint{} || (amd->state != ProbeState::absent && !amd->message.empty()));
  return seen ? GpuVendor::amd : vendor_on_bus_;
}

// Remembers the names of GPUs that can say them.
void NodeState::take_devices(GpuVendor vendor, std::vector<GpuDevice> devices) {
  std::lock_guard lock(mutex_);
  auto& gpus = gpus_of(vendor);
  if (vendor == GpuVendor::amd) gpus.known.clear();
  for (const auto& gpu : devices) {
    if (gpu.pci.empty() || (gpu.uuid.empty() && vendor != GpuVendor::amd)) continue;
    if (!gpu.uuid.empty()) ledger_.name_device(gpu.uuid, gpu.pci);
    const auto known = std::ranges::find(gpus.known, gpu.index, &KnownGpu::index);
    if (known == gpus.known.end())
      gpus.known.push_back({gpu.index, gpu.uuid, gpu.pci, vendor});
    else
      *known = {gpu.index, gpu.uuid, gpu.pci, vendor};
  }
  if (devices != gpus.devices) ++version_;
  gpus.devices = std::move(devices);
}

void NodeState::set_topology(fault::Topology topology) {
  std::lock_guard lock(mutex_);
  ledger_.set_topology(std::move(topology));
}

std::vector<KnownGpu> NodeState::known_gpus(GpuVendor vendor) const {
  std::lock_guard lock(mutex_);
  return gpus_of(vendor).known;
}

size_t NodeState::known_gpu_count() const {
  std::lock_guard lock(mutex_);
  return nvidia_.known.size() + amd_.known.size();
}

std::vector<std::string> NodeState::open_findings(std::string_view component) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& entry : ledger_.entries())
    if (entry.finding.component == component) ids.push_back(entry.id);
  return ids;
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

void NodeState::set_expected_gpus(int count, GpuVendor vendor) {
  std::lock_guard lock(mutex_);
  if (expected_gpus_ != count || vendor_ != vendor) ++version_;
  expected_gpus_ = count;
  vendor_ = vendor;
}

void NodeState::set_vendor_on_bus(GpuVendor vendor) {
  std::lock_guard lock(mutex_);
  vendor_on_bus_ = vendor;
}

int NodeState::expected_gpus() const {
  std::lock_guard lock(mutex_);
  return expected_now();
}

int NodeState::expected_gpus_of(std::string_view sensor) const {
  std::lock_guard lock(mutex_);
  const bool amd = vendor_now() == GpuVendor::amd;
  if (sensor == "nvml" && amd) return 0;
  if (sensor == "amd" && !amd) return 0;
  return expected_now();
}

namespace {

bool is_of_gpu(std::string_view component) {
  return component.starts_with("gpu-") || component.starts_with("amd-") || component == "nvlink";
}

// The state of one device, from the driver and from what the kernel said about it.
api::DeviceHealth device_health(const GpuDevice& gpu, bool driver_answers, const fault::Ledger& ledger,
                                const std::vector<fault::PolicyRule>& rules) {
  api::DeviceHealth device{gpu.pci.empty() ? "gpu-" + std::to_string(gpu.index) : gpu.pci, gpu.index, gpu.uuid, "Good",
                           gpu.trouble};
  if (!driver_answers || !gpu.trouble.empty()) device.state = "Unknown";
  if (gpu.lost) device.state = "Lost";
  for (const auto& entry : ledger.entries()) {
    const auto& finding = entry.finding;
    if (finding.device != device.id || !is_of_gpu(finding.component)) continue;
    const auto how = fault::treatment(entry, rules).repair_class;
    if ((finding.code == "79" || finding.code == "GPU_LOST") && how == RepairClass::replace_node)
      device.state = "Lost";
    else if (device.state != "Lost" && (how == RepairClass::replace_node || how == RepairClass::reset))
      device.state = "Sick";
    else
      continue;
    device.message = finding.component + " " + finding.code + ": " + finding.title;
  }
  return device;
}

std::string_view word_of(ProbeState state) {
  switch (state) {
    case ProbeState::good:
      return "Good";
    case ProbeState::absent:
      return "Absent";
    case ProbeState::pending:
      return "Pending";
    case ProbeState::failed:
      return "Failed";
  }
  return "Failed";
}

int rank_of(ProbeState state) {
  switch (state) {
    case ProbeState::absent:
      return 0;
    case ProbeState::good:
      return 1;
    case ProbeState::pending:
      return 2;
    case ProbeState::failed:
      return 3;
  }
  return 3;
}

}  // namespace

bool NodeState::answers(std::string_view sensor) const {
  const auto* driver = source(sensor);
  return driver != nullptr && driver->state == ProbeState::good;
}

NodeState::Essential NodeState::essential() const {
  Essential all;
  for (const auto& source : sources_) {
    if (!is_essential(source.name) || rank_of(source.state) <= rank_of(all.state)) continue;
    all = {source.state, source.message};
  }
  return all;
}

// A lesser sensor that fails hides a part of the node: never Unhealthy for it, and never Healthy in silence.
void NodeState::judge_into(View& view, const fault::IncidentSet& incidents) const {
  const auto all = essential();
  view.probe = all.state;
  view.probe_message = all.message;
  view.judgement = fault::judge(incidents, all.state, all.message);
  if (view.judgement.verdict != fault::NodeVerdict::healthy) return;
  for (const auto& source : sources_)
    if (source.state == ProbeState::failed) {
      view.judgement = {fault::NodeVerdict::degraded, "SensorFailed",
                        "Nothing is known to be wrong, but the sensor " + source.name + " cannot say."};
      return;
    }
}

NodeState::View NodeState::view(TimePoint now) const {
  std::lock_guard lock(mutex_);
  View view;
  view.version = version_;
  view.changes = changes_;
  const auto incidents = fault::incidents_of(ledger_.entries(), rules_, now);
  view.next_change = fault::next_change(incidents);
  judge_into(view, incidents);
  auto& status = view.status;
  status.boot_id = boot_id_;
  status.last_report = now;
  status.expected_gpus = expected_now();
  status.dropped_findings = static_cast<std::int64_t>(ledger_.dropped());
  status.forgeries = static_cast<std::int64_t>(forgeries_);
  status.performance = performance_;
  const auto gpu_sensor = vendor_now() == GpuVendor::amd ? "amd" : "nvml";
  if (answers(gpu_sensor)) add_gpu_figures(status.performance, source(gpu_sensor)->samples);
  status.verdict = fault::to_string(view.judgement.verdict);
  status.reason = view.judgement.reason;
  status.message = view.judgement.message;
  api::fill_findings(status, ledger_.entries(), incidents, rules_);
  for (auto& finding : status.findings)
    if (finding.id == gap_id) finding.title = gap_title(kmsg_.lost_records);
  for (const auto& source : sources_)
    status.sensors.push_back({source.name, std::string(word_of(source.state)), source.message});
  const bool nvml_answers = answers("nvml"), amd_answers = answers("amd");
  for (const auto& gpu : nvidia_.devices) status.devices.push_back(device_health(gpu, nvml_answers, ledger_, rules_));
  for (const auto& gpu : amd_.devices) status.devices.push_back(device_health(gpu, amd_answers, ledger_, rules_));
  const auto* log = source(kmsg);
  if (log != nullptr && log->state == ProbeState::good)
    view.log_message = kmsg_.last_record == TimePoint{}
                           ? "The kernel log is being read; nothing new was in it yet."
                           : "The kernel log is being read; its newest record came at " +
                                 format_rfc3339(std::chrono::floor<std::chrono::seconds>(kmsg_.last_record)) + ".";
  else if (log != nullptr)
    view.log_message = log->message;
  api::fit_status(status);
  return view;
}

void NodeState::fill_metrics(MetricsInput& input, TimePoint now) const {
  std::lock_guard lock(mutex_);
  const auto incidents = fault::incidents_of(ledger_.entries(), rules_, now);
  View view;
  judge_into(view, incidents);
  input.verdict = fault::to_string(view.judgement.verdict);
  for (const auto& incident : incidents.incidents)
    ++input.open_incidents[std::string(fault::to_string(incident.repair_class))];
  input.faults = counts_.series();
  input.sensors.reserve(sources_.size());
  for (const auto& source : sources_)
    input.sensors.push_back({source.name, source.state, source.last_success, source.samples});
  input.kmsg = kmsg_;
  input.forged_lines = forgeries_;
  input.api_writes = writes_;
  input.pool = pool_;
  for (const auto& job : performance_)
    if (std::find(input.jobs.begin(), input.jobs.end(), job.job) == input.jobs.end()) input.jobs.push_back(job.job);
}

void NodeState::count_write(const std::string& kind, bool good) {
  std::lock_guard lock(mutex_);
  auto& writes = writes_[kind];
  ++(good ? writes.ok : writes.failed);
}

void NodeState::set_pool(std::string pool) {
  std::lock_guard lock(mutex_);
  pool_ = std::move(pool);
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
