// The sensor of AMD GPUs: RAS counters, metrics, bad pages, links and presence, from /sys and, where
// that does not tell, from what the sensor `amdsmi` has laid on the shelf; and the list of devices. Component
// amd-counters. Threads: look() runs on one thread at a time and may hang as long as the driver does; it holds no lock,
// and the callbacks are called from it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "agent/amd_shelf.hpp"
#include "agent/gpu_device.hpp"
#include "agent/sensor.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

struct AmdSensorOptions {
  io::SysRoots roots;
  std::shared_ptr<AmdShelf> shelf;                 // null: nobody asks the library
  Duration grace = fault::AmdWatch::missing_hold;  // after the first look: a driver may still be starting

  // Each may be null.
  std::function<std::vector<KnownGpu>()> known_gpus;  // this boot's GPUs; asked once, so that one lost before is missed
  // After each look: those that are there and those that were and are lost, in the order of their PCI addresses. One
  // that was given to another driver is left out.
  std::function<void(std::vector<GpuDevice>)> devices_seen;
};

// Its reports: good: /sys told, also that GPUs are missing which somebody expects. absent: no AMD accelerator is on the
// PCI bus or ever was, and nobody expects any. pending: within the grace there are fewer than expected and never were
// all of them: nothing has recovered, nothing is found. failed: they are there and none can be asked.
std::unique_ptr<Sensor> make_amd_sensor(AmdSensorOptions options);

}  // namespace homeostat::agent
