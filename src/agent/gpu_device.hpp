// GPUs as the parts of the agent tell each other of them, whoever made them. Plain data.
#pragma once

#include <string>

namespace homeostat::agent {

enum class GpuVendor { unknown, nvidia, amd };

// A GPU that has told its names; a lost one cannot say them any more.
struct KnownGpu {
  unsigned index = 0;
  std::string uuid, pci;  // pci without function, as the kernel's lines name it; uuid: "" where an AMD GPU has none
  GpuVendor vendor = GpuVendor::nvidia;
};

// A GPU as NodeHealth lists it.
struct GpuDevice {
  unsigned index = 0;
  std::string uuid, pci;  // also of a lost GPU, where its names were ever known
  bool lost = false;
  std::string trouble;  // a sentence when it does not answer
  bool operator==(const GpuDevice&) const = default;
};

}  // namespace homeostat::agent
