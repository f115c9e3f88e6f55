// Reads AMD GPUs from the amdgpu driver's folder in /sys/bus/pci. A GPU that makes graphics only (in a processor, or a
// small card) is passed over. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/fault/amd_counters.hpp"
#include "core/time.hpp"
#include "io/sysfs.hpp"

namespace homeostat::io {

// Addresses of the accelerators that the driver has, without function.
std::vector<std::string> accelerators_of_amdgpu(SysTree& tree);

// Whether the GPUs on the PCI bus are AMD accelerators: with amdgpu or without a driver, and none is NVIDIA's.
bool only_amd_on_bus(SysTree& tree);

class AmdReader {
 public:
  explicit AmdReader(const SysRoots& roots) : tree_(roots.sys) {}

  // GPUs that somebody saw before: PCI addresses without function.
  void remember(const std::vector<std::string>& known);
  // Every accelerator of AMD's, and those that were there before (listed: false), by their addresses.
  std::vector<fault::AmdReading> read(Duration monotonic);
  // Whether this is a node with AMD accelerators at all, with or without a driver.
  bool any_accelerator() const { return any_; }
  const std::shared_ptr<NowReading>& now_reading() const { return tree_.now_reading(); }

 private:
  struct Gpu {
    bool accelerator = false, seen = false;
    SysFolder folder, ras;
    std::vector<std::string> blocks;  // "umc_err_count"
    std::optional<std::uint64_t> critical_c;
    std::string uuid, model, compute_partition, memory_partition;
    std::optional<Duration> xgmi_read, partitions_read;
    std::optional<bool> memory_ecc;
  };
  void identify(const SysFolder& driver, const std::string& address, Gpu& gpu);
  void read_gpu(Gpu& gpu, Duration now, fault::AmdReading& reading);
  void read_ras(Gpu& gpu, fault::AmdReading& reading);
  void read_partitions(Gpu& gpu, Duration now, fault::AmdReading& reading);
  void report_lost(const std::string& address, const Gpu& gpu, std::vector<fault::AmdReading>& out);
  void look_for_unbound();

  SysTree tree_;
  std::map<std::string, Gpu> gpus_;
  bool any_ = false;
  unsigned looks_ = 0;
};

}  // namespace homeostat::io
