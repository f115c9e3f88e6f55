// What readings say, without NVML. The whole way, state by state, is tested on the stand-in (lab/nvml).
#include "core/fault/gpu_counters.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "core/fault/catalog.hpp"
#include "core/fault/gpu_codes.hpp"
#include "core/fault/gpu_memory.hpp"
#include "core/fault/gpu_models.hpp"

using namespace homeostat;
using namespace homeostat::fault;

namespace {

GpuReading gpu(unsigned index, std::string pci) {
  GpuReading reading{index, "GPU-" + std::to_string(index), std::move(pci), false, {}, {}, {}};
  reading.name = "NVIDIA H100 80GB HBM3";
  return reading;
}

std::string codes(const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) text += (text.empty() ? "" : " ") + finding.code + "@" + finding.device;
  return text;
}

}  // namespace

TEST_CASE("catalog/gpu.tsv explains what the code finds, row for row") {
  std::ifstream file(HOMEOSTAT_SOURCE_DIR "/catalog/gpu.tsv");
  REQUIRE(file);
  std::vector<std::string> told, done;
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("#") || line.starts_with("component\t")) continue;
    CAPTURE(line);
    REQUIRE(std::ranges::count(line, '\t') == 6);
    size_t end = 0;
    for (int i = 0; i < 5; ++i) end = line.find('\t', end) + 1;
    told.push_back(line.substr(0, end));
  }
  for (const auto* code : gpu_codes::all) {
    const auto finding = counter_finding(*code, "", "");
    std::string row;
    for (const auto text :
         {code->component, code->code, to_string(finding.repair_class), code->action, to_string(code->severity)}) {
      row += text;
      row += '\t';
    }
    done.push_back(row);
    if (!code->action.empty()) CHECK(Catalog::instance().action(code->action));
  }
  std::ranges::sort(told);
  std::ranges::sort(done);
  CHECK(std::ranges::adjacent_find(done) == done.end());
  CHECK(told == done);
}

// The driver's own verdict has one meaning, whether the kernel log or NVML tells it.
TEST_CASE("gpu counters: recovery actions are those of Xid 154") {
  for (unsigned action = 0; action < 10; ++action) {
    GpuCounters counters;
    NvmlReading reading{"1", {gpu(0, "0000:17:00")}};
    reading.gpus[0].recovery_action = action;
    const auto findings = counters.judge(reading, 1, Duration(0));
    const auto* entry = Catalog::instance().xid("154/0x" + std::to_string(action));
    CAPTURE(action);
    REQUIRE(findings.size() == (action == 0 ? 0 : 1));
    if (action == 0) continue;
    CHECK(findings[0].code == "RECOVERY_ACTION/" + std::to_string(action));
    CHECK((entry != nullptr) == (action < 8));
    if (entry) CHECK(findings[0].repair_class == entry->repair_class);
    CHECK(std::ranges::any_of(gpu_codes::all, [&](const CounterCode* code) {
      return code->code == "RECOVERY_ACTION" && code->action == findings[0].action &&
             code->severity == findings[0].severity;
    }));
  }
}

TEST_CASE("gpu models: the table is sound") {
  const auto& models = GpuModels::instance();
  CHECK(models.malformed_rows() == 0);
  CHECK(models.all().size() > 40);
  std::set<std::string_view> names;
  for (const auto& model : models.all()) {
    CAPTURE(std::string(model.name));
    CHECK(names.insert(model.name).second);
    CHECK(model.nvlinks <= max_nvlinks);
    CHECK(model.source.size() > 10);
    const auto lanes = model.pcie_width.value_or(16);
    CHECK((lanes == 8 || lanes == 16));
  }
  REQUIRE(models.find("NVIDIA H100 80GB HBM3") != nullptr);
  CHECK(models.find("NVIDIA H100 80GB HBM3")->nvlinks == 18);
  CHECK(models.find("NVIDIA H100 80GB HBM3")->mig);
  CHECK(models.find("NVIDIA A100 80GB PCIe")->nvlinks == 0);
  CHECK(models.find("NVIDIA H100 80GB") == nullptr);  // names are whole
  CHECK(models.find("") == nullptr);
}

