#include "cli/drill_driver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/value.hpp>

#include "core/fault/drill.hpp"
#include "core/names.hpp"
#include "kube/meta.hpp"

namespace homeostat::cli {

namespace {

constexpr Duration arming_limit{15'000}, ready_limit{15'000};
// The controller decides sooner; the longest is the policy's hold for a reset, a minute by default.
constexpr Duration decision_limit{150'000};
constexpr Duration look_fast{10}, look_slowly{250};
// From when on a sensor that takes its time is asked about less often.
constexpr Duration fast_for{2'000};
constexpr Duration after_expiry{5'000};  // the controller's, for it to say so

std::string in_ms(Duration duration) { return fmt::format("{} ms", duration.count()); }

}  // namespace

std::string new_drill_name(std::string_view node, io::Random& random) {
  constexpr std::size_t longest = 240;  // of 253
  return fmt::format("{}-{:08x}", node.substr(0, longest), static_cast<std::uint32_t>(random.next()));
}

std::unexpected<Error> DrillDriver::take_back(Error error) {
  (void)client_.remove(kube::resources::drills, "", outcome_.drill.name, {.uid = outcome_.drill.uid});
  return std::unexpected(std::move(error));
}

Result<void> DrillDriver::read() {
  auto object = client_.get(kube::resources::drills, "", outcome_.drill.name);
  if (!object) return std::unexpected(object.error());
  outcome_.drill = api::decode_drill(*object);
  outcome_.drill.status.token.clear();
  return {};
}

Result<void> DrillDriver::wait_armed(Duration begun) {
  while (outcome_.drill.status.phase == api::DrillPhase::pending) {
    if (stop_.stop_requested()) return take_back({ErrorKind::cancelled, "Interrupted: the drill is taken back.", {}});
    if (clock_.monotonic() - begun > arming_limit)
      return take_back({ErrorKind::timeout,
                        "No controller has armed the drill within " + format_duration(arming_limit) +
                            ", so it is taken back. Is homeostat-controller running?",
                        {}});
    clock_.sleep(look_fast, stop_);
    if (auto read_now = read(); !read_now) {
      if (read_now.error().kind == ErrorKind::not_found) return std::unexpected(read_now.error());
    }
  }
  if (outcome_.drill.status.phase == api::DrillPhase::refused)
    return fail(ErrorKind::forbidden, outcome_.drill.status.message);
  return {};
}

Result<void> DrillDriver::wait_ready(Duration begun) {
  while (!stop_.stop_requested()) {
    const auto health = client_.get(kube::resources::node_healths, "", outcome_.drill.node);
    if (health && kube::annotation_of(*health, names::drill_annotation) == outcome_.drill.name) return {};
    if (auto now = read(); !now && now.error().kind == ErrorKind::not_found) return now;
    if (!api::is_active(outcome_.drill.status.phase)) return fail(ErrorKind::timeout, outcome_.drill.status.message);
    if (clock_.monotonic() - begun > ready_limit)
      return take_back({ErrorKind::timeout,
                        "The agent of node " + outcome_.drill.node + " is not ready for the drill after " +
                            format_duration(ready_limit) +
                            ", so it is taken back. Is its pod running, and may it read " +
                            "Drills (Kubernetes 1.31 or newer)?",
                        {}});
    clock_.sleep(look_fast, stop_);
  }
  return take_back({ErrorKind::cancelled, "Interrupted: the drill is taken back.", {}});
}

Result<void> DrillDriver::order(const DrillOrder& order) {
  api::Drill drill;
  drill.name = new_drill_name(order.node, random_);
  drill.node = order.node, drill.fault = order.fault, drill.device = order.device;
  drill.allow_production = order.production;
  auto body = kube::new_object(kube::resources::drills, "", drill.name);
  body["spec"] = api::encode_drill_spec(drill);
  const auto begun = clock_.monotonic();
  auto created = client_.create(kube::resources::drills, "", body);
  if (!created) return std::unexpected(created.error());
  outcome_ = {};
  outcome_.drill = api::decode_drill(*created);
  if (auto armed = wait_armed(begun); !armed) return armed;
  outcome_.times.armed = clock_.monotonic() - begun;
  tell_(fmt::format("armed after {} (drill {}, device {})", in_ms(outcome_.times.armed), outcome_.drill.name,
                    outcome_.drill.status.device));
  if (auto ready = wait_ready(begun); !ready) return ready;
  outcome_.times.ready = clock_.monotonic() - begun;
  tell_(fmt::format("the agent is ready after {}", in_ms(outcome_.times.ready)));
  return {};
}

Result<TimePoint> DrillDriver::strike(const std::function<Result<void>()>& act) {
  if (stop_.stop_requested()) return take_back({ErrorKind::cancelled, "Interrupted: the drill is taken back.", {}});
  struck_monotonic_ = clock_.monotonic();
  const auto at = clock_.now();
  if (auto done = act(); !done) return take_back(done.error());
  outcome_.struck_at = at;
  tell_("injected: " + outcome_.drill.fault);
  return at;
}

void DrillDriver::struck_by_agent() {
  struck_monotonic_ = clock_.monotonic();
  outcome_.struck_at = clock_.now();
  tell_("injected by the node's agent: " + outcome_.drill.fault);
}

// The finding as the API server shows it to everybody: the time that counts.
Result<void> DrillDriver::look_for_finding() {
  auto object = client_.get(kube::resources::node_healths, "", outcome_.drill.node);
  if (!object) return std::unexpected(object.error());
  const auto health = api::decode_node_health(*object);
  outcome_.verdict = health.status.verdict;
  const auto& expected = outcome_.drill.status.findings;
  for (const auto& finding : health.status.findings) {
    if (!fault::matches_expected(finding.id, expected)) continue;
    if (finding.id == expected.front() || !outcome_.finding) outcome_.finding = finding;
    if (finding.id == expected.front()) break;
  }
  return {};
}

Result<void> DrillDriver::wait_seen() {
  while (!stop_.stop_requested()) {
    const auto elapsed = clock_.monotonic() - struck_monotonic_;
    const auto looked = look_for_finding();
    if (outcome_.finding && !outcome_.times.seen) {
      const auto& finding = *outcome_.finding;
      outcome_.times.seen = clock_.monotonic() - struck_monotonic_;
      tell_(fmt::format("seen by the agent after {}: {} ({}{}{})", in_ms(*outcome_.times.seen), finding.id,
                        finding.severity, finding.repair_class.empty() ? "" : ", " + finding.repair_class,
                        finding.drill ? ", marked as a drill" : ""));
      tell_("the node's verdict is " + outcome_.verdict);
      return {};
    }
    if (auto now = read(); !now && now.error().kind == ErrorKind::not_found) return now;
    const auto& status = outcome_.drill.status;
    if (status.phase == api::DrillPhase::expired) return fail(ErrorKind::timeout, status.message);
    // A sensor that fails, and a clear, have no finding to show: the controller says that they are seen.
    if (status.phase == api::DrillPhase::seen || status.phase == api::DrillPhase::done) {
      outcome_.times.seen = clock_.monotonic() - struck_monotonic_;
      tell_(status.message);
      return {};
    }
    const auto life = status.armed_at && status.expires_at ? *status.expires_at - *status.armed_at : arming_limit;
    if (elapsed > life + after_expiry)
      return fail(ErrorKind::timeout, "Nothing was seen after " + format_duration(elapsed) +
                                          (looked ? "." : ": " + looked.error().message));
    clock_.sleep(elapsed < fast_for ? look_fast : look_slowly, stop_);
  }
  return fail(ErrorKind::cancelled,
              "Interrupted; the fault has struck. See: homeostat inject --clear " + outcome_.drill.node);
}

Result<void> DrillDriver::wait_decision() {
  const auto begun = clock_.monotonic();
  auto told = outcome_.drill.status.message;
  while (!stop_.stop_requested()) {
    if (auto now = read(); !now && now.error().kind == ErrorKind::not_found) return now;
    const auto& status = outcome_.drill.status;
    const bool decided = !status.repair.empty() || !api::is_active(status.phase);
    if (decided || (status.phase == api::DrillPhase::seen && status.message != told)) tell_(told = status.message);
    if (decided) return {};
    if (clock_.monotonic() - begun > decision_limit)
      return fail(ErrorKind::timeout, "It is not decided after " + format_duration(decision_limit) +
                                          " what is done about it. See: homeostat kubectl get drill " +
                                          outcome_.drill.name);
    clock_.sleep(look_slowly, stop_);
  }
  return fail(ErrorKind::cancelled,
              "Interrupted; the fault has struck. See: homeostat inject --clear " + outcome_.drill.node);
}

}  // namespace homeostat::cli
