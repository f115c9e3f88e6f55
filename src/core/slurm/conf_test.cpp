#include "core/slurm/conf.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

using namespace homeostat;
using namespace homeostat::slurm;

namespace {

// HOMEOSTAT_GOLDEN_UPDATE=1 writes the files anew; the diff then goes through review.
void check_golden(const std::string& name, const RenderedConf& conf) {
  std::string text;
  for (const auto& [file, body] : conf.files()) text.append("==> ").append(file).append("\n").append(body);
  const std::string path = HOMEOSTAT_SOURCE_DIR "/src/core/slurm/golden/" + name + ".txt";
  if (std::getenv("HOMEOSTAT_GOLDEN_UPDATE") != nullptr) std::ofstream(path) << text;
  std::ifstream in(path);
  std::stringstream golden;
  golden << in.rdbuf();
  CHECK(text == golden.str());
}

ConfSpec demo() {
  return {.cluster_name = "demo",
          .controller_host = "demo-controller-0",
          .controller_address = "demo-controller",
          .workers = {{"gpu", 2}},
          .partitions = {{"gpu", {"gpu"}, true, ""}},
          .cgroups = false};
}

ConfSpec large() {
  return {.cluster_name = "large",
          .controller_host = "large-controller-0",
          .controller_address = "large-controller",
          .workers = {{"h100", 8}, {"h100-east", 8}, {"cpu", 0}},
          .partitions = {{"train", {"h100", "h100-east"}, true, "7-00:00:00"}, {"cpu", {"cpu"}, false, "1-00:00:00"}},
          .user_lines = {"# a comment", " SlurmdTimeout=300 ", "PriorityType=priority/multifactor"},
          .kill_wait_s = 300,
          .max_nodes = 4096};
}

}  // namespace

TEST_CASE("golden: the demo's cluster, in pods whose cgroups are read-only") {
  check_golden("demo", *render_conf(demo()));
}

TEST_CASE("golden: several groups, user lines and cgroup v2") { check_golden("large", *render_conf(large())); }

TEST_CASE("a user's line replaces a default of ours and does not stand beside it") {
  const auto conf = render_conf(large())->slurm_conf;
  CHECK(conf.find("SlurmdTimeout=300") != std::string::npos);
  CHECK(conf.find("SlurmdTimeout=120") == std::string::npos);
}

TEST_CASE("lines that would break the cluster are refused with the reason") {
  for (const char* line :
       {"ReturnToService=2", "returntoservice = 1", "KillWait=30", "JobRequeue=0", "AuthType=auth/munge",
        "ClusterName=x", "StateSaveLocation=/tmp", "NodeName=n1 CPUs=2", "Prolog=/bin/true", "Include /etc/x",
        "NoEquals", "A=1\nReturnToService=2", "SlurmctldParameters=x"}) {
    CAPTURE(line);
    auto spec = demo();
    spec.user_lines = {line};
    const auto conf = render_conf(spec);
    REQUIRE_FALSE(conf.has_value());
    CHECK(conf.error().kind == ErrorKind::invalid);
    CHECK(conf.error().message.find("is refused: ") != std::string::npos);
  }
  CHECK(refuse_user_lines({"", "  # only a comment", "PriorityType=priority/multifactor", "Epilog=/usr/local/bin/e",
                           "HealthCheckProgram=/x"})
            .empty());
}

TEST_CASE("a spec that does not hold together is refused") {
  auto spec = demo();
  spec.partitions[0].workers = {"gpu", "gone"};
  CHECK(render_conf(spec).error().message.find("\"gone\"") != std::string::npos);
  spec = demo();
  spec.workers.push_back({"small", 1});
  CHECK(render_conf(spec).error().message.find("the same number") != std::string::npos);
}
