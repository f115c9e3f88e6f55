#include "controller/world/metrics.hpp"

#include <doctest/doctest.h>

#include "api/repair.hpp"
#include "io/fake_clock.hpp"
#include "kube/meta.hpp"

using namespace homeostat;
using namespace homeostat::controller;

namespace {

kube::ObjectPtr repair_in(const std::string& name, repair::Phase phase) {
  repair::Record record;
  record.name = name, record.node = "n-" + name, record.pool = "gpu", record.phase = phase;
  kube::Object object = kube::new_object(kube::resources::repairs, "", name);
  object["spec"] = api::encode_repair_spec(record);
  object["status"] = api::encode_repair_status(record);
  return std::make_shared<const kube::Object>(std::move(object));
}

}  // namespace

TEST_CASE("what Prometheus reads: repairs by pool and phase, answers, the breaker, what detectors say") {
  io::FakeClock clock;
  PlanBook book(clock);
  kube::Store pools, repairs;
  pools.put(std::make_shared<const kube::Object>(kube::new_object(kube::resources::node_pools, "", "gpu")));
  repairs.put(repair_in("a", repair::Phase::draining));
  repairs.put(repair_in("b", repair::Phase::draining));
  repairs.put(repair_in("c", repair::Phase::done));
  repair::Finding finding;
  finding.fault.component = "agent", finding.fault.code = "AGENT_SILENT";
  book.note("n1", {"gpu", repair::Answer::advice, "", "", {finding}});
  book.note("n2", {"gpu", repair::Answer::nothing, "", "", {}});
  std::string text = render_metrics(pools, repairs, book);
  for (const char* line :
       {"homeostat_repair_open{pool=\"gpu\",phase=\"Draining\"} 2\n",
        "homeostat_plan_answers_total{answer=\"advice\"} 1\n", "homeostat_plan_answers_total{answer=\"nothing\"} 1\n",
        "homeostat_plan_answers_total{answer=\"open\"} 0\n", "homeostat_breaker_open{pool=\"gpu\"} 0\n",
        "homeostat_detector_nodes{component=\"agent\",code=\"AGENT_SILENT\",class=\"watch\"} 1\n",
        "homeostat_repairs{phase=\"Done\"} 1\n", "homeostat_nodepool_desired{pool=\"gpu\"} 0\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line);
  CHECK(text.find("phase=\"Done\"} 0") == std::string::npos);

  book.note("n2", {"gpu", repair::Answer::breaker, "one cause", "", {}});
  CHECK(render_metrics(pools, repairs, book).find("homeostat_breaker_open{pool=\"gpu\"} 1\n") != std::string::npos);
  book.forget("n2");
  CHECK(render_metrics(pools, repairs, book).find("homeostat_breaker_open{pool=\"gpu\"} 0\n") != std::string::npos);
}
