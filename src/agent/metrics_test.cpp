#include "agent/metrics.hpp"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <sstream>
#include <thread>

#include "agent/metrics_server.hpp"
#include "io/http.hpp"

using namespace homeostat;
using namespace homeostat::agent;

namespace {

const TimePoint at(std::chrono::seconds(1'700'000'000));

fault::Finding finding(std::string component, std::string code, std::string device) {
  fault::Finding out;
  out.component = std::move(component);
  out.code = std::move(code);
  out.device = std::move(device);
  return out;
}

MetricsInput example() {
  MetricsInput in;
  in.version = "1.2.3";
  in.node = in.slurm_node = "gpu-abcde";
  in.pool = "gpu";
  in.verdict = "Unhealthy";
  in.open_incidents = {{"replace-node", 1}};
  FaultCounts counts;
  counts.add(finding("gpu-xid", "79", "0000:0a:00"), at, 1);
  counts.add(finding("gpu-xid", "79", "0000:0a:00"), at - std::chrono::seconds(5), 2);
  in.faults = counts.series();
  SensorFigures nvml{"nvml", fault::ProbeState::good, at, {}};
  nvml.samples = {{"homeostat_gpu_temperature_celsius", {{"device", "0000:0a:00"}}, 41.5},
                  {"homeostat_gpu_pcie_replay_total", {{"device", "0000:0a:00"}}, 3},
                  {"not a name", {}, 1},
                  {"homeostat_gpu_temperature_celsius", {{"device", "odd\"\\\n\x01"}}, 40}};
  in.sensors = {nvml, {"infiniband", fault::ProbeState::failed, {}, {}}};
  in.kmsg = {100, 1, 7, at};
  in.forged_lines = 2;
  in.api_writes = {{"node-health", {5, 1}}};
  in.jobs = {"4711"};
  return in;
}

// What promtool would say of it: HELP and TYPE before a family's series, together, once; counters end in _total; names
// and labels are words; no series twice.
void check_format(const std::string& text) {
  std::set<std::string> families, series;
  std::string family, type;
  std::istringstream lines(text);
  REQUIRE(text.ends_with('\n'));
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      CHECK(families.insert(family).second);
      CHECK(line.size() > 8 + family.size());
      type.clear();
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      CHECK(line.substr(7, family.size()) == family);
      type = line.substr(8 + family.size());
      CHECK((type == "counter" || type == "gauge"));
      CHECK((type == "counter") == family.ends_with("_total"));
      continue;
    }
    CHECK_FALSE(type.empty());
    const auto name = line.substr(0, line.find_first_of("{ "));
    CHECK(name == family);
    const auto value = line.rfind(' ');
    CHECK(series.insert(line.substr(0, value)).second);
    CHECK_NOTHROW(std::stod(line.substr(value + 1)));
    if (line[name.size()] == '{') CHECK(line[value - 1] == '}');
  }
}

std::string raw_request(int port, const std::string& request) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(fd >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  (void)!::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) answer.append(buffer, static_cast<size_t>(n));
  ::close(fd);
  return answer;
}

}  // namespace

