#include "core/fault/amd_counters.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/test_findings.hpp"

using namespace homeostat;
using namespace homeostat::fault;
using namespace std::chrono_literals;

namespace {

std::string looks(AmdWatch& watch, const std::vector<AmdReading>& gpus, Duration from, Duration to, int expected = 0) {
  std::string last;
  for (auto now = from; now <= to; now += 5s) last = codes_of(watch.look(gpus, expected, now));
  return last;
}

AmdReading gpu(std::string pci = "0000:c1:00") {
  AmdReading reading;
  reading.pci = std::move(pci);
  reading.blocks = {{"umc", 0, 0, 0}, {"gfx", 0, 0, 0}};
  reading.metrics = AmdMetrics{};
  reading.metrics->hotspot_c = 60;
  reading.critical_c = 100;
  reading.bad_pages = BadPages{};
  return reading;
}

}  // namespace

TEST_CASE("RAS counts and bad pages are read from any text") {
  RasBlock block;
  CHECK(parse_ras_counts("ue: 1\nce: 2\nde: 3", block));
  CHECK(block.uncorrected == 1);
  CHECK(block.corrected == 2);
  CHECK(block.deferred == 3);
  RasBlock old;
  CHECK(parse_ras_counts("ue: 0\nce: 7", old));
  CHECK(old.corrected == 7);
  CHECK_FALSE(old.deferred);
  RasBlock none;
  CHECK_FALSE(parse_ras_counts("", none));
  CHECK_FALSE(parse_ras_counts("ue 1\nce=2\nxx: 3\nue: -1\nce: 1x", none));

  const auto pages =
      parse_bad_pages("0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P\n0x3 : 0x1000 : F\nxx : R\n");
  CHECK(pages.retired == 1);
  CHECK(pages.pending == 1);
  CHECK(pages.failed == 1);
  CHECK(parse_bad_pages("0x\n0x1\n\n").retired == 0);
}

TEST_CASE("gpu_metrics: a table that is too short, empty or of an unknown revision gives no figures") {
  AmdMetrics metrics;
  CHECK(parse_gpu_metrics("", metrics) == MetricsState::garbled);
  CHECK(parse_gpu_metrics("\x01", metrics) == MetricsState::garbled);
  const auto table = [](int size, int format, int content, size_t length) {
    std::string bytes(length, '\0');
    bytes[0] = static_cast<char>(size & 0xff);
    bytes[1] = static_cast<char>(size >> 8);
    bytes[2] = static_cast<char>(format);
    bytes[3] = static_cast<char>(content);
    return bytes;
  };
  CHECK(parse_gpu_metrics(table(120, 1, 3, 60), metrics) == MetricsState::garbled);  // says more than there is
  CHECK(parse_gpu_metrics(table(0, 1, 3, 120), metrics) == MetricsState::garbled);
  CHECK(parse_gpu_metrics(table(60, 1, 3, 60), metrics) == MetricsState::unknown);  // shorter than its revision
  CHECK(parse_gpu_metrics(table(120, 1, 9, 120), metrics) == MetricsState::unknown);
  CHECK(parse_gpu_metrics(table(120, 2, 3, 120), metrics) == MetricsState::unknown);
  CHECK(parse_gpu_metrics(table(380, 1, 6, 380), metrics) == MetricsState::unknown);  // the 1.6 that no release had
  CHECK_FALSE(metrics.hotspot_c);
  CHECK(parse_gpu_metrics(table(120, 1, 3, 120), metrics) == MetricsState::good);
  CHECK(metrics.hotspot_c == 0);
}

TEST_CASE("properties: any bytes make a table or do not, never more") {
  CHECK(rc::check("gpu_metrics", [](const std::string& bytes, std::uint8_t content) {
    auto table = bytes;
    if (table.size() >= 4) {
      table[0] = static_cast<char>(table.size() & 0xff);
      table[1] = static_cast<char>(table.size() >> 8);
      table[2] = 1;
      table[3] = static_cast<char>(content % 10);
    }
    AmdMetrics metrics;
    const auto state = parse_gpu_metrics(table, metrics);
    if (state != MetricsState::good) RC_ASSERT(!metrics.hotspot_c);
  }));
  CHECK(rc::check("RAS counts and bad pages", [](const std::string& text) {
    RasBlock block;
    (void)parse_ras_counts(text, block);  // must end
    const auto pages = parse_bad_pages(text);
    RC_ASSERT(pages.retired + pages.pending + pages.failed <= text.size());
  }));
}

