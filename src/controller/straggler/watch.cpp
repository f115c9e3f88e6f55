#include "controller/straggler/watch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <set>

#include "core/names.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/conditions.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

constexpr size_t max_message = 1000;

SlowCondition present_condition(const kube::Object& node) {
  const auto* condition = kube::find_condition(node, names::slow_condition);
  if (condition == nullptr) return {};
  return {io::string_at(*condition, {"status"}), io::string_at(*condition, {"reason"}),
          io::string_at(*condition, {"message"})};
}

// Groups come from people: nothing in a label that would need escaping (io/step_files lets only plain text through).
std::string labels_of(const StepsKey& key) {
  return fmt::format("cluster=\"{}\",slurm_job=\"{}\",group=\"{}\"", key.cluster, key.job, key.group);
}

class Metrics {
 public:
  void add(const StepsKey& key, const fault::JobVerdict& verdict) {
    const auto job = labels_of(key);
    for (const auto& node : verdict.nodes) {
      stragglers_ += fmt::format("homeostat_straggler{{node=\"{}\",{}}} {}\n", node.node, job,
                                 node.pace == fault::Pace::straggler ? 1 : 0);
      if (node.ratio > 0)
        ratios_ += fmt::format("homeostat_straggler_ratio{{node=\"{}\",{}}} {:.3f}\n", node.node, job, node.ratio);
    }
    if (verdict.slowdown > 0)
      slowdowns_ += fmt::format("homeostat_job_slowdown_ratio{{{}}} {:.3f}\n", job, verdict.slowdown);
    hangs_ += fmt::format("homeostat_job_hang_suspected{{{}}} {}\n", job,
                          verdict.pace == fault::JobPace::hang_suspected ? 1 : 0);
  }
  std::string text() const {
    return head("homeostat_straggler", "1 for a node that holds its job up.") + stragglers_ +
           head("homeostat_straggler_ratio", "Compute time of a node's step to the median of its job's other nodes.") +
           ratios_ +
           head("homeostat_job_slowdown_ratio", "Step of a job to its own baseline: 1.2 takes a fifth longer.") +
           slowdowns_ + head("homeostat_job_hang_suspected", "1 for a job that has made no step for long.") + hangs_;
  }

 private:
  static std::string head(std::string_view name, std::string_view help) {
    return fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", name, help);
  }
  std::string stragglers_, ratios_, slowdowns_, hangs_;
};

}  // namespace

StragglerWatch::StragglerWatch(kube::ClientFactory clients, const kube::Informer& nodes, const kube::Informer& healths,
                               io::Clock& clock, StragglerOptions options)
    : clients_(std::move(clients)), nodes_(nodes), healths_(healths), clock_(clock), options_(options) {}

void StragglerWatch::run(const EventSink& events, std::stop_token stop) {
  const auto client = clients_();
  while (!stop.stop_requested()) {
    if (nodes_.synced() && healths_.synced()) look(*client, events);
    clock_.sleep(options_.every, stop);
  }
}

std::string StragglerWatch::metrics() const {
  const std::scoped_lock lock(mutex_);
  return metrics_;
}

// A controller that has just started takes up what the nodes' conditions say.
void StragglerWatch::recall(fault::JobSpeed& speed, const std::vector<fault::NodeSpeed>& reports) const {
  for (const auto& report : reports)
    if (const auto node = nodes_.store().get({"", report.node}))
      if (present_condition(*node).status == "True") speed.recall_straggler(report.node);
}

StragglerWatch::Paces StragglerWatch::judge(const JobReports& reports, TimePoint now, const EventSink& events) {
  Paces paces;
  Metrics metrics;
  std::set<std::pair<std::string, std::string>> measured;  // strangers' reports for the same job have no series
  for (const auto& [key, nodes] : reports) {
    auto speed = speeds_.find(key);
    if (speed == speeds_.end()) {
      speed = speeds_.emplace(key, fault::JobSpeed(key.job, options_.params)).first;
      if (!looked_) recall(speed->second, nodes);
    }
    const auto verdict = speed->second.judge(nodes, now);
    for (const auto& node : verdict.nodes) paces[node.node].push_back(node);
    if (measured.emplace(key.cluster + "/" + key.job, key.group).second) metrics.add(key, verdict);
    tell_job(key, verdict, events);
  }
  std::erase_if(speeds_, [&](const auto& entry) { return !reports.contains(entry.first); });
  std::erase_if(told_, [&](const auto& entry) { return !reports.contains(entry.first); });
  const std::scoped_lock lock(mutex_);
  metrics_ = metrics.text();
  return paces;
}

