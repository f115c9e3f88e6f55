#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <fstream>
#include <sstream>

#include "api/health_policy.hpp"
#include "cli/manifests.hpp"
#include "core/fault/catalog.hpp"
#include "core/repair/detectors.hpp"
#include "io/json.hpp"
#include "tests/policy/schema.hpp"

using namespace homeostat;
using fault::RepairClass;

namespace {

constexpr TimePoint start{Duration{1'764'483'000'000}};
constexpr Duration second{1'000};

std::string source(const std::string& path) { return std::string(HOMEOSTAT_SOURCE_DIR) + "/" + path; }

std::string read(const std::string& path) {
  std::ifstream file(source(path));
  REQUIRE_MESSAGE(file.good(), path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

boost::json::object definition() {
  auto objects = cli::read_manifests(source("api/crds/healthpolicies.yaml"));
  REQUIRE(objects.has_value());
  return objects->front();
}

// Each block between ```yaml and ``` that holds a HealthPolicy.
std::string yaml_of(const std::string& markdown) {
  std::string all, block;
  bool inside = false;
  std::stringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    if (line == "```yaml") {
      inside = true, block.clear();
    } else if (line == "```") {
      if (inside && block.find("kind: HealthPolicy") != std::string::npos) all.append("---\n").append(block);
      inside = false;
    } else if (inside) {
      block.append(line).append("\n");
    }
  }
  return all;
}

std::vector<boost::json::object> policies_in(const std::string& path) {
  std::string text = read(path);
  auto objects = cli::parse_manifests(path.ends_with(".md") ? yaml_of(text) : text, path);
  REQUIRE_MESSAGE(objects.has_value(), objects.error().message);
  return *objects;
}

api::HealthPolicy only_policy(const std::string& path) {
  auto objects = policies_in(path);
  REQUIRE(objects.size() == 1);
  return api::decode_health_policy(objects.front());
}

// What the policy makes of one condition that has stood for a day.
std::string meaning(const api::HealthPolicy& policy, const std::string& type, const std::string& status,
                    const std::string& reason) {
  repair::NodeSight sight;
  sight.node = "n1", sight.boot_id = "b1", sight.created_at = start - 864'000 * second;
  sight.conditions = {{type, status, reason, "", start, std::nullopt}};
  repair::Continuity continuity;
  (void)repair::detect(sight, policy.detectors, continuity, start, Duration{0});
  auto seen = repair::detect(sight, policy.detectors, continuity, start + 86'400 * second, 86'400 * second);
  if (seen.findings.empty()) return "";
  const auto& finding = seen.findings.front();
  return finding.fault.component + "/" + finding.fault.code + " " + std::string(fault::to_string(finding.repair_class));
}

}  // namespace

TEST_CASE("every policy that we ship or show keeps to its schema and is followed to the letter") {
  auto schema = definition();
  for (const char* path :
       {"catalog/default-policy.yaml", "examples/health-policy.yaml", "docs/operators/detectors.md"}) {
    auto objects = policies_in(path);
    CHECK_MESSAGE(!objects.empty(), path);
    for (const auto& object : objects) {
      for (const auto& violation : policy_test::violations(schema, object)) FAIL_CHECK(path, ": ", violation);
      auto policy = api::decode_health_policy(object);
      for (const auto& problem : policy.problems) FAIL_CHECK(path, ": ", problem);
      CHECK(policy.detectors.conditions.size() == io::array_at(object, {"spec", "conditions"}).size());
      // What is written out again is the same policy.
      auto back = api::decode_health_policy({{"spec", api::encode_health_policy_spec(policy)}});
      CHECK(back.detectors.conditions == policy.detectors.conditions);
    }
  }
}

TEST_CASE("the schema check finds what is wrong") {
  auto schema = definition();
  auto bad = cli::parse_manifests(
      "{apiVersion: a, kind: HealthPolicy, metadata: {name: x}, spec: {conditions: [{type: A, component: b, "
      "for_s: \"60\", clas: watch}]}}",
      "case");
  REQUIRE(bad.has_value());
  auto found = policy_test::violations(schema, bad->front());
  CHECK(found == std::vector<std::string>{"HealthPolicy.spec.conditions[0]: lacks code",
                                          "HealthPolicy.spec.conditions[0].for_s: is no integer",
                                          "HealthPolicy.spec.conditions[0].clas: is unknown"});
}

// As each detector writes them (sources: catalog/default-policy.yaml) | what the default policy makes of it
TEST_CASE("the default policy and other detectors' conditions") {
  struct Row {
    const char *type, *status, *reason, *meaning;
  };
  constexpr Row rows[] = {
      // node-problem-detector
      {"KernelDeadlock", "True", "DockerHung", "kernel/KERNEL_DEADLOCK watch"},
      {"KernelDeadlock", "False", "KernelHasNoDeadlock", ""},
      {"ReadonlyFilesystem", "True", "FilesystemIsReadOnly", "filesystem/RO_REMOUNT replace-node"},
      {"ReadonlyFilesystem", "False", "FilesystemIsNotReadOnly", ""},
      {"ReadonlyFilesystem", "Unknown", "", ""},
      {"FrequentKubeletRestart", "True", "FrequentKubeletRestart", "node/KUBELET_RESTARTS watch"},
      // NVSentinel
      {"GpuNvlinkWatch", "True", "GpuNvlinkWatchIsNotHealthy", "nvlink/DCGM_NVLINK watch"},
      {"GpuMemWatch", "True", "GpuMemWatchIsNotHealthy", "gpu-memory/DCGM_MEMORY reset"},
      {"GpuMemWatch", "False", "GpuMemWatchIsHealthy", ""},
      {"SysLogsXIDError", "True", "SysLogsXIDErrorIsNotHealthy", "gpu-xid/OTHER_DETECTOR watch"},
      {"SysLogsGPUFallenOff", "True", "SysLogsGPUFallenOffIsNotHealthy", "gpu-lost/79 replace-node"},
      // EKS node monitoring agent: False is the fault
      {"AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady", ""},
      {"AcceleratedHardwareReady", "False", "NvidiaXID79Error", "gpu-xid/79 replace-node"},
      {"AcceleratedHardwareReady", "False", "NvidiaXID48Error", "gpu-xid/OTHER_DETECTOR watch"},
      {"AcceleratedHardwareReady", "False", "NvidiaDeviceCountMismatch", "gpu-lost/DEVICE_COUNT replace-node"},
      {"AcceleratedHardwareReady", "False", "NvidiaDoubleBitError", "gpu-memory/DCGM_MEMORY reset"},
      {"AcceleratedHardwareReady", "False", "DCGMError", "detector/DCGM_UNREACHABLE watch"},
      {"AcceleratedHardwareReady", "False", "NeuronDMAError", "neuron/DEVICE_ERROR replace-node"},
      {"AcceleratedHardwareReady", "False", "SomethingNew", "gpu-driver/OTHER_DETECTOR watch"},
      {"KernelReady", "False", "ForkFailedOutOfPIDs", "kernel/OTHER_DETECTOR watch"},
      {"StorageReady", "Unknown", "", ""},
      // AMD GPU operator, AKS, Crusoe, Nebius
      {"AMDGPUXgmi", "True", "", "amd-ras/OTHER_DETECTOR watch"},
      {"GPUMissing", "True", "", "gpu-lost/DEVICE_COUNT replace-node"},
      {"GPUDCGMUnhealthy", "True", "GPUDCGMTestFailed", "gpu-test/DCGM_DIAG replace-node"},
      {"GPUDCGMUnhealthy", "False", "GPUDCGMTestPassed", ""},
      {"GPUNVBandwidthUnhealthy", "True", "NVBandwidthTestFailed", "gpu-test/NVBANDWIDTH drain-after-job"},
      {"NebiusGPUError", "True", "", "gpu-test/NEBIUS_GPU replace-node"},
      {"NebiusMaintenanceScheduled", "True", "MaintenanceScheduled", "node/MAINTENANCE watch"},
      // what the kubelet and others write says nothing here
      {"MemoryPressure", "True", "KubeletHasInsufficientMemory", ""},
      {"DiskPressure", "True", "KubeletHasDiskPressure", ""},
      {"Ready", "True", "KubeletReady", ""},
      {"AcceleratorHealthy", "False", "GpuXid79", ""},
      {"BrandNewDetector", "True", "", ""},
  };
  auto policy = only_policy("catalog/default-policy.yaml");
  for (const Row& row : rows) {
    CAPTURE(row.type);
    CAPTURE(row.reason);
    CHECK(meaning(policy, row.type, row.status, row.reason) == row.meaning);
  }
}

TEST_CASE("the example: sharper and milder than the default") {
  auto policy = only_policy("examples/health-policy.yaml");
  CHECK(meaning(policy, "AMDGPUXgmi", "True", "") == "amd-ras/OTHER_DETECTOR reset");
  CHECK(meaning(policy, "Ready", "False", "KubeletNotReady") == "node/KUBELET_NOT_READY replace-node");
  CHECK(meaning(policy, "ReadonlyFilesystem", "True", "FilesystemIsReadOnly") == "filesystem/RO_REMOUNT watch");
  CHECK(policy.reset_fallback == RepairClass::watch);
  CHECK(policy.detectors.node_silence == 900 * second);
  CHECK(policy.breaker.max_nodes == 2);
}

// A component that our own kernel lines know as something else would join two things into one cause.
TEST_CASE("a condition that acts names its fault as the catalogue does, or by a component of its own") {
  auto policy = only_policy("catalog/default-policy.yaml");
  for (const auto& rule : policy.detectors.conditions) {
    if (rule.repair_class != RepairClass::replace_node) continue;
    CAPTURE(rule.type);
    bool known_component = false, known_code = rule.component == "gpu-xid" && fault::Catalog::instance().xid(rule.code);
    for (const auto& line : fault::Catalog::instance().rules()) {
      known_component |= line.component == rule.component;
      known_code |= line.component == rule.component && line.code == rule.code;
    }
    bool probe = rule.code == "DEVICE_COUNT" || rule.code == "BOOT_DISK_IO";  // no kernel line of ours says these
    CHECK((known_code || !known_component || probe));
    CHECK(rule.stands_for >= 30 * second);
  }
}
