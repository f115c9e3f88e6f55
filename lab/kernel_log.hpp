// A machine's kernel log and fake GPUs, as files below its folder `run`: kmsg in the record format of /dev/kmsg,
// boot_id, nvml.json. The text building is pure; inject() may be called by any process, and takes turns with others
// through a lock file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace homeostat::lab {

// One record: "PRIORITY,SEQUENCE,MICROSECONDS,-;TEXT\n". Control characters and backslashes are escaped as \xHH, as the
// kernel does.
std::string kmsg_record(int priority, std::uint64_t sequence, std::uint64_t microseconds, std::string_view text);
// One more than the sequence of the last whole record; 0 for an empty log.
std::uint64_t next_sequence(std::string_view log);

// "0000:17:00.0" for GPU 0 and so on; at most 16 GPUs.
std::string gpu_address(int index);

struct KernelLine {
  int priority;
  std::string text;
};
// What the driver (R550) prints for that XID on that GPU, companions included.
std::vector<KernelLine> xid_lines(int xid, int device, std::string_view uuid);

// nvml.json of a machine with healthy GPUs. uuids: one for each.
std::string healthy_gpus(const std::vector<std::string>& uuids);
// nvml.json after that XID struck that GPU: lost, or its error counters raised. not_found: there is no such GPU.
Result<std::string> after_xid(std::string_view nvml_json, int xid, int device);

// A new boot: a new boot id, an empty log with the driver's first words, healthy GPUs (existing uuids stay: same
// hardware).
Result<void> begin_boot(const std::string& run_folder, int gpus);
Result<void> inject_xid(const std::string& run_folder, int xid, int device);

}  // namespace homeostat::lab
