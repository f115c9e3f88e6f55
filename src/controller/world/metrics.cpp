#include "controller/world/metrics.hpp"

#include <map>

#include "api/node_pool.hpp"
#include "api/repair.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {

void head(std::string& text, std::string_view name, std::string_view help, std::string_view type = "gauge") {
  text.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
  text.append(name).append(" ").append(type).append("\n");
}

using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

void sample(std::string& text, std::string_view name, Labels labels, std::int64_t number) {
  // Names of objects, phases, components and codes need no escaping: the API server lets only plain letters through.
  text.append(name);
  char before = '{';
  for (const auto& [label, value] : labels) {
    text += before;
    text.append(label).append("=\"").append(value).append("\"");
    before = ',';
  }
  text.append("} ").append(std::to_string(number)).append("\n");
}

// Only what exists: a phase that no repair of the pool is in has no line.
void open_repairs(std::string& text, const std::vector<kube::ObjectPtr>& repairs) {
  std::map<std::pair<std::string, std::string>, std::int64_t> open;
  for (const auto& object : repairs) {
    repair::Record record = api::decode_repair(*object);
    if (!repair::is_terminal(record.phase)) ++open[{record.pool, std::string(repair::to_string(record.phase))}];
  }
  head(text, "homeostat_repair_open", "Repairs that are not over, by pool and phase.");
  for (const auto& [key, count] : open)
    sample(text, "homeostat_repair_open", {{"pool", key.first}, {"phase", key.second}}, count);
}

void plans(std::string& text, const std::vector<kube::ObjectPtr>& pools, const PlanBook& book) {
  head(text, "homeostat_plan_answers_total", "What was decided about nodes, each time one was looked at.", "counter");
  auto answers = book.answers();
  for (size_t i = 0; i < answers.size(); ++i)
    sample(text, "homeostat_plan_answers_total", {{"answer", repair::to_string(repair::all_answers[i])}},
           static_cast<std::int64_t>(answers[i]));
  head(text, "homeostat_breaker_open", "1 while the breaker holds repairs of the pool back.");
  for (const auto& object : pools) {
    std::string name = kube::name_of(*object);
    auto breaker = book.breaker(name);
    sample(text, "homeostat_breaker_open", {{"pool", name}}, breaker && breaker->open ? 1 : 0);
  }
  head(text, "homeostat_detector_nodes", "Nodes of which other detectors or silence say this.");
  for (const auto& [seen, count] : book.detected())
    sample(text, "homeostat_detector_nodes",
           {{"component", seen.component}, {"code", seen.code}, {"class", seen.repair_class}}, count);
}

}  // namespace

std::string render_metrics(const kube::Store& pools, const kube::Store& repairs, const PlanBook& book) {
  std::string text;
  struct Gauge {
    const char *name, *help;
    int api::NodePoolStatus::* field;
  };
  constexpr Gauge gauges[] = {
      {"homeostat_nodepool_desired", "Machines that should be there, spares included.", &api::NodePoolStatus::desired},
      {"homeostat_nodepool_healthy", "Machines that work.", &api::NodePoolStatus::healthy},
      {"homeostat_nodepool_spare", "Warm spares that are fit.", &api::NodePoolStatus::spare},
      {"homeostat_nodepool_in_repair", "Machines with an open repair.", &api::NodePoolStatus::in_repair},
  };
  auto objects = pools.list();
  for (const auto& [name, help, field] : gauges) {
    head(text, name, help);
    for (const auto& object : objects)
      sample(text, name, {{"pool", kube::name_of(*object)}}, api::decode_node_pool_status(*object).*field);
  }
  std::map<repair::Phase, std::int64_t> phases;
  for (repair::Phase phase : repair::all_phases) phases[phase] = 0;
  auto repair_objects = repairs.list();
  for (const auto& object : repair_objects) ++phases[api::decode_repair(*object).phase];
  head(text, "homeostat_repairs", "Repairs by phase.");
  for (const auto& [phase, count] : phases)
    sample(text, "homeostat_repairs", {{"phase", repair::to_string(phase)}}, count);
  open_repairs(text, repair_objects);
  plans(text, objects, book);
  return text;
}

}  // namespace homeostat::controller
