// Drills: faults that people order to see what happens. What may be ordered, the kernel lines that a driver would
// write, the findings to expect, and the judging of a line that a process wrote into the kernel log. Pure; the judging
// is constant-time in the token, and a token appears in no text that this file makes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

enum class DrillKind { xid, sxid, nvlink5, link, ecc, thermal, hang, lost, amd, clear };

// "xid=79", "xid=154/0x2", "sxid=12028", "nvlink5=149", "link=flap port=mlx5_0:1", "ecc=uncorrectable", "thermal",
// "hang", "lost", "amd=ue", "clear"; count=N repeats the lines, driver=580 words them as that driver generation does.
struct DrillFault {
  DrillKind kind = DrillKind::xid;
  std::string value;  // "79", "flap", …; "" for the kinds without one
  std::string port;   // of a link: "mlx5_0:1"; "" for the first one
  int count = 1;      // 1 to max_drill_count
  int driver_major = 550;
  bool operator==(const DrillFault&) const = default;
};
inline constexpr int max_drill_count = 100;
inline constexpr size_t max_drill_lines = 128;
inline constexpr size_t max_drill_fault_bytes = 128;

// invalid: a sentence that says what to write.
Result<DrillFault> parse_drill(std::string_view text);
std::string to_text(const DrillFault& fault);  // what parse_drill takes; the same for every spelling of one fault

// Whose GPUs can have it: "nvidia" or "amdgpu", as their drivers are called; "" for a fault of any machine.
std::string_view driver_of(DrillKind kind);

// What a device may be called in an order: "0" (index), "0000:17:00" or "0000:17:00.0"; "" for the first one.
bool is_drill_device(std::string_view device);

struct DrillTarget {
  std::string device = "0000:00:00";  // PCI address without function, of the GPU (of the switch for sxid)
  std::string uuid = {};              // of the GPU; "" leaves the driver's introduction out
  bool fake_hardware = false;         // the lab: counters, links and temperatures can be changed, too
  bool amd = false;                   // the GPU is AMD's
};

struct DrillLine {
  int level = 3;  // as printk's: 3 error, 4 warning, 5 notice, 6 info
  std::string text;
  bool operator==(const DrillLine&) const = default;
};

struct DrillPlan {
  std::vector<DrillLine> lines;
  // Ids of the findings to expect, the telling one first; a trailing '*' matches any rest. "sensor:NAME" stands for a
  // sensor that fails. Empty: the findings of earlier drills go away.
  std::vector<std::string> findings;
  // For how long its lines count and its findings are waited for. A sensor may want to see a state for a minute before
  // it says so.
  Duration life{60'000};
};

// invalid: only fake hardware can have that fault, or the machine has no such thing.
Result<DrillPlan> plan_drill(const DrillFault& fault, const DrillTarget& target);

// Says whether a finding's id is one of those that a plan expects.
bool matches_expected(std::string_view id, std::span<const std::string> expected);

// One row per kind of fault, for `homeostat inject --list` and the operators' page.
struct DrillHelp {
  std::string_view usage, touches, expect;
  bool lab_only = false;
};
std::span<const DrillHelp> drill_catalog();

// The word that begins a drill's line in the kernel log of a real node: "homeostat-drill <token> <line>".
inline constexpr std::string_view drill_marker = "homeostat-drill ";

// A drill that the controller has armed for this node.
struct ArmedDrill {
  std::string name, token;
  std::vector<std::string> lines;     // texts, in the order in which they are written
  std::vector<std::string> findings;  // as in DrillPlan
  TimePoint expires_at{};             // its lines count only before it
  std::vector<bool> used = {};        // lines that have been taken; grows as needed
};

enum class UserLine {
  nothing,  // an ordinary line of a program
  drill,    // a planned line of an armed drill, proved by its token; counts once
  forgery,  // looks like a fault, and nobody ordered it
};
struct UserLineVerdict {
  UserLine what = UserLine::nothing;
  std::string line;  // of a drill: what to take as the kernel's own
};

// `text`: of a record whose facility is not the kernel's. Marks the line that it takes as used.
UserLineVerdict judge_user_line(std::string_view text, std::span<ArmedDrill> armed, TimePoint now);

}  // namespace homeostat::fault
