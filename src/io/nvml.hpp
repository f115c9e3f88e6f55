// NVIDIA's management library, loaded at run time: what each GPU says about itself. One thread at a time; a call may
// hang as long as the driver does, so it belongs on a thread of its own (agent/nvml_sensor). No process is started and
// no lock is held across a call. While a GPU waits for a reset the driver is let go after each read, for a GPU that
// somebody holds open cannot be reset. Cost of a read: 11 calls per GPU (one of them for some 15 figures at once);
// every third read 5 more, and one for each 64 counters of links.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/fault/gpu_reading.hpp"
#include "core/result.hpp"
#include "io/library.hpp"

namespace homeostat::io {

using fault::GpuReading;
using fault::NvmlReading;

class Nvml {
 public:
  virtual ~Nvml() = default;
  // Remembers the names of GPUs, so that one that is lost later can still be named. A figure that cannot be had leaves
  // its place empty; only a library or driver that does not answer at all is an error.
  virtual Result<NvmlReading> read() = 0;
  // Functions that this library is too old to have: their figures are never there.
  virtual std::vector<std::string> lacking() const { return {}; }
};

// not_found: the library is not there. path: "" for the loader's libnvidia-ml.so.1.
Result<std::unique_ptr<Nvml>> load_nvml(const std::string& path);

// The same with another way to find a function of the library.
Result<std::unique_ptr<Nvml>> load_nvml_with(const std::string& path, const SymbolLookup& lookup);

}  // namespace homeostat::io