// There is no object for a job: its first node says it, so that a large job does not say it a thousand times.
void StragglerWatch::tell_job(const StepsKey& key, const fault::JobVerdict& verdict, const EventSink& events) {
  auto& told = told_.try_emplace(key, fault::JobPace::unknown).first->second;
  if (told == verdict.pace) return;
  told = verdict.pace;
  const bool slower = verdict.pace == fault::JobPace::slower, hangs = verdict.pace == fault::JobPace::hang_suspected;
  io::log(slower || hangs ? io::LogLevel::warn : io::LogLevel::info, "the pace of a job has changed",
          {{"job", key.job},
           {"cluster", key.cluster},
           {"pace", std::string(to_string(verdict.pace))},
           {"message", verdict.message}});
  if (!(slower || hangs) || verdict.nodes.empty() || !events) return;
  if (const auto node = nodes_.store().get({"", verdict.nodes.front().node}))
    events(kube::resources::nodes, *node, true, slower ? "JobSlower" : "JobHangSuspected", verdict.message);
}

StragglerWatch::Said& StragglerWatch::said_of(const kube::Object& node) {
  auto& said = said_[kube::name_of(node)];
  if (const auto uid = kube::uid_of(node); said.uid != uid) said = {uid, present_condition(node), {}, {}};
  return said;
}

Result<void> StragglerWatch::say(kube::Client& client, const kube::Object& node, Said& said, const SlowCondition& next,
                                 TimePoint now, const EventSink& events) {
  const auto name = kube::name_of(node);
  const bool turned = said.condition.status != next.status;
  const bool was_slow = said.condition.status == "True";
  const auto since = turned || said.since == TimePoint{} ? now : said.since;
  auto object = kube::new_object(kube::resources::nodes, "", name);
  io::set_at(object, {"metadata", "uid"}, boost::json::value(kube::uid_of(node)));
  io::set_at(object, {"status", "conditions"},
             boost::json::array{boost::json::object{{"type", names::slow_condition},
                                                    {"status", next.status},
                                                    {"reason", next.reason},
                                                    {"message", next.message.substr(0, max_message)},
                                                    {"lastHeartbeatTime", kube::meta_time(now)},
                                                    {"lastTransitionTime", kube::meta_time(since)}}});
  const auto applied =
      client.apply(kube::resources::nodes, "", name, object, {std::string(names::straggler_manager), true, "status"});
  if (!applied) return std::unexpected(applied.error());
  said.condition = next;
  said.since = since;
  said.written_at = now;
  if (!turned || !events) return {};
  if (next.status == "True")
    events(kube::resources::nodes, node, true, next.reason, next.message);
  else if (was_slow && next.status == "False")
    events(kube::resources::nodes, node, false, "StragglerRecovered", next.message);
  return {};
}

void StragglerWatch::look(kube::Client& client, const EventSink& events) {
  const auto now = clock_.now();
  const auto healths = healths_.store().list();
  const auto paces = judge(gather_reports(healths, nodes_.store()), now, events);
  looked_ = true;
  size_t writes = 0, failures = 0;
  std::string failure;
  std::set<std::string, std::less<>> present;
  for (const auto& node : nodes_.store().list()) {
    const auto name = kube::name_of(*node);
    present.insert(name);
    auto& said = said_of(*node);
    const auto found = paces.find(name);
    const auto next =
        slow_condition(found == paces.end() ? std::span<const fault::NodePace>{} : found->second, said.condition);
    const bool turned = next.status != said.condition.status || next.reason != said.condition.reason;
    const bool renewed =
        next.status == "True" && next.message != said.condition.message && now - said.written_at >= options_.renew;
    if (next.status.empty() || !(turned || renewed) || writes >= options_.writes_per_look) continue;
    ++writes;
    if (auto done = say(client, *node, said, next, now, events); !done && failures++ == 0)
      failure = done.error().message;
  }
  if (failures > 0)
    io::log_warn("the condition AcceleratorSlow of some nodes cannot be written and is tried again",
                 {{"nodes", std::to_string(failures)}, {"error", failure}});
  std::erase_if(said_, [&](const auto& entry) { return !present.contains(entry.first); });
}

}  // namespace homeostat::controller
