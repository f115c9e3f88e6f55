#include "agent/drill.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "core/fault/ledger.hpp"
#include "core/names.hpp"
#include "io/log.hpp"
#include "kube/informer.hpp"
#include "kube/meta.hpp"

namespace homeostat::agent {

namespace {

constexpr Duration retry{300};
constexpr Duration longest_life{300'000};
constexpr size_t remembered = 32;

// How long its lines count. Measured from when it came here: the controller's clock may be another.
Duration life_of(const api::DrillStatus& status) {
  if (!status.armed_at || !status.expires_at) return Duration(0);
  return std::clamp(*status.expires_at - *status.armed_at, Duration(0), longest_life);
}

bool is_held(api::DrillPhase phase) { return phase == api::DrillPhase::armed || phase == api::DrillPhase::seen; }

}  // namespace

fault::UserLineVerdict DrillBook::judge(std::string_view text, TimePoint now) {
  std::lock_guard lock(mutex_);
  return fault::judge_user_line(text, armed_, now);
}

bool DrillBook::marks(std::string_view finding_id) const {
  std::lock_guard lock(mutex_);
  return std::any_of(armed_.begin(), armed_.end(), [&](const fault::ArmedDrill& drill) {
    return fault::matches_expected(finding_id, drill.findings);
  });
}

bool DrillBook::marks(const fault::Finding& finding) const {
  {
    std::lock_guard lock(mutex_);
    if (armed_.empty()) return false;  // nearly always
  }
  return marks(fault::finding_id(finding));
}

void DrillBook::hold(const api::Drill& drill, TimePoint now) {
  if (!is_held(drill.status.phase)) return forget(drill.name);
  std::lock_guard lock(mutex_);
  auto held =
      std::find_if(armed_.begin(), armed_.end(), [&](const fault::ArmedDrill& d) { return d.name == drill.name; });
  if (held == armed_.end()) {
    if (armed_.size() >= max_drills) armed_.erase(armed_.begin());
    held = armed_.insert(armed_.end(), {drill.name, {}, {}, {}, now + life_of(drill.status), {}});
    for (const auto& line : drill.status.lines) held->lines.push_back(line.text);
  }
  held->token = drill.status.token;
  held->findings = drill.status.findings;
}

void DrillBook::forget(std::string_view name) {
  std::lock_guard lock(mutex_);
  std::erase_if(armed_, [&](const fault::ArmedDrill& drill) { return drill.name == name; });
}

size_t DrillBook::size() const {
  std::lock_guard lock(mutex_);
  return armed_.size();
}

void DrillWatcher::take(const api::Drill& drill) {
  book_.hold(drill, clock_.now());
  if (drill.status.phase != api::DrillPhase::armed) return drop(drill.name);
  std::lock_guard lock(mutex_);
  const bool known =
      std::find(finished_.begin(), finished_.end(), drill.name) != finished_.end() ||
      std::any_of(tasks_.begin(), tasks_.end(), [&](const Task& task) { return task.name == drill.name; });
  if (known || tasks_.size() >= DrillBook::max_drills) return;
  tasks_.push_back({drill.name, drill.status.lines, drill.status.token, clock_.monotonic() + life_of(drill.status)});
  changed_.notify_one();
}

void DrillWatcher::drop(const std::string& name) {
  std::lock_guard lock(mutex_);
  std::erase_if(tasks_, [&](const Task& task) { return task.name == name; });
}

std::optional<DrillWatcher::Task> DrillWatcher::next(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [this] { return !tasks_.empty(); });
  if (stop.stop_requested() || tasks_.empty()) return std::nullopt;
  return tasks_.front();
}

void DrillWatcher::write(const Task& task, std::stop_token stop) {
  const int log = ::open(options_.kmsg_path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (log < 0) {
    io::log_error("The drill cannot be written into the kernel log",
                  {{"drill", task.name}, {"path", options_.kmsg_path}, {"error", std::strerror(errno)}});
    return;
  }
  size_t written = 0;
  for (const auto& line : task.lines) {
    if (stop.stop_requested()) break;
    if (written >= options_.lines_at_once) clock_.sleep(options_.pause_between_lines, stop);
    std::string record = "<";
    record.append(std::to_string(line.level)).append(">").append(fault::drill_marker);
    record.append(task.token).append(" ").append(line.text).append("\n");
    // One record per write: the kernel takes each as a line of its own.
    if (::write(log, record.data(), record.size()) == static_cast<ssize_t>(record.size())) ++written;
  }
  ::close(log);
  io::log_info("A drill is written into the kernel log",
               {{"drill", task.name}, {"lines", std::to_string(written)}, {"of", std::to_string(task.lines.size())}});
}

// Says whether the task is over. The annotation comes before the lines: an agent that dies in between leaves a drill
// that expires, never one that strikes twice.
bool DrillWatcher::carry_out(kube::Client& client, const Task& task, std::stop_token stop) {
  if (clock_.monotonic() >= task.give_up_at) return true;
  auto health = client.get(kube::resources::node_healths, "", options_.node_name);
  if (!health) return false;
  const bool announced = kube::annotation_of(*health, names::drill_annotation) == task.name;
  if (!announced) {
    const boost::json::object patch{{"metadata", {{"annotations", {{names::drill_annotation, task.name}}}}}};
    if (!client.patch(kube::resources::node_healths, "", options_.node_name, kube::PatchType::merge, patch))
      return false;
  }
  io::log_info("The agent is ready for a drill", {{"drill", task.name}});
  if (!announced && !options_.kmsg_path.empty()) write(task, stop);
  return true;
}

void DrillWatcher::run(std::stop_token stop) {
  kube::InformerOptions of_node;
  of_node.field_selector = "spec.nodeName=" + options_.node_name;
  of_node.resync = Duration(0);
  kube::Informer informer(clients_, kube::resources::drills, of_node, clock_, random_);
  informer.subscribe([this](const kube::ObjectKey& key, const kube::ObjectPtr&, const kube::ObjectPtr& now) {
    if (now) return take(api::decode_drill(*now));
    book_.forget(key.name);
    drop(key.name);
  });
  const std::jthread watching([&](std::stop_token own) { informer.run(own); });
  std::unique_ptr<kube::Client> client;  // made when it is first needed: drills are rare
  while (!stop.stop_requested()) {
    const auto task = next(stop);
    if (!task) continue;
    if (!client) client = clients_();
    if (!carry_out(*client, *task, stop)) {
      clock_.sleep(retry, stop);
      continue;
    }
    drop(task->name);
    std::lock_guard lock(mutex_);
    finished_.push_back(task->name);
    if (finished_.size() > remembered) finished_.pop_front();
  }
}

}  // namespace homeostat::agent
