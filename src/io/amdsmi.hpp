// AMD's management library (amdsmi), loaded at run time: what each GPU tells besides its files in /sys. Those come
// first: the library is asked only for what they do not tell, so that no error is found twice and a look stays cheap
// (with all files there: a dozen calls per GPU). One thread at a time; a call may hang as long as the driver does, so
// it belongs on a thread of its own (agent/amdsmi_sensor), and NowReading names the call from any other. No process is
// started and no lock is held across a call. The library is let go after each read: a driver that is held open cannot
// be loaded anew, and what the library knew of GPUs before does not hold after it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/fault/amd_counters.hpp"
#include "core/result.hpp"
#include "io/library.hpp"
#include "io/sysfs.hpp"

namespace homeostat::io {

struct AmdSmiReading {
  std::string version, driver_version;  // of the library; of amdgpu
  std::vector<fault::AmdReading> gpus;  // only what was missing; `trouble` where the GPU does not answer at all
  std::vector<std::string>
      unreadable;  // sentences: what should have been told and was not; each function once, at most max_unreadable
};

class AmdSmi {
 public:
  static constexpr size_t max_unreadable = 8;
  static constexpr unsigned max_failures = 8;  // of the driver in one look: then nothing more is asked, for each may
                                               // have taken a timeout

  virtual ~AmdSmi() = default;
  // `gpus`: what /sys tells of each (nothing but `pci` is fine, too). A figure that cannot be had leaves its place
  // empty; only a library that does not answer at all is an error. invalid: its version is none that is known.
  virtual Result<AmdSmiReading> read(const std::vector<fault::AmdReading>& gpus) = 0;
  // Functions that this library does not have: their figures are never there.
  virtual std::vector<std::string> lacking() const { return {}; }
};

// not_found: the library is not there; invalid: it is none. path: "" for the loader's libamd_smi.so and ROCm's folder.
Result<std::unique_ptr<AmdSmi>> load_amdsmi(const std::string& path, const std::shared_ptr<NowReading>& now);

// The same with another way to find a function.
Result<std::unique_ptr<AmdSmi>> load_amdsmi_with(const std::string& path, const std::shared_ptr<NowReading>& now,
                                                 const SymbolLookup& lookup);

}  // namespace homeostat::io
