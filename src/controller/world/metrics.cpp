#include "controller/world/metrics.hpp"

#include <map>

#include "api/node_pool.hpp"
#include "api/repair.hpp"

namespace homeostat::controller {

namespace {

void head(std::string& text, std::string_view name, std::string_view help) {
  text += "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " + std::string(name) + " gauge\n";
}

void sample(std::string& text, std::string_view name, std::string_view label, std::string_view value,
            std::int64_t number) {
  // Names of objects and phases need no escaping: the API server lets only plain letters through.
  text += std::string(name) + "{" + std::string(label) + "=\"" + std::string(value) + "\"} " + std::to_string(number) +
          "\n";
}

}  // namespace

std::string render_metrics(const kube::Store& pools, const kube::Store& repairs) {
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
      sample(text, name, "pool", api::decode_node_pool(*object).name, api::decode_node_pool_status(*object).*field);
  }
  std::map<repair::Phase, std::int64_t> phases;
  for (repair::Phase phase : repair::all_phases) phases[phase] = 0;
  for (const auto& object : repairs.list()) ++phases[api::decode_repair(*object).phase];
  head(text, "homeostat_repairs", "Repairs by phase.");
  for (const auto& [phase, count] : phases) sample(text, "homeostat_repairs", "phase", repair::to_string(phase), count);
  return text;
}

}  // namespace homeostat::controller
