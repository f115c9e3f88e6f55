// A kernel log line stripped of whatever wrote it down: /dev/kmsg, dmesg in its styles, syslog or the journal in any
// language. Accepts any bytes and any length.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace homeostat::fault {

struct KernelLine {
  bool from_kernel = true;  // false: the line says that another facility or program wrote it
  std::optional<std::uint64_t> sequence;
  std::optional<std::uint64_t> uptime_us;  // since boot, where the line tells
  std::uint32_t repeats = 1;
  std::string_view text;  // points into the line that was given
};

// Beyond this many bytes nothing is looked at: a record of the kernel holds at most 8 KiB.
inline constexpr size_t max_line_bytes = 8192;

KernelLine parse_kernel_line(std::string_view line);

// One record in /dev/kmsg's form: "prio,seq,usec,flags[,…];text\n SUBSYSTEM=…". nullopt when it is none.
struct KmsgRecord {
  std::uint32_t priority = 0;  // facility * 8 + level
  std::uint64_t sequence = 0;
  std::uint64_t uptime_us = 0;
  std::string_view text;  // the first line
  bool from_kernel() const { return priority >> 3 == 0; }
};
std::optional<KmsgRecord> parse_kmsg_record(std::string_view record);

}  // namespace homeostat::fault
