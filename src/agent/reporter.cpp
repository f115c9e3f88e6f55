#include "agent/reporter.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>

#include "api/health_policy.hpp"
#include "core/names.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/conditions.hpp"
#include "kube/meta.hpp"

namespace homeostat::agent {

using kube::resources::health_policies;
using kube::resources::node_healths;
using kube::resources::nodes;

namespace {

std::string_view condition_status(fault::NodeVerdict verdict) {
  switch (verdict) {
    case fault::NodeVerdict::healthy:
    case fault::NodeVerdict::degraded:
      return "True";
    case fault::NodeVerdict::unhealthy:
      return "False";
    case fault::NodeVerdict::unknown:
      return "Unknown";
  }
  return "Unknown";
}

std::optional<int> parse_count(const std::string& text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc{} && end == text.data() + text.size() && count >= 0 ? std::optional(count) : std::nullopt;
}

// The provider's label or, on a cluster with a device plugin, the node's capacity.
std::optional<int> gpus_said_by(const kube::Object& node) {
  if (auto count = parse_count(kube::label_of(node, "homeostat.dev/gpus"))) return count;
  for (std::string_view resource : {"nvidia.com/gpu", "amd.com/gpu"})
    if (auto count = parse_count(io::string_at(node, {"status", "capacity", resource}))) return count;
  return std::nullopt;
}

}  // namespace

// The NodeHealth belongs to its Node and goes with it.
Result<void> Reporter::ensure_object() {
  const auto node = client_.get(nodes, "", options_.node_name);
  if (!node) return std::unexpected(node.error());
  gpus_of_node_ = gpus_said_by(*node);
  if (!options_.expected_gpus && gpus_of_node_) state_.set_expected_gpus(*gpus_of_node_);
  auto object = kube::new_object(node_healths, "", options_.node_name);
  io::set_at(object, {"metadata", "ownerReferences"}, boost::json::array{kube::owner_reference(nodes, *node)});
  const auto applied =
      client_.apply(node_healths, "", options_.node_name, object, {std::string(names::agent_manager), true, ""});
  if (!applied) return std::unexpected(applied.error());
  if (conditions_.empty()) conditions_ = io::array_at(*applied, {"status", "conditions"});
  ensured_ = true;
  return {};
}

Result<void> Reporter::write_status(const NodeState::View& view) {
  const auto now = clock_.now();
  kube::set_condition(conditions_,
                      {std::string(names::accelerator_condition), std::string(condition_status(view.judgement.verdict)),
                       view.judgement.reason, view.judgement.message},
                      now);
  const bool probe_speaks = view.probe == fault::ProbeState::good || view.probe == fault::ProbeState::absent;
  kube::set_condition(conditions_,
                      {"AgentConnected", probe_speaks ? "True" : "False", probe_speaks ? "Reporting" : "ProbeFailed",
                       probe_speaks ? "The kernel log and the device probe are being read."
                                    : "The kernel log is being read; the device probe is not: " + view.probe_message},
                      now);
  auto status = api::encode_node_health_status(view.status);
  status["conditions"] = conditions_;
  auto object = kube::new_object(node_healths, "", options_.node_name);
  object["status"] = std::move(status);
  const auto applied =
      client_.apply(node_healths, "", options_.node_name, object, {std::string(names::agent_manager), true, "status"});
  if (applied) return {};
  if (applied.error().kind == ErrorKind::not_found) ensured_ = false;
  return std::unexpected(applied.error());
}

Result<void> Reporter::write_node_condition(const NodeState::View& view) {
  const std::string status(condition_status(view.judgement.verdict));
  const auto text = status + "\n" + view.judgement.reason + "\n" + view.judgement.message;
  const bool due = clock_.monotonic() - condition_written_at_ >= options_.node_condition_heartbeat;
  if (text == node_condition_ && !due) return {};
  const auto now = clock_.now();
  if (status != node_condition_status_) node_condition_since_ = now;
  const boost::json::object condition{
      {"type", names::accelerator_condition},      {"status", status},
      {"reason", view.judgement.reason},           {"message", view.judgement.message},
      {"lastHeartbeatTime", kube::meta_time(now)}, {"lastTransitionTime", kube::meta_time(node_condition_since_)}};
  boost::json::object body;
  io::set_at(body, {"status", "conditions"}, boost::json::array{condition});
  const auto patched = client_.patch(nodes, "", options_.node_name, kube::PatchType::strategic_merge, body, "status");
  if (!patched) return std::unexpected(patched.error());
  node_condition_ = text;
  node_condition_status_ = status;
  condition_written_at_ = clock_.monotonic();
  return {};
}

void Reporter::refresh_policy() {
  if (policy_read_ && clock_.monotonic() - policy_read_at_ < options_.policy_refresh) return;
  policy_read_ = true;
  policy_read_at_ = clock_.monotonic();
  const auto object = client_.get(health_policies, "", options_.policy_name);
  if (object) {
    auto policy = api::decode_health_policy(*object);
    for (const auto& problem : policy.problems) io::log_warn(problem, {{"policy", policy.name}});
    state_.set_policy(std::move(policy.rules));
  } else if (object.error().kind == ErrorKind::not_found) {
    state_.set_policy({});  // the catalogue alone decides
  }
}

Result<void> Reporter::report() {
  if (!ensured_)
    if (auto done = ensure_object(); !done) return done;
  if (!policy_read_) refresh_policy();
  const auto view = state_.view(clock_.now());
  if (auto done = write_status(view); !done) return done;
  written_version_ = view.version;
  written_at_ = clock_.monotonic();
  if (auto done = write_node_condition(view); !done) {
    written_version_.reset();
    return done;
  }
  // Later on last, so that it never delays a fault.
  refresh_policy();
  return {};
}

Duration Reporter::backoff() {
  const Duration longest{5'000};
  const auto doubled = Duration(200 << std::min(failures_, 5));
  const auto jitter = Duration(static_cast<std::int64_t>(random_.next() % 100));
  return std::min(doubled, longest) + jitter;
}

void Reporter::run(std::stop_token stop) {
  std::uint64_t seen_urgent = 0;
  bool down = false;
  while (!stop.stop_requested()) {
    seen_urgent = state_.urgent_version();
    if (auto done = report(); !done) {
      ++failures_;
      if (!down) io::log_warn("The node's health cannot be written, trying on", {{"error", done.error().message}});
      down = true;
      clock_.sleep(backoff(), stop);
      continue;
    }
    if (down) io::log_info("The node's health is written again");
    down = false;
    failures_ = 0;
    // Quiet until something is urgent, else for a batch's time; then only a change or the heartbeat is worth a write.
    while (!stop.stop_requested()) {
      const auto wake = state_.wait(seen_urgent, options_.batch, stop);
      if (wake.urgent || wake.version != written_version_ || clock_.monotonic() - written_at_ >= options_.heartbeat)
        break;
    }
  }
}

}  // namespace homeostat::agent
