#include "agent/metrics.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace homeostat::agent {

namespace {

constexpr size_t max_samples = 4096;
constexpr size_t max_label_bytes = 128;
constexpr size_t max_jobs = 64;
constexpr std::string_view other = "other";

// The name itself while there is room for it among the known ones.
std::string bounded(std::vector<std::string>& known, const std::string& name, size_t most) {
  if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) return name;
  if (known.size() >= most) return std::string(other);
  known.push_back(name);
  return name;
}

}  // namespace

void FaultCounts::add(const fault::Finding& finding, TimePoint seen, std::uint64_t times) {
  Key key{finding.component,
          {bounded(codes_, finding.code, max_codes), bounded(devices_, finding.device, max_devices)}};
  if (tallies_.size() >= max_series && !tallies_.contains(key)) key.second = {std::string(other), std::string(other)};
  auto& tally = tallies_[std::move(key)];
  tally.count += times;
  tally.last_seen = std::max(tally.last_seen, seen);
}

std::vector<FaultCounts::Series> FaultCounts::series() const {
  std::vector<Series> out;
  out.reserve(tallies_.size());
  for (const auto& [key, tally] : tallies_)
    out.push_back({key.first, key.second.first, key.second.second, tally.count, tally.last_seen});
  return out;
}

namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

bool is_name(std::string_view name, bool colon) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
          (colon && c == ':')))
      return false;
  return true;
}

// Printable ASCII only: what a device or a file calls itself is not ours to trust.
void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text.substr(0, max_label_bytes)) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c >= 0x20 && c < 0x7f ? c : '?';
  }
}

void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    std::array<char, 64> text{};
    const bool whole = std::abs(value) < 1e15 && value == std::floor(value);
    const auto end = whole ? std::to_chars(text.data(), text.data() + text.size(), static_cast<std::int64_t>(value))
                           : std::to_chars(text.data(), text.data() + text.size(), value);
    out.append(text.data(), end.ptr);
  }
}

double seconds_of(TimePoint at) { return static_cast<double>(at.time_since_epoch().count()) / 1000.0; }

struct Family {
  std::string type, help;
  std::string series;  // as they are written
};

// Families by name: the series of one stand together however they came.
class Book {
 public:
  void declare(const std::string& name, std::string_view type, std::string_view help) {
    families_[name] = {std::string(type), std::string(help), {}};
  }
  void add(const std::string& name, const Labels& labels, double value) {
    auto& out = families_.at(name).series;
    out += name;
    char before = '{';
    for (const auto& [label, text] : labels) {
      if (!is_name(label, false)) continue;
      out += before;
      out.append(label).append("=\"");
      append_escaped(out, text);
      out += '"';
      before = ',';
    }
    if (before == ',') out += '}';
    out += ' ';
    append_number(out, value);
    out += '\n';
  }
  // A figure of a sensor, whose name tells its type.
  void add_sample(const Sample& sample, std::string_view sensor) {
    if (!is_name(sample.name, true)) return;
    if (!families_.contains(sample.name)) {
      const bool counter = sample.name.ends_with("_total");
      declare(sample.name, counter ? "counter" : "gauge", "As the sensor " + std::string(sensor) + " read it.");
    }
    add(sample.name, sample.labels, sample.value);
  }
  std::string text() const {
    std::string out;
    for (const auto& [name, family] : families_) {
      if (family.series.empty()) continue;
      out.append("# HELP ").append(name).append(" ").append(family.help).append("\n");
      out.append("# TYPE ").append(name).append(" ").append(family.type).append("\n");
      out += family.series;
    }
    return out;
  }

 private:
  std::map<std::string, Family> families_;
};

std::string_view word_of(fault::ProbeState state) {
  switch (state) {
    case fault::ProbeState::good:
      return "good";
    case fault::ProbeState::absent:
      return "absent";
    case fault::ProbeState::pending:
      return "pending";
    case fault::ProbeState::failed:
      return "failed";
  }
  return "failed";
}

