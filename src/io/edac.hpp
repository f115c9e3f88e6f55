// Reads the memory controllers of EDAC. One thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "core/fault/host_counters.hpp"
#include "io/sysfs.hpp"

namespace homeostat::io {

class EdacReader {
 public:
  explicit EdacReader(const SysRoots& roots) : tree_(roots.sys) {}

  std::vector<fault::MemoryReading> read();
  const std::shared_ptr<NowReading>& now_reading() const { return tree_.now_reading(); }

 private:
  std::string worst_dimm(const SysFolder& controller);

  SysTree tree_;
};

}  // namespace homeostat::io