// An old GPU that offers nothing at all has nothing wrong with it.
TEST_CASE("gpu counters: a figure that is not offered is no fault") {
  GpuCounters counters;
  const NvmlReading reading{"1", {gpu(0, "0000:17:00"), gpu(1, "0000:3d:00")}};
  for (int i = 0; i < 100; ++i) REQUIRE(codes(counters.judge(reading, 2, Duration(i * 5'000))) == "");
}

//   look      0    1    2    3 ... (a look that hung for an hour lies between 1 and 2)
//   throttled .    x    x    .
// Two looks prove ten seconds, whatever lies between them, so nothing is told.
TEST_CASE("gpu counters: the time of a look that hung proves nothing") {
  GpuCounters counters;
  NvmlReading reading{"1", {gpu(0, "0000:17:00")}};
  const auto look = [&](bool throttled, int at_s) {
    reading.gpus[0].load.throttle_reasons = throttled ? std::uint64_t{throttle_hw_thermal} : 0;
    return codes(counters.judge(reading, 1, Duration(at_s * 1000)));
  };
  CHECK(look(false, 0) == "");
  CHECK(look(true, 5) == "");
  CHECK(look(true, 3605) == "");
  CHECK(look(false, 3610) == "");
}

TEST_CASE("gpu counters: a lost GPU without a name is told by its number, and keeps what it had") {
  GpuCounters counters;
  NvmlReading reading{"1", {gpu(0, "0000:17:00")}};
  reading.gpus[0].repair.rows_failed = true;
  CHECK(codes(counters.judge(reading, 1, Duration(0))) == "ROW_REMAP_FAILED@0000:17:00");
  reading.gpus[0] = gpu(0, "0000:17:00");
  reading.gpus[0].lost = true;
  const auto findings = counters.judge(reading, 1, Duration(5'000));
  CHECK(codes(findings) == "LOST@0000:17:00 ROW_REMAP_FAILED@0000:17:00");
  CHECK(findings[0].unambiguous);
  CHECK(findings[1].rma_candidate);
  reading.gpus[0].pci.clear();
  CHECK(codes(counters.judge(reading, 1, Duration(10'000))) == "LOST@gpu-0");
}

// A number that the driver gives each time anew must not make us remember ever more.
TEST_CASE("gpu counters: any number of addresses is borne") {
  GpuCounters counters;
  for (int i = 0; i < 1000; ++i) {
    NvmlReading reading{"1", {gpu(0, "0000:" + std::to_string(i) + ":00")}};
    reading.gpus[0].repair.rows_pending = true;
    CHECK(counters.judge(reading, 1, Duration(i * 5'000)).size() == 1);
  }
}

TEST_CASE("gpu counters: links beyond the highest number are left alone") {
  GpuCounters counters;
  NvmlReading reading{"1", {gpu(0, "0000:17:00")}};
  reading.gpus[0].links = {{4'000'000'000U, true, 1, 2, 3, {}, {}}, {3, true, 0, 0, 0, {}, {}}};
  CHECK(codes(counters.judge(reading, 1, Duration(0))) == "");
  reading.gpus[0].links = {{4'000'000'000U, true, 1000, 2000, 3000, {}, {}}, {3, true, 0, 0, 7, {}, {}}};
  const auto findings = counters.judge(reading, 1, Duration(5'000));
  REQUIRE(codes(findings) == "NVLINK_ERRORS@0000:17:00");
  CHECK(findings[0].title == "NVLink 3 had 7 recoveries within an hour");
}

// The worst link of several is named, the others are counted.
TEST_CASE("gpu counters: one finding for all links of a GPU") {
  GpuCounters counters;
  NvmlReading reading{"1", {gpu(0, "0000:17:00")}};
  const auto set = [&](std::uint64_t first, std::uint64_t second, std::uint64_t third) {
    reading.gpus[0].links = {
        {0, true, {}, first, 0, {}, {}}, {1, true, {}, 0, second, {}, {}}, {2, true, {}, 0, third, {}, {}}};
  };
  set(0, 0, 0);
  (void)counters.judge(reading, 1, Duration(0));
  set(5000, 6, 505);
  const auto findings = counters.judge(reading, 1, Duration(5'000));
  REQUIRE(codes(findings) == "NVLINK_ERRORS@0000:17:00");
  CHECK(findings[0].severity == Severity::error);
  CHECK(findings[0].title ==
        "NVLink 2 had 505 recoveries (links like it fail soon) within an hour, and 2 more links have errors");
}

TEST_CASE("gpu counters: a corrected count that restarts with the driver is growth, not an endless number") {
  GpuCounters counters;
  NvmlReading reading{"1", {gpu(0, "0000:17:00")}};
  reading.gpus[0].ecc.corrected = 1'000'000;
  CHECK(codes(counters.judge(reading, 1, Duration(0))) == "");
  reading.gpus[0].ecc.corrected = 3;
  CHECK(codes(counters.judge(reading, 1, Duration(5'000))) == "");
  reading.gpus[0].ecc.corrected = 103;
  CHECK(codes(counters.judge(reading, 1, Duration(10'000))) == "ECC_CORRECTED_RATE@0000:17:00");
}