void tell_node(Book& book, const MetricsInput& in) {
  book.declare("homeostat_agent_info", "gauge", "The agent and its version.");
  book.add("homeostat_agent_info", {{"version", in.version}, {"node", in.node}}, 1);
  book.declare("homeostat_node_info", "gauge", "The Kubernetes node, its name in Slurm and its pool.");
  book.add("homeostat_node_info", {{"node", in.node}, {"slurm_node", in.slurm_node}, {"pool", in.pool}}, 1);
  book.declare("homeostat_node_job", "gauge", "The Slurm jobs on the node.");
  for (size_t i = 0; i < std::min(in.jobs.size(), max_jobs); ++i)
    book.add("homeostat_node_job", {{"node", in.node}, {"slurm_node", in.slurm_node}, {"slurm_job", in.jobs[i]}}, 1);
  book.declare("homeostat_node_verdict", "gauge", "1 for the verdict that stands, 0 for the others.");
  for (const std::string verdict : {"Healthy", "Degraded", "Unhealthy", "Unknown"})
    book.add("homeostat_node_verdict", {{"verdict", verdict}}, in.verdict == verdict ? 1 : 0);
  book.declare("homeostat_incident_open", "gauge", "Open incidents by class of repair.");
  for (const auto repair_class :
       {fault::RepairClass::watch, fault::RepairClass::drain_after_job, fault::RepairClass::restart_job,
        fault::RepairClass::reset, fault::RepairClass::replace_node}) {
    const std::string word(fault::to_string(repair_class));
    const auto found = in.open_incidents.find(word);
    book.add("homeostat_incident_open", {{"class", word}},
             found == in.open_incidents.end() ? 0 : static_cast<double>(found->second));
  }
}

void tell_faults(Book& book, const MetricsInput& in) {
  book.declare("homeostat_fault_total", "counter", "How often a fault was seen since the agent started.");
  book.declare("homeostat_fault_last_seen_timestamp_seconds", "gauge", "When a fault was last seen.");
  for (const auto& series : in.faults) {
    const Labels labels{{"component", series.component}, {"code", series.code}, {"device", series.device}};
    book.add("homeostat_fault_total", labels, static_cast<double>(series.count));
    book.add("homeostat_fault_last_seen_timestamp_seconds", labels, seconds_of(series.last_seen));
  }
}

void tell_log(Book& book, const MetricsInput& in) {
  const auto one = [&book](const std::string& name, std::string_view type, std::string_view help, double value) {
    book.declare(name, type, help);
    book.add(name, {}, value);
  };
  one("homeostat_kmsg_records_total", "counter", "Kernel log records read.", static_cast<double>(in.kmsg.records));
  one("homeostat_kmsg_gaps_total", "counter", "How often records were overwritten before they could be read.",
      static_cast<double>(in.kmsg.gaps));
  one("homeostat_kmsg_lost_records_total", "counter", "Records that were overwritten before they could be read.",
      static_cast<double>(in.kmsg.lost_records));
  one("homeostat_kmsg_last_record_timestamp_seconds", "gauge", "When the newest kernel log record was read, 0: never.",
      seconds_of(in.kmsg.last_record));
  one("homeostat_forged_lines_total", "counter", "Lines that a process wrote to look like a fault of the kernel's.",
      static_cast<double>(in.forged_lines));
  book.declare("homeostat_api_writes_total", "counter", "Writes to the API server.");
  for (const std::string kind : {"event", "node", "node-health"}) {
    const auto found = in.api_writes.find(kind);
    const auto writes = found == in.api_writes.end() ? ApiWrites{} : found->second;
    book.add("homeostat_api_writes_total", {{"kind", kind}, {"result", "ok"}}, static_cast<double>(writes.ok));
    book.add("homeostat_api_writes_total", {{"kind", kind}, {"result", "error"}}, static_cast<double>(writes.failed));
  }
}

void tell_sensors(Book& book, const MetricsInput& in) {
  book.declare("homeostat_sensor_state", "gauge", "1 for the state that a sensor is in, 0 for the others.");
  book.declare("homeostat_sensor_last_success_timestamp_seconds", "gauge", "When a sensor last answered, 0: never.");
  size_t left = max_samples;
  for (const auto& sensor : in.sensors) {
    for (const auto state :
         {fault::ProbeState::good, fault::ProbeState::absent, fault::ProbeState::pending, fault::ProbeState::failed})
      book.add("homeostat_sensor_state", {{"sensor", sensor.name}, {"state", std::string(word_of(state))}},
               sensor.state == state ? 1 : 0);
    book.add("homeostat_sensor_last_success_timestamp_seconds", {{"sensor", sensor.name}},
             seconds_of(sensor.last_success));
    for (const auto& sample : sensor.samples) {
      if (left == 0) return;
      --left;
      book.add_sample(sample, sensor.name);
    }
  }
}

}  // namespace

std::string exposition(const MetricsInput& input) {
  Book book;
  tell_node(book, input);
  tell_faults(book, input);
  tell_log(book, input);
  tell_sensors(book, input);
  return book.text();
}

}  // namespace homeostat::agent
