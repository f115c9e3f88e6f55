// What the agent must not forget when it is restarted: how far it has read the kernel log of which boot, and what it
// found. One file, replaced atomically. It is only good for the boot that it names, so it needs no fsync: what a crash
// of the machine tears is of an old boot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/gpu_device.hpp"
#include "core/fault/ledger.hpp"
#include "core/result.hpp"

namespace homeostat::agent {

struct Memory {
  std::string boot_id;
  std::optional<std::uint64_t> last_sequence;  // nothing was read yet when empty
  std::vector<fault::LedgerEntry> entries;
  std::uint64_t dropped = 0;
  std::vector<KnownGpu> gpus;                               // as their drivers named them while they were well
  std::vector<fault::RepeatHistory::Record> history = {};   // what has come how often
  std::uint64_t gaps = 0, lost_records = 0, forgeries = 0;  // of the kernel log since boot
};

std::string encode_memory(const Memory& memory);
Result<Memory> decode_memory(std::string_view text);

// The folder is made when it is missing. not_found: nothing was saved yet.
Result<Memory> load_memory(const std::string& folder);
Result<void> save_memory(const std::string& folder, const Memory& memory);

}  // namespace homeostat::agent
