// NVIDIA's management library, loaded at run time: what each GPU says about itself. One thread at a time; a call may
// hang as long as the driver does, so it belongs on a thread of its own (agent/probe).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"

namespace homeostat::io {

struct GpuReading {
  unsigned index = 0;
  std::string uuid;
  std::string pci;  // "0000:17:00"; "" when the GPU was lost before its address was ever read
  bool lost = false;
  std::string trouble;                           // the library's words when a question failed
  std::optional<std::uint64_t> ecc_uncorrected;  // since the driver was loaded
  std::optional<unsigned> recovery_action;       // as in Xid 154
};

struct NvmlReading {
  std::string driver_version;
  std::vector<GpuReading> gpus;  // at most 64
};

class Nvml {
 public:
  virtual ~Nvml() = default;
  // Remembers the names of GPUs, so that one that is lost later can still be named.
  virtual Result<NvmlReading> read() = 0;
};

// not_found: the library is not there. path: "" for the loader's libnvidia-ml.so.1.
Result<std::unique_ptr<Nvml>> load_nvml(const std::string& path);

}  // namespace homeostat::io
