// The sensor of AMD's management library: asks it for what /sys does not tell of the node's GPUs and lays that on the
// shelf, where the sensor `amd` judges it with the rest (so no fault is found twice, and a library that hangs leaves
// /sys being watched). It finds nothing itself. The library is loaded only where amdgpu has an accelerator. Threads:
// look() runs on one thread at a time and may hang as long as the library does; now_reading() names the call.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/amd_shelf.hpp"
#include "agent/sensor.hpp"
#include "io/amdsmi.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

struct AmdSmiSensorOptions {
  io::SysRoots roots;
  std::string library_path;         // "": the loader's libamd_smi.so
  std::shared_ptr<AmdShelf> shelf;  // not null
  // null: io::load_amdsmi
  std::function<Result<std::unique_ptr<io::AmdSmi>>(const std::string&, const std::shared_ptr<io::NowReading>&)> load;
};

// Its reports: good: it answered; the message has its version and what it could not tell. absent: no AMD accelerator,
// or no library that is known and nobody has named one: /sys tells enough. failed: the library that is there, or that
// somebody has named, does not answer.
std::unique_ptr<Sensor> make_amdsmi_sensor(AmdSmiSensorOptions options);

}  // namespace homeostat::agent