//   ue      0   0   1            0 (reset)
//   finding -   -   fatal, 1 h   over
TEST_CASE("an uncorrectable error is fatal at once and over with the reset that begins its counts anew") {
  AmdWatch watch;
  auto one = gpu();
  CHECK(looks(watch, {one}, 0s, 10s) == "");
  one.blocks[0].uncorrected = 1;
  CHECK(codes_of(watch.look({one}, 0, 15s)) == "RAS_UE/umc:fatal@0000:c1:00");
  CHECK(looks(watch, {one}, 20s, 600s) == "RAS_UE/umc:fatal@0000:c1:00");
  one.blocks[0].uncorrected = 0;
  CHECK(codes_of(watch.look({one}, 0, 605s)) == "");
}

TEST_CASE("counts from before we looked, deferred and corrected errors") {
  AmdWatch watch;
  auto one = gpu();
  one.blocks[0] = {"umc", 2, 5000, 9};
  CHECK(looks(watch, {one}, 0s, 60s) == "RAS_UE/umc:warn@0000:c1:00");
  one.blocks[0] = {"umc", 0, 5000, 9};  // reset
  CHECK(looks(watch, {one}, 65s, 65s) == "");
  one.blocks[0].deferred = 10;
  CHECK(looks(watch, {one}, 70s, 75s) == "RAS_DE/umc:warn@0000:c1:00");
  one.blocks[1].corrected = 99;
  CHECK(looks(watch, {one}, 80s, 80s) == "RAS_DE/umc:warn@0000:c1:00");
  one.blocks[1].corrected = 100;
  CHECK(looks(watch, {one}, 85s, 85s) == "RAS_DE/umc:warn@0000:c1:00 RAS_CE/gfx:warn@0000:c1:00");
}

TEST_CASE("bad pages, xGMI errors, replays") {
  AmdWatch watch;
  auto one = gpu();
  one.bad_pages->retired = 7;
  one.pcie_replays = 10;
  CHECK(looks(watch, {one}, 0s, 10s) == "");
  one.bad_pages->retired = 8;
  CHECK(looks(watch, {one}, 15s, 15s) == "BAD_PAGES:warn@0000:c1:00");
  one.bad_pages->failed = 1;
  CHECK(looks(watch, {one}, 20s, 20s) == "BAD_PAGE_UNRESERVED:error@0000:c1:00 BAD_PAGES:warn@0000:c1:00");
  AmdWatch links;
  one = gpu();
  one.pcie_replays = 10;
  (void)links.look({one}, 0, 0s);
  one.xgmi_errors = 2;
  one.pcie_replays = 110;
  CHECK(codes_of(links.look({one}, 0, 5s)) == "XGMI_ERROR:warn@0000:c1:00 PCIE_REPLAY:warn@0000:c1:00");
}

TEST_CASE("an xGMI link that was up and is down, and one that never was") {
  AmdWatch watch;
  auto one = gpu();
  one.metrics->xgmi_up = {true, true, false};
  CHECK(looks(watch, {one}, 0s, 60s) == "");
  one.metrics->xgmi_up[1] = false;
  CHECK(looks(watch, {one}, 65s, 90s) == "");
  CHECK(looks(watch, {one}, 95s, 100s) == "XGMI_LINK_DOWN:error@0000:c1:00");
  one.metrics->xgmi_up[1] = true;
  CHECK(looks(watch, {one}, 105s, 140s) == "");
}

