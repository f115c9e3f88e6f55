#include "core/fault/oom.hpp"

#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

// 8-4-4-4-12 hex digits with '-' or, in systemd's spelling, '_' between them; or 32 hex digits. "" when it is neither.
std::string read_uid(std::string_view text) {
  static constexpr size_t dashed = 36, plain = 32;
  std::string uid;
  uid.reserve(dashed);
  for (size_t i = 0; i < text.size() && i < dashed; ++i) {
    const bool separator = i == 8 || i == 13 || i == 18 || i == 23;
    if (separator && (text[i] == '-' || text[i] == '_'))
      uid += '-';
    else if (is_hex(text[i]))
      uid += to_lower(text[i]);
    else
      break;
  }
  const bool has_dashes = uid.size() == dashed && uid[8] == '-' && uid[13] == '-' && uid[18] == '-' && uid[23] == '-';
  const bool has_none = uid.find('-') == std::string::npos;
  const bool ends = text.size() == uid.size() || !is_alnum(text[uid.size()]);
  if (has_dashes && ends) return uid;
  if (has_none && uid.size() == plain && ends) return uid;
  return {};
}

std::string_view value_of(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return {};
  auto rest = text.substr(at + key.size());
  return rest.substr(0, rest.find(','));
}

Finding make(bool of_container) {
  Finding finding;
  finding.component = "oom";
  finding.code = of_container ? "CGROUP_OOM" : "GLOBAL_OOM";
  finding.severity = of_container ? Severity::info : Severity::warn;
  finding.title = of_container ? "A container ran out of its memory" : "The machine ran out of memory";
  return finding;
}

// The kernel prints both groups: the one that reached its limit and, within it, that of the process that is killed.
CgroupOwner owner_of(std::string_view victims, std::string_view limits) {
  const auto inner = cgroup_owner(victims);
  return inner.known() ? inner : cgroup_owner(limits);
}

}  // namespace

CgroupOwner cgroup_owner(std::string_view path) {
  CgroupOwner owner;
  for (auto at = path.find("pod"); at != std::string_view::npos; at = path.find("pod", at + 1)) {
    if (at > 0 && path[at - 1] != '/' && path[at - 1] != '-') continue;
    if (auto uid = read_uid(path.substr(at + 3)); !uid.empty()) owner.pod_uid = std::move(uid);
  }
  if (contains(path, "slurm"))
    for (auto at = path.find("/job_"); at != std::string_view::npos; at = path.find("/job_", at + 1)) {
      auto digits = path.substr(at + 5);
      if (const auto job = take_number(digits); job && (digits.empty() || digits.front() == '/'))
        owner.slurm_job = std::to_string(*job);
    }
  return owner;
}

void set_owner(Finding& finding, const CgroupOwner& owner) {
  finding.pod_uid = owner.pod_uid;
  finding.slurm_job = owner.slurm_job;
  if (!owner.slurm_job.empty())
    finding.device = "job/" + owner.slurm_job;
  else if (!owner.pod_uid.empty())
    finding.device = "pod/" + owner.pod_uid;
}

std::optional<OomRecord> parse_oom_record(std::string_view text) {
  OomRecord record;
  if (text.starts_with("oom-kill:constraint=")) {
    record.finding = make(value_of(text, "constraint=") == "CONSTRAINT_MEMCG");
    set_owner(record.finding, owner_of(value_of(text, ",task_memcg="), value_of(text, ",oom_memcg=")));
    auto pid = value_of(text, ",pid=");
    record.pid = take_number(pid).value_or(0);
    return record;
  }
  static constexpr std::string_view head = "Task in ", middle = " killed as a result of limit of ";
  static constexpr std::string_view group_head = "Tasks in ",
                                    group_tail = " are going to be killed due to memory.oom.group";
  if (text.starts_with(group_head))
    if (const auto at = text.find(group_tail); at != std::string_view::npos) {
      record.finding = make(true);
      record.of_group = true;
      set_owner(record.finding, cgroup_owner(text.substr(group_head.size(), at - group_head.size())));
      return record;
    }
  if (!text.starts_with(head)) return std::nullopt;
  const auto at = text.find(middle);
  if (at == std::string_view::npos) return std::nullopt;
  record.finding = make(true);
  set_owner(record.finding, owner_of(text.substr(head.size(), at - head.size()), text.substr(at + middle.size())));
  return record;
}

std::uint64_t killed_pid(std::string_view text) {
  for (std::string_view key : {"Killed process ", "Kill process ", "OOM victim "}) {
    const auto at = text.find(key);
    if (at == std::string_view::npos) continue;
    auto rest = text.substr(at + key.size());
    return take_number(rest).value_or(0);
  }
  return 0;
}

}  // namespace homeostat::fault
