#include "agent/memory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/fault/catalog.hpp"
#include "io/json.hpp"

namespace homeostat::agent {

namespace {

std::string file_in(const std::string& folder) { return folder + "/agent.json"; }

boost::json::object encode_entry(const fault::LedgerEntry& entry) {
  const auto& finding = entry.finding;
  boost::json::object out{{"component", finding.component},
                          {"code", finding.code},
                          {"device", finding.device},
                          {"severity", fault::to_string(finding.severity)},
                          {"action", finding.action},
                          {"title", finding.title},
                          {"class", fault::to_string(finding.repair_class)},
                          {"atOnce", finding.unambiguous},
                          {"injected", finding.injected},
                          {"first", format_rfc3339(entry.first_seen)},
                          {"last", format_rfc3339(entry.last_seen)},
                          {"count", entry.count},
                          {"evidence", entry.evidence},
                          {"began", format_rfc3339(entry.began)},
                          {"incident", entry.incident},
                          {"incidentSince", format_rfc3339(entry.incident_since)},
                          {"role", fault::to_string(entry.role)}};
  if (finding.drill) out["drill"] = true;
  if (finding.rma_candidate) out["rma"] = true;
  if (entry.cured) out["cured"] = true;
  if (!finding.upstream.empty()) out["upstream"] = finding.upstream;
  if (!finding.caused_by.empty()) out["causedBy"] = finding.caused_by;
  if (!finding.pod_uid.empty()) out["podUid"] = finding.pod_uid;
  if (!finding.slurm_job.empty()) out["slurmJob"] = finding.slurm_job;
  return out;
}

boost::json::object encode_record(const fault::RepeatHistory::Record& record) {
  boost::json::array counts;
  for (const auto count : record.counts) counts.push_back(count);
  return {{"id", record.id},
          {"bucket", record.bucket},
          {"counts", std::move(counts)},
          {"last", format_rfc3339(record.last)},
          {"raised", record.raised}};
}

std::optional<fault::RepeatHistory::Record> decode_record(const boost::json::value& from) {
  fault::RepeatHistory::Record record;
  record.id = io::string_at(from, {"id"});
  record.bucket = io::int_at(from, {"bucket"});
  const auto last = parse_rfc3339(io::string_at(from, {"last"}));
  const auto& counts = io::array_at(from, {"counts"});
  if (record.id.empty() || !last || counts.size() != record.counts.size()) return std::nullopt;
  for (size_t i = 0; i < counts.size(); ++i) {
    boost::system::error_code bad;
    record.counts[i] = counts[i].to_number<std::uint32_t>(bad);
    if (bad) return std::nullopt;
  }
  record.last = *last;
  record.raised = io::bool_at(from, {"raised"});
  return record;
}

std::optional<fault::LedgerEntry> decode_entry(const boost::json::value& from) {
  fault::LedgerEntry entry;
  auto& finding = entry.finding;
  finding.component = io::string_at(from, {"component"});
  finding.code = io::string_at(from, {"code"});
  finding.device = io::string_at(from, {"device"});
  const auto severity = fault::parse_severity(io::string_at(from, {"severity"}));
  const auto repair_class = fault::parse_repair_class(io::string_at(from, {"class"}));
  const auto first = parse_rfc3339(io::string_at(from, {"first"}));
  const auto last = parse_rfc3339(io::string_at(from, {"last"}));
  if (finding.component.empty() || !severity || !repair_class || !first || !last) return std::nullopt;
  finding.severity = *severity;
  finding.repair_class = *repair_class;
  finding.action = io::string_at(from, {"action"});
  finding.title = io::string_at(from, {"title"});
  finding.unambiguous = io::bool_at(from, {"atOnce"});
  finding.injected = io::bool_at(from, {"injected"});
  entry.first_seen = *first;
  entry.last_seen = *last;
  entry.count = static_cast<std::uint64_t>(std::max<std::int64_t>(1, io::int_at(from, {"count"}, 1)));
  entry.evidence = io::string_at(from, {"evidence"});
  finding.drill = io::bool_at(from, {"drill"});
  finding.rma_candidate = io::bool_at(from, {"rma"});
  finding.upstream = io::string_at(from, {"upstream"});
  finding.caused_by = io::string_at(from, {"causedBy"});
  finding.pod_uid = io::string_at(from, {"podUid"});
  finding.slurm_job = io::string_at(from, {"slurmJob"});
  entry.began = parse_rfc3339(io::string_at(from, {"began"})).value_or(*first);
  entry.incident = io::string_at(from, {"incident"});
  entry.incident_since = parse_rfc3339(io::string_at(from, {"incidentSince"})).value_or(*first);
  entry.role = fault::parse_role(io::string_at(from, {"role"}));
  entry.cured = io::bool_at(from, {"cured"});
  entry.id = fault::finding_id(finding);
  return entry;
}

}  // namespace

std::string encode_memory(const Memory& memory) {
  boost::json::array entries;
  for (const auto& entry : memory.entries) entries.push_back(encode_entry(entry));
  boost::json::array gpus;
  for (const auto& gpu : memory.gpus) {
    boost::json::object out{{"index", gpu.index}, {"uuid", gpu.uuid}, {"pci", gpu.pci}};
    if (gpu.vendor == GpuVendor::amd) out["amd"] = true;
    gpus.push_back(std::move(out));
  }
  boost::json::array repeats;
  repeats.reserve(memory.history.size());
  for (const auto& record : memory.history) repeats.push_back(encode_record(record));
  boost::json::object out{
      {"bootId", memory.boot_id},           {"entries", std::move(entries)}, {"repeats", std::move(repeats)},
      {"dropped", memory.dropped},          {"gpus", std::move(gpus)},       {"gaps", memory.gaps},
      {"lostRecords", memory.lost_records}, {"forgeries", memory.forgeries}};
  if (memory.last_sequence) out["lastSequence"] = *memory.last_sequence;
  return io::to_text(out);
}

Result<Memory> decode_memory(std::string_view text) {
  const auto object = io::parse_json_object(text, "the agent's memory", 1 << 20);
  if (!object) return std::unexpected(object.error());
  Memory memory;
  memory.boot_id = io::string_at(*object, {"bootId"});
  if (memory.boot_id.empty()) return fail(ErrorKind::invalid, "The agent's memory names no boot.");
  if (const auto last = io::int_at(*object, {"lastSequence"}, -1); last >= 0)
    memory.last_sequence = static_cast<std::uint64_t>(last);
  const auto count_at = [&object](std::string_view name) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, io::int_at(*object, {name})));
  };
  memory.dropped = count_at("dropped");
  memory.gaps = count_at("gaps");
  memory.lost_records = count_at("lostRecords");
  memory.forgeries = count_at("forgeries");
  for (const auto& value : io::array_at(*object, {"entries"}))
    if (auto entry = decode_entry(value)) memory.entries.push_back(std::move(*entry));
  for (const auto& value : io::array_at(*object, {"repeats"}))
    if (auto record = decode_record(value)) memory.history.push_back(std::move(*record));
  for (const auto& gpu : io::array_at(*object, {"gpus"}))
    if (const auto index = io::int_at(gpu, {"index"}, -1); index >= 0 && index < 64)
      memory.gpus.push_back({static_cast<unsigned>(index), io::string_at(gpu, {"uuid"}), io::string_at(gpu, {"pci"}),
                             io::bool_at(gpu, {"amd"}) ? GpuVendor::amd : GpuVendor::nvidia});
  return memory;
}

Result<Memory> load_memory(const std::string& folder) {
  std::ifstream file(file_in(folder), std::ios::binary);
  if (!file) return fail(ErrorKind::not_found, "Nothing was saved in " + folder + " yet.");
  std::ostringstream text;
  text << file.rdbuf();
  return decode_memory(text.str());
}

Result<void> save_memory(const std::string& folder, const Memory& memory) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const auto path = file_in(folder), fresh = path + ".new";
  const auto failed = [&](const std::string& what) {
    return fail(ErrorKind::internal,
                what + " " + fresh + ": " + std::strerror(errno) + ". Is the disk full, or the folder read-only?");
  };
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return failed("The agent cannot write");
  const auto text = encode_memory(memory);
  const ssize_t written = ::write(fd, text.data(), text.size());
  const bool whole = written == static_cast<ssize_t>(text.size());
  if (::close(fd) != 0 || !whole) return failed("The agent could not write all of");
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return failed("The agent cannot put in place");
  return {};
}

}  // namespace homeostat::agent