TEST_CASE("heat: by residency, by status bits, by the critical temperature") {
  AmdWatch residency;
  auto one = gpu();
  one.metrics->accumulated = 0xffffff00;  // wraps below
  one.metrics->thermal_residency = 50;
  std::string last;
  for (int i = 0; i <= 14; ++i) {
    last = codes_of(residency.look({one}, 0, Duration(5000 * i)));
    one.metrics->accumulated = static_cast<std::uint32_t>(*one.metrics->accumulated + 100);
    *one.metrics->thermal_residency += 10;
    if (i == 12) CHECK(last == "");
  }
  CHECK(last == "THERMAL_THROTTLE:warn@0000:c1:00");

  AmdWatch bits;
  auto two = gpu();
  two.metrics->thermal_throttle = true;
  CHECK(looks(bits, {two}, 0s, 55s) == "");
  CHECK(looks(bits, {two}, 60s, 60s) == "THERMAL_THROTTLE:warn@0000:c1:00");

  AmdWatch hot;
  auto three = gpu();
  three.metrics->hotspot_c = 100;
  CHECK(looks(hot, {three}, 0s, 25s) == "");
  CHECK(looks(hot, {three}, 30s, 30s) == "TEMPERATURE:error@0000:c1:00");
  three.critical_c.reset();
  CHECK(looks(hot, {three}, 35s, 120s) == "");
}

TEST_CASE("a GPU that goes, one whose driver lets it go, one that is given to a virtual machine") {
  struct Row {
    const char* what;
    bool there, moved;
    std::string soon, late;
  };
  for (const auto& row : {Row{"off the bus", false, false, "GPU_LOST:fatal@0000:c1:00", "GPU_LOST:fatal@0000:c1:00"},
                          {"driver gone", true, false, "", "GPU_LOST:fatal@0000:c1:00"},
                          {"given away", true, true, "", ""}}) {
    CAPTURE(row.what);
    AmdWatch watch;
    (void)watch.look({gpu(), gpu("0000:c3:00")}, 0, 0s);
    AmdReading lost;
    lost.pci = "0000:c1:00";
    lost.listed = false;
    lost.there = row.there;
    lost.moved = row.moved;
    const std::vector<AmdReading> after = {lost, gpu("0000:c3:00")};
    CHECK(looks(watch, after, 5s, 10s) == row.soon);
    CHECK(looks(watch, after, 15s, 65s) == row.late);
    CHECK(looks(watch, {gpu(), gpu("0000:c3:00")}, 70s, 75s) == "");
  }
}

TEST_CASE("fewer GPUs than expected is a fault once it lasts, none at all too; lost ones are not counted twice") {
  AmdWatch watch;
  CHECK(looks(watch, {gpu()}, 0s, 55s, 2) == "");
  CHECK(looks(watch, {gpu()}, 60s, 60s, 2) == "GPU_MISSING:fatal@");
  CHECK(looks(watch, {gpu(), gpu("0000:c3:00")}, 65s, 70s, 2) == "");
  AmdReading lost;
  lost.pci = "0000:c3:00";
  lost.listed = false;
  CHECK(looks(watch, {gpu(), lost}, 75s, 200s, 2) == "GPU_LOST:fatal@0000:c3:00");
  AmdWatch none;
  CHECK(looks(none, {}, 0s, 60s, 8) == "GPU_MISSING:fatal@");
}

TEST_CASE("a GPU that cannot be asked for a minute") {
  AmdWatch watch;
  auto one = gpu();
  (void)watch.look({one}, 0, 0s);
  one.trouble = "its file gpu_metrics is garbled";
  CHECK(looks(watch, {one}, 5s, 60s) == "");
  CHECK(looks(watch, {one}, 65s, 65s) == "NO_ANSWER:error@0000:c1:00");
}

