#include "controller/repair/reconciler.hpp"

#include <boost/json/array.hpp>

#include "api/health_policy.hpp"
#include "api/repair.hpp"
#include "controller/repair/act.hpp"
#include "controller/repair/observe.hpp"
#include "controller/world/policy.hpp"
#include "controller/world/views.hpp"
#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/conditions.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

// Steps of one reconcile; a repair that has more to do at once comes back through the queue.
constexpr int max_steps = 32;
constexpr Duration after_conflict{20};
constexpr Duration after_failure{1'000};

std::string_view event_reason(repair::Phase phase) {
  switch (phase) {
    case repair::Phase::blocked:
      return "RepairBlocked";
    case repair::Phase::failed:
      return "RepairFailed";
    case repair::Phase::cancelled:
      return "RepairCancelled";
    case repair::Phase::done:
      return "RepairDone";
    default:
      return "RepairProgress";
  }
}

kube::Condition completion(const repair::Record& record) {
  bool over = repair::is_terminal(record.phase);
  return {"Complete", over ? "True" : "False", std::string(repair::to_string(record.phase)), record.message,
          std::nullopt};
}

}  // namespace

struct RepairReconciler::Run {
  Session& session;
  kube::Object object;       // as the API server has it
  repair::Record persisted;  // the same, decoded
  repair::Record record;     // with outcomes that are not written yet
  RepairContext context;
  std::vector<api::WebhookTarget> targets;
};

Result<kube::ReconcileResult> RepairReconciler::reconcile(const kube::ObjectKey& key, std::stop_token stop) {
  auto session = sessions_.lend();
  auto object = session->kube().get(kube::resources::repairs, "", key.name);
  if (!object) {
    if (object.error().kind == ErrorKind::not_found) return kube::ReconcileResult{};
    return std::unexpected(object.error());
  }
  repair::Record record = api::decode_repair(*object);
  if (repair::is_terminal(record.phase) || kube::is_deleting(*object)) return kube::ReconcileResult{};
  Run run{*session, std::move(*object), record, record, {}, {}};
  auto rules = read_rules(session->kube(), record.pool);
  if (!rules) return std::unexpected(rules.error());
  run.context = {rules->pool, view_policy(rules->policy), &book_};
  run.targets = rules->policy.notify;
  return advance(run, stop);
}

Result<kube::ReconcileResult> RepairReconciler::advance(Run& run, std::stop_token stop) {
  int gpus = run.context.pool ? run.context.pool->gpus_per_node : 0;
  for (int i = 0; i < max_steps && !stop.stop_requested(); ++i) {
    repair::Observed seen = observe(run.session, run.record, run.context);
    repair::Decision decision = repair::step(run.record, seen, run.context.policy, gpus, clock_.now(), limits_);
    if (auto written = persist(run, decision.next); !written) {
      if (written.error().kind == ErrorKind::conflict || written.error().kind == ErrorKind::unknown_outcome)
        return kube::ReconcileResult{after_conflict};
      return std::unexpected(written.error());
    }
    if (decision.effect) {
      auto outcome = act(run.session, notifications_, *decision.effect, run.record, run.context, run.targets);
      repair::report_outcome(run.record, decision.step, outcome.has_value(), outcome ? "" : outcome.error().message,
                             clock_.now());
      if (!outcome) {
        io::log_warn("a step of a repair failed and is tried again",
                     {{"repair", run.record.name}, {"step", decision.step}, {"error", outcome.error().message}});
        if (outcome.error().kind == ErrorKind::unauthorized || outcome.error().kind == ErrorKind::unreachable) {
          run.session.forget_slurm(run.record.workers);
          run.session.forget_provider(run.record.pool);
        }
        // What the refusal said is for people; losing it to a conflict does no harm.
        if (outcome.error().kind != ErrorKind::conflict) (void)persist(run, run.record);
        bool again_soon =
            outcome.error().kind == ErrorKind::conflict || outcome.error().kind == ErrorKind::unknown_outcome;
        return kube::ReconcileResult{again_soon ? after_conflict : after_failure};
      }
    }
    if (!decision.look_again) return kube::ReconcileResult{};
    if (*decision.look_again > Duration{0}) {
      (void)persist(run, run.record);  // a lost outcome is found again by looking
      return kube::ReconcileResult{decision.look_again};
    }
  }
  return kube::ReconcileResult{after_conflict};
}

Result<void> RepairReconciler::persist(Run& run, const repair::Record& next) {
  run.record = next;
  if (next == run.persisted) return {};
  boost::json::object status = api::encode_repair_status(next);
  boost::json::array conditions = io::array_at(run.object, {"status", "conditions"});
  kube::set_condition(conditions, completion(next), clock_.now());
  status["conditions"] = std::move(conditions);
  kube::Object body = run.object;
  body["status"] = std::move(status);
  auto written = run.session.kube().replace(kube::resources::repairs, "", next.name, body, "status");
  if (!written) return std::unexpected(written.error());
  repair::Phase before = run.persisted.phase;
  run.object = std::move(*written);
  run.persisted = next;
  if (before != next.phase) tell(run, before);
  return {};
}

void RepairReconciler::tell(const Run& run, repair::Phase before) {
  const repair::Record& record = run.record;
  io::log_info("repair", {{"repair", record.name},
                          {"node", record.node},
                          {"from", std::string(repair::to_string(before))},
                          {"phase", std::string(repair::to_string(record.phase))},
                          {"message", record.message}});
  bool warning = record.phase == repair::Phase::blocked || record.phase == repair::Phase::failed;
  if (events_) events_(kube::resources::repairs, run.object, warning, event_reason(record.phase), record.message);
  if (warning || repair::is_terminal(record.phase)) notifications_.send(record, run.targets);
}

}  // namespace homeostat::controller