TEST_CASE("the exposition, whole") {
  const auto text = exposition(example());
  check_format(text);
  CHECK(text == R"(# HELP homeostat_agent_info The agent and its version.
# TYPE homeostat_agent_info gauge
homeostat_agent_info{version="1.2.3",node="gpu-abcde"} 1
# HELP homeostat_api_writes_total Writes to the API server.
# TYPE homeostat_api_writes_total counter
homeostat_api_writes_total{kind="event",result="ok"} 0
homeostat_api_writes_total{kind="event",result="error"} 0
homeostat_api_writes_total{kind="node",result="ok"} 0
homeostat_api_writes_total{kind="node",result="error"} 0
homeostat_api_writes_total{kind="node-health",result="ok"} 5
homeostat_api_writes_total{kind="node-health",result="error"} 1
# HELP homeostat_fault_last_seen_timestamp_seconds When a fault was last seen.
# TYPE homeostat_fault_last_seen_timestamp_seconds gauge
homeostat_fault_last_seen_timestamp_seconds{component="gpu-xid",code="79",device="0000:0a:00"} 1700000000
# HELP homeostat_fault_total How often a fault was seen since the agent started.
# TYPE homeostat_fault_total counter
homeostat_fault_total{component="gpu-xid",code="79",device="0000:0a:00"} 3
# HELP homeostat_forged_lines_total Lines that a process wrote to look like a fault of the kernel's.
# TYPE homeostat_forged_lines_total counter
homeostat_forged_lines_total 2
# HELP homeostat_gpu_pcie_replay_total As the sensor nvml read it.
# TYPE homeostat_gpu_pcie_replay_total counter
homeostat_gpu_pcie_replay_total{device="0000:0a:00"} 3
# HELP homeostat_gpu_temperature_celsius As the sensor nvml read it.
# TYPE homeostat_gpu_temperature_celsius gauge
homeostat_gpu_temperature_celsius{device="0000:0a:00"} 41.5
homeostat_gpu_temperature_celsius{device="odd\"\\\n?"} 40
# HELP homeostat_incident_open Open incidents by class of repair.
# TYPE homeostat_incident_open gauge
homeostat_incident_open{class="watch"} 0
homeostat_incident_open{class="drain-after-job"} 0
homeostat_incident_open{class="restart-job"} 0
homeostat_incident_open{class="reset"} 0
homeostat_incident_open{class="replace-node"} 1
# HELP homeostat_kmsg_gaps_total How often records were overwritten before they could be read.
# TYPE homeostat_kmsg_gaps_total counter
homeostat_kmsg_gaps_total 1
# HELP homeostat_kmsg_last_record_timestamp_seconds When the newest kernel log record was read, 0: never.
# TYPE homeostat_kmsg_last_record_timestamp_seconds gauge
homeostat_kmsg_last_record_timestamp_seconds 1700000000
# HELP homeostat_kmsg_lost_records_total Records that were overwritten before they could be read.
# TYPE homeostat_kmsg_lost_records_total counter
homeostat_kmsg_lost_records_total 7
# HELP homeostat_kmsg_records_total Kernel log records read.
# TYPE homeostat_kmsg_records_total counter
homeostat_kmsg_records_total 100
# HELP homeostat_node_info The Kubernetes node, its name in Slurm and its pool.
# TYPE homeostat_node_info gauge
homeostat_node_info{node="gpu-abcde",slurm_node="gpu-abcde",pool="gpu"} 1
# HELP homeostat_node_job The Slurm jobs on the node.
# TYPE homeostat_node_job gauge
homeostat_node_job{node="gpu-abcde",slurm_node="gpu-abcde",slurm_job="4711"} 1
# HELP homeostat_node_verdict 1 for the verdict that stands, 0 for the others.
# TYPE homeostat_node_verdict gauge
homeostat_node_verdict{verdict="Healthy"} 0
homeostat_node_verdict{verdict="Degraded"} 0
homeostat_node_verdict{verdict="Unhealthy"} 1
homeostat_node_verdict{verdict="Unknown"} 0
# HELP homeostat_sensor_last_success_timestamp_seconds When a sensor last answered, 0: never.
# TYPE homeostat_sensor_last_success_timestamp_seconds gauge
homeostat_sensor_last_success_timestamp_seconds{sensor="nvml"} 1700000000
homeostat_sensor_last_success_timestamp_seconds{sensor="infiniband"} 0
# HELP homeostat_sensor_state 1 for the state that a sensor is in, 0 for the others.
# TYPE homeostat_sensor_state gauge
homeostat_sensor_state{sensor="nvml",state="good"} 1
homeostat_sensor_state{sensor="nvml",state="absent"} 0
homeostat_sensor_state{sensor="nvml",state="pending"} 0
homeostat_sensor_state{sensor="nvml",state="failed"} 0
homeostat_sensor_state{sensor="infiniband",state="good"} 0
homeostat_sensor_state{sensor="infiniband",state="absent"} 0
homeostat_sensor_state{sensor="infiniband",state="pending"} 0
homeostat_sensor_state{sensor="infiniband",state="failed"} 1
)");
}

