// A machine's kernel log and fake hardware, as files below its folder `run`: kmsg in the record format of /dev/kmsg,
// boot_id, nvml.json, sys/ and proc/ as the agent's sensors read them. The text building is pure; what writes is safe
// against others through a lock file (lab/inject).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/drill.hpp"
#include "core/result.hpp"

namespace homeostat::lab {

// One record: "PRIORITY,SEQUENCE,MICROSECONDS,-;TEXT\n". Control characters and backslashes are escaped as \xHH, as the
// kernel does.
std::string kmsg_record(int priority, std::uint64_t sequence, std::uint64_t microseconds, std::string_view text);
// One more than the sequence of the last whole record; 0 for an empty log.
std::uint64_t next_sequence(std::string_view log);

// "0000:17:00.0" for GPU 0 and so on; at most 16 GPUs.
std::string gpu_address(int index);
// nvml.json of a machine with healthy GPUs. uuids: one for each.
std::string healthy_gpus(const std::vector<std::string>& uuids);
// "GPU-…" of each GPU of a machine, from its nvml.json; "" where there is none yet.
std::vector<std::string> known_uuids(const std::string& nvml_path);

// Kernel lines of now.
Result<void> append_lines(const std::string& run_folder, const std::vector<fault::DrillLine>& lines);

struct FakeMachine {
  int gpus = 0;
  bool amd = false;  // AMD GPUs (in sys/) in place of NVIDIA ones (in nvml.json)
};
// What a machine is, as its last boot wrote it down.
Result<FakeMachine> read_machine(const std::string& run_folder);

// A new boot: a new boot id, an empty log with the driver's first words, sound hardware (existing uuids stay: same
// hardware).
Result<void> begin_boot(const std::string& run_folder, const FakeMachine& machine);

}  // namespace homeostat::lab
