// What AMD GPUs say about a node through sysfs and amdsmi: RAS counters, the driver's gpu_metrics table, bad pages,
// links, partitions, presence. A reading, what was seen before and the time in, findings out. Pure, bounded, one thread
// at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/fault/flap.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

// What is of use in a gpu_metrics table. Absent: the table's revision or the chip does not have it.
struct AmdMetrics {
  std::optional<std::uint64_t> hotspot_c, memory_c, power_w, busy_percent, memory_busy_percent, gfxclk_mhz;
  std::optional<std::uint64_t> lanes, speed_tenth_gts, xgmi_lanes, pcie_replays;
  std::optional<bool> thermal_throttle;  // bits of the throttle status that do not depend on the chip
  // How long the chip was held back by heat, in cycles of `accumulated`.
  std::optional<std::uint64_t> accumulated, thermal_residency;
  std::array<std::optional<bool>, 8> xgmi_up;
};

enum class MetricsState {
  good,
  unknown,  // a revision that nobody has told us the layout of
  garbled,  // shorter than it says, or no table at all
};

MetricsState parse_gpu_metrics(std::string_view bytes, AmdMetrics& metrics);

struct RasBlock {
  std::string name;  // "umc"
  std::optional<std::uint64_t> uncorrected, corrected, deferred;
};

// "ue: 1\nce: 2\nde: 3"; false when no line is one of them.
bool parse_ras_counts(std::string_view text, RasBlock& block);

struct BadPages {
  std::uint64_t retired = 0, pending = 0, failed = 0;  // R, P and F
};

// "0x00000001 : 0x00001000 : R" lines.
BadPages parse_bad_pages(std::string_view text);

struct AmdReading {
  std::string pci;          // without function, as the kernel's lines name it: "0000:c1:00"
  std::string uuid, model;  // "GPU-1f2e3d4c5b6a7988", "AMD Instinct MI300X OAM"; "" when it tells none
  bool listed = true;
  bool there = false;  // not listed: the PCI function is still there, without driver
  bool moved = false;  // not listed: another driver has it (given to a virtual machine)
  std::vector<RasBlock> blocks;
  std::optional<AmdMetrics> metrics;
  std::optional<BadPages> bad_pages;
  std::optional<std::uint64_t> xgmi_errors;  // since the reading before: the driver clears them when they are read
  std::optional<std::uint64_t> pcie_replays, vram_total, vram_used, busy_percent;
  std::optional<std::uint64_t> critical_c;
  std::optional<bool> memory_ecc;                   // ECC of its memory is on
  std::optional<std::uint64_t> bad_page_threshold;  // as many, and the driver refuses the GPU at its next load
  std::string compute_partition, memory_partition;  // "SPX", "NPS1"; "" when it tells none
  std::string trouble;
};

// Sysfs comes first: a figure that `gpu` has from there stays, the library's fills an empty place, and a RAS block that
// sysfs tells is sysfs's alone. So one error is one finding, whoever tells it; and a file that cannot be read stays the
// GPU's trouble, whatever the library says.
void fill_from_library(AmdReading& gpu, const AmdReading& library);

class AmdWatch {
 public:
  static constexpr Duration missing_hold{60'000};

  // `hold`: how long fewer GPUs than expected must last to be a fault: a driver may still be starting.
  explicit AmdWatch(Duration hold = missing_hold) : hold_(hold) {}

  // `expected`: how many GPUs there should be, 0 when nobody has said.
  std::vector<Finding> look(const std::vector<AmdReading>& gpus, int expected, Duration now);

  // By the last look: there have never been as many GPUs as expected, and it is not a fault yet.
  bool awaits_more() const { return awaits_more_; }

  static constexpr size_t max_gpus = 64, max_blocks = 32;

 private:
  struct Block {
    RisingCounter uncorrected, corrected, deferred;
    RateWatch uncorrected_rate, corrected_rate, deferred_rate;
    bool old_uncorrected = false, first = true;
  };
  struct Memory {
    std::map<std::string, Block, std::less<>> blocks;
    RisingCounter pages, replays;
    RateWatch page_rate, replay_rate, xgmi_rate;
    std::optional<std::uint64_t> accumulated, thermal;
    std::array<bool, 8> xgmi_was_up{};
    Continuity gone, silent, throttled, hot, xgmi_down;
  };
  void look_at_all(const std::vector<AmdReading>& gpus, Duration now, std::vector<Finding>& out);
  void look_for(const AmdReading& gpu, Memory& memory, Duration now, std::vector<Finding>& out);
  void look_at(const AmdReading& gpu, Memory& memory, Duration now, std::vector<Finding>& out);
  static void look_at_block(const AmdReading& gpu, const RasBlock& reading, Block& block, Duration now,
                            std::vector<Finding>& out);
  static void look_at_metrics(const AmdReading& gpu, Memory& memory, Duration now, std::vector<Finding>& out);

  std::map<std::string, Memory, std::less<>> memory_;
  Continuity missing_, mixed_;
  Duration hold_;
  int most_listed_ = 0;
  bool awaits_more_ = false;
};

}  // namespace homeostat::fault
