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

struct GpusSaid {
  std::optional<int> count;
  GpuVendor vendor = GpuVendor::unknown;
};

// The provider's label and, on a cluster with a device plugin, the node's capacity.
GpusSaid gpus_said_by(const kube::Object& node) {
  GpusSaid said;
  for (const auto& [resource, vendor] :
       {std::pair{"nvidia.com/gpu", GpuVendor::nvidia}, std::pair{"amd.com/gpu", GpuVendor::amd}})
    if (const auto count = parse_count(io::string_at(node, {"status", "capacity", resource})); count.value_or(0) > 0) {
      said = {count, vendor};
      break;
    }
  if (const auto count = parse_count(kube::label_of(node, "homeostat.dev/gpus"))) said.count = count;
  return said;
}

constexpr double most_tokens = 40, tokens_per_ms = 0.01, deepest_debt = -9;  // which is paid back in a second
constexpr double changes_per_token = 4;

}  // namespace

double WriteBudget::tokens_at(Duration monotonic) const {
  return std::min(most_tokens,
                  tokens_ + static_cast<double>(std::max(Duration(0), monotonic - at_).count()) * tokens_per_ms);
}

Duration WriteBudget::wait(Duration monotonic) const {
  const double missing = 1 - tokens_at(monotonic);
  return missing <= 0 ? Duration(0) : Duration(static_cast<std::int64_t>(missing / tokens_per_ms) + 1);
}

void WriteBudget::spend(std::uint64_t changes, Duration monotonic) {
  const double cost = std::max(1.0, static_cast<double>(changes) / changes_per_token);
  tokens_ = std::max(deepest_debt, tokens_at(monotonic) - cost);
  at_ = monotonic;
}

Reporter::Reporter(ReporterOptions options, NodeState& state, const kube::ClientFactory& clients, io::Clock& clock,
                   io::Random& random)
    : options_(std::move(options)),
      state_(state),
      client_(clients()),
      clock_(clock),
      random_(random),
      recorder_(clients, "homeostat-agent", options_.node_name, clock) {}

// What the Node says of itself: a device plugin may have counted its GPUs only after we started.
Result<void> Reporter::read_node() {
  auto node = client_->get(nodes, "", options_.node_name);
  if (!node) return std::unexpected(node.error());
  node_ = std::move(*node);
  state_.set_pool(kube::label_of(node_, names::pool_label));
  const auto said = gpus_said_by(node_);
  gpus_of_node_ = said.count;
  if (const auto count = options_.expected_gpus ? options_.expected_gpus : said.count)
    state_.set_expected_gpus(*count, said.vendor);
  return {};
}

// The NodeHealth belongs to its Node and goes with it.
Result<void> Reporter::ensure_object() {
  if (auto read = read_node(); !read) return read;
  auto object = kube::new_object(node_healths, "", options_.node_name);
  io::set_at(object, {"metadata", "ownerReferences"}, boost::json::array{kube::owner_reference(nodes, node_)});
  if (options_.drills_by_kernel_log)
    io::set_at(object, {"metadata", "annotations", names::drills_by_annotation},
               boost::json::string(names::drills_by_kernel_log));
  const auto applied =
      client_->apply(node_healths, "", options_.node_name, object, {std::string(names::agent_manager), true, ""});
  state_.count_write("node-health", applied.has_value());
  if (!applied) return std::unexpected(applied.error());
  if (conditions_.empty()) conditions_ = io::array_at(*applied, {"status", "conditions"});
  if (!told_before_) teller_.begin(api::decode_node_health(*applied).status);
  told_before_ = true;
  ensured_ = true;
  return {};
}

Result<void> Reporter::write_status(const NodeState::View& view) {
  const auto now = clock_.now();
  kube::set_condition(conditions_,
                      {std::string(names::accelerator_condition), std::string(condition_status(view.judgement.verdict)),
                       view.judgement.reason, view.judgement.message},
                      now);
  const bool speaks = view.probe == fault::ProbeState::good || view.probe == fault::ProbeState::absent;
  kube::set_condition(conditions_,
                      {"AgentConnected", speaks ? "True" : "False", speaks ? "Reporting" : "SensorFailed",
                       speaks || view.probe_message == view.log_message ? view.log_message
                                                                        : view.log_message + " " + view.probe_message},
                      now);
  auto status = api::encode_node_health_status(view.status);
  status["conditions"] = conditions_;
  auto object = kube::new_object(node_healths, "", options_.node_name);
  object["status"] = std::move(status);
  const auto applied =
      client_->apply(node_healths, "", options_.node_name, object, {std::string(names::agent_manager), true, "status"});
  state_.count_write("node-health", applied.has_value());
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
  const auto patched = client_->patch(nodes, "", options_.node_name, kube::PatchType::strategic_merge, body, "status");
  state_.count_write("node", patched.has_value());
  if (!patched) return std::unexpected(patched.error());
  node_condition_ = text;
  node_condition_status_ = status;
  condition_written_at_ = clock_.monotonic();
  return {};
}

void Reporter::refresh_policy() {
  if (policy_read_ && clock_.monotonic() - policy_read_at_ < options_.policy_refresh) return;
  if (policy_read_) (void)read_node();  // not at the first time: it has just been read
  policy_read_ = true;
  policy_read_at_ = clock_.monotonic();
  const auto object = client_->get(health_policies, "", options_.policy_name);
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
  budget_.spend(view.changes - written_changes_, clock_.monotonic());
  if (auto done = write_status(view); !done) return done;
  written_version_ = view.version;
  written_changes_ = view.changes;
  next_change_ = view.next_change;
  written_at_ = clock_.monotonic();
  if (auto done = write_node_condition(view); !done) {
    written_version_.reset();
    return done;
  }
  tell(view);
  // Later on last, so that it never delays a fault.
  refresh_policy();
  return {};
}

void Reporter::tell(const NodeState::View& view) {
  for (const auto& event : teller_.look(view.status, clock_.monotonic())) {
    recorder_.record(nodes, node_, event.warning ? kube::EventType::warning : kube::EventType::normal, event.reason,
                     event.message);
    state_.count_write("event", true);
  }
}

// Quiet until something is urgent and the budget allows it, else for a batch's time; then only a change or the
// heartbeat is worth a write.
void Reporter::rest(std::uint64_t seen_urgent, std::stop_token stop) {
  clock_.sleep(budget_.wait(clock_.monotonic()), stop);
  while (!stop.stop_requested()) {
    auto at_most = options_.batch;
    const auto now = clock_.now();
    if (next_change_) at_most = std::clamp(std::chrono::ceil<Duration>(*next_change_ - now), Duration(1), at_most);
    const auto wake = state_.wait(seen_urgent, at_most, stop);
    state_.check_log(clock_.monotonic(), clock_.now());
    const bool matured = next_change_ && clock_.now() >= *next_change_;
    if (wake.urgent || matured || wake.version != written_version_ ||
        clock_.monotonic() - written_at_ >= options_.heartbeat)
      return;
  }
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
    rest(seen_urgent, stop);
  }
}

}  // namespace homeostat::agent