//                sysfs              library            judged
//   figure       5                  9                  5
//   figure       -                  9                  9
//   RAS block    umc                umc, gfx           umc of sysfs, gfx of the library
TEST_CASE("sysfs first, the library where sysfs is silent") {
  AmdReading one;
  one.pci = "0000:c1:00";
  one.blocks = {{"umc", 0, 1, 0}};
  one.metrics.emplace().hotspot_c = 60;
  one.metrics->thermal_throttle = false;
  one.vram_total = 5;
  one.compute_partition = "SPX";
  one.trouble = "its file ras/sdma_err_count is garbled";
  AmdReading library;
  library.uuid = "u";
  library.model = "m";
  library.blocks = {{"umc", 9, 9, 9}, {"gfx", 2, 0, 0}};
  library.metrics.emplace().hotspot_c = 99;
  library.metrics->power_w = 300;
  library.metrics->accumulated = 1000;
  library.metrics->thermal_residency = 900;
  library.bad_pages = BadPages{1, 2, 3};
  library.bad_page_threshold = 128;
  library.memory_ecc = true;
  library.vram_total = 9;
  library.vram_used = 8;
  library.pcie_replays = 7;
  library.critical_c = 100;
  library.compute_partition = "CPX";
  library.memory_partition = "NPS4";
  fill_from_library(one, library);
  CHECK(one.uuid == "u");
  CHECK(one.model == "m");
  REQUIRE(one.blocks.size() == 2);
  CHECK(one.blocks[0].corrected == 1);
  CHECK(one.blocks[1].name == "gfx");
  CHECK(one.metrics->hotspot_c == 60);
  CHECK(one.metrics->power_w == 300);
  CHECK_FALSE(one.metrics->accumulated);  // sysfs tells of heat in its own way
  CHECK(one.bad_pages->pending == 2);
  CHECK(one.bad_page_threshold == 128);
  CHECK(one.memory_ecc == true);
  CHECK(one.vram_total == 5);
  CHECK(one.vram_used == 8);
  CHECK(one.pcie_replays == 7);
  CHECK(one.critical_c == 100);
  CHECK(one.compute_partition == "SPX");
  CHECK(one.memory_partition == "NPS4");
  CHECK(one.trouble == "its file ras/sdma_err_count is garbled");
  AmdReading bare;
  fill_from_library(bare, library);
  CHECK(bare.metrics->accumulated == 1000);
  // A table of sysfs has its own count of replays: it is the one that is judged.
  AmdReading table;
  table.metrics.emplace().pcie_replays = 3;
  fill_from_library(table, library);
  CHECK_FALSE(table.pcie_replays);
}

TEST_CASE("bad pages up to the threshold") {
  struct Row {
    BadPages pages;
    std::optional<std::uint64_t> threshold;
    std::string told;
  };
  for (const auto& row :
       {Row{{100, 27, 0}, 128, ""}, Row{{100, 28, 0}, 128, "BAD_PAGE_THRESHOLD:error@0000:c1:00"},
        Row{{5000, 0, 0}, std::nullopt, ""},
        Row{{127, 0, 1}, 128, "BAD_PAGE_UNRESERVED:error@0000:c1:00 BAD_PAGE_THRESHOLD:error@0000:c1:00"}}) {
    AmdWatch watch;
    auto one = gpu();
    one.bad_pages = row.pages;
    one.bad_page_threshold = row.threshold;
    CHECK(looks(watch, {one}, 0s, 60s) == row.told);
  }
}

TEST_CASE("GPUs of one node that are set differently; one alone is as somebody wants it") {
  auto one = gpu(), two = gpu("0000:c3:00");
  one.compute_partition = two.compute_partition = "SPX";
  one.memory_partition = two.memory_partition = "NPS1";
  AmdWatch watch;
  one.memory_ecc = false;
  CHECK(looks(watch, {one}, 0s, 60s) == "");
  CHECK(looks(watch, {one, two}, 65s, 70s) == "");  // nobody knows of the second
  two.memory_ecc = true;
  CHECK(looks(watch, {one, two}, 75s, 80s) == "ECC_OFF:warn@0000:c1:00");
  one.memory_ecc = true;
  two.memory_partition = "NPS4";
  CHECK(looks(watch, {one, two}, 85s, 140s) == "");
  CHECK(looks(watch, {one, two}, 145s, 145s) == "PARTITION_MIXED:info@");
  one.memory_partition = "";  // it does not say
  CHECK(looks(watch, {one, two}, 150s, 300s) == "");
}