TEST_CASE("a storm of codes and devices ends in \"other\", and what was known goes on being counted") {
  FaultCounts counts;
  for (int i = 0; i < 10'000; ++i)
    counts.add(finding("gpu-xid", std::to_string(i), "d" + std::to_string(i % 1000)), at, 1);
  counts.add(finding("gpu-xid", "0", "d0"), at, 1);
  std::uint64_t sum = 0, first = 0;
  std::set<std::string> codes, devices;
  for (const auto& series : counts.series()) {
    sum += series.count;
    codes.insert(series.code);
    devices.insert(series.device);
    if (series.code == "0" && series.device == "d0") first = series.count;
  }
  CHECK(sum == 10'001);
  CHECK(first == 2);
  CHECK(codes.size() == FaultCounts::max_codes + 1);
  CHECK(devices.size() == FaultCounts::max_devices + 1);
  CHECK(counts.series().size() <= FaultCounts::max_series + 1);
}

TEST_CASE("metrics are served, health too; anything else is refused") {
  std::string illness;
  auto server = MetricsServer::start("127.0.0.1:0", {[] { return exposition(example()); }, [&] { return illness; }});
  REQUIRE(server.has_value());
  auto transport = io::make_socket_transport({});
  const auto base = "http://127.0.0.1:" + std::to_string((*server)->port());
  const auto metrics = transport->send({.url = base + "/metrics?x=y"}, {});
  REQUIRE(metrics.has_value());
  CHECK(metrics->status == 200);
  CHECK(metrics->header("content-type") == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(metrics->body == exposition(example()));
  CHECK(transport->send({.url = base + "/healthz"}, {})->status == 200);
  illness = "It does not move.";
  const auto ill = transport->send({.url = base + "/healthz"}, {});
  CHECK(ill->status == 503);
  CHECK(ill->body == "It does not move.\n");
  CHECK(transport->send({.url = base + "/"}, {})->status == 404);
  CHECK(transport->send({.method = "POST", .url = base + "/metrics", .body = "x"}, {})->status == 405);
  CHECK(raw_request((*server)->port(), "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  CHECK(raw_request((*server)->port(), "GET /metrics HTTP/1.1\r\nX: " + std::string(8000, 'x'))
            .starts_with("HTTP/1.1 431 "));
}

TEST_CASE("those who connect and say nothing hold nobody up for longer than their bound") {
  auto server =
      MetricsServer::start("127.0.0.1:0", {[] { return std::string("x 1\n"); }, [] { return std::string(); }});
  REQUIRE(server.has_value());
  std::vector<int> idlers;
  for (int i = 0; i < 12; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    REQUIRE(fd >= 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>((*server)->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    idlers.push_back(fd);
  }
  const auto answer = io::make_socket_transport({})->send(
      {.url = "http://127.0.0.1:" + std::to_string((*server)->port()) + "/metrics", .timeout = Duration(20'000)}, {});
  REQUIRE(answer.has_value());
  CHECK(answer->body == "x 1\n");
  for (const int fd : idlers) ::close(fd);
}

TEST_CASE("an address that cannot be served is told in a sentence") {
  for (const char* wrong : {"9477", "nowhere:9477", ":metrics", ":70000"}) {
    const auto server = MetricsServer::start(wrong, {});
    REQUIRE_FALSE(server.has_value());
    CHECK(server.error().kind == ErrorKind::invalid);
  }
  auto first = MetricsServer::start(":0", {[] { return std::string(); }, [] { return std::string(); }});
  REQUIRE(first.has_value());
  const auto second = MetricsServer::start(":" + std::to_string((*first)->port()), {});
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().kind == ErrorKind::already_exists);
}
