#include "agent/sensor_list.hpp"

#include "agent/amd_sensor.hpp"
#include "agent/amdsmi_sensor.hpp"
#include "agent/disk_sensor.hpp"
#include "agent/ethernet_sensor.hpp"
#include "agent/infiniband_sensor.hpp"
#include "agent/memory_sensor.hpp"
#include "agent/nvml_sensor.hpp"
#include "agent/pcie_sensor.hpp"
#include "agent/steps_sensor.hpp"
#include "io/amd.hpp"

namespace homeostat::agent {

std::vector<std::unique_ptr<Sensor>> make_sensors(const SensorPlaces& places, const std::shared_ptr<NodeState>& state) {
  io::SysTree tree(places.sys);
  const bool only_amd = io::only_amd_on_bus(tree);
  if (only_amd) state->set_vendor_on_bus(GpuVendor::amd);
  NvmlSensorOptions nvml;
  nvml.nvml_path = places.nvml_path;
  nvml.always_expected = places.always_expected && !only_amd;
  nvml.grace = places.driver_grace;
  nvml.known_gpus = [state] { return state->known_gpus(GpuVendor::nvidia); };
  nvml.open_findings = [state] { return state->open_findings("gpu-nvml"); };
  nvml.devices_seen = [state](std::vector<GpuDevice> devices) {
    state->take_devices(GpuVendor::nvidia, std::move(devices));
  };
  const io::SysRoots roots{places.sys, places.proc};
  AmdSensorOptions amd;
  amd.roots = roots;
  amd.grace = places.driver_grace;
  amd.shelf = std::make_shared<AmdShelf>();
  AmdSmiSensorOptions amdsmi;
  amdsmi.roots = roots;
  amdsmi.library_path = places.amdsmi_path;
  amdsmi.shelf = amd.shelf;
  amd.known_gpus = [state] { return state->known_gpus(GpuVendor::amd); };
  amd.devices_seen = [state](std::vector<GpuDevice> devices) {
    state->take_devices(GpuVendor::amd, std::move(devices));
  };
  std::vector<std::unique_ptr<Sensor>> sensors;
  sensors.reserve(9);
  sensors.push_back(make_nvml_sensor(std::move(nvml)));
  sensors.push_back(make_amd_sensor(std::move(amd)));
  sensors.push_back(make_amdsmi_sensor(std::move(amdsmi)));
  sensors.push_back(make_infiniband_sensor(roots));
  sensors.push_back(make_ethernet_sensor(roots));
  sensors.push_back(make_pcie_sensor(roots));
  sensors.push_back(make_memory_sensor(roots));
  sensors.push_back(make_disk_sensor(roots));
  sensors.push_back(make_steps_sensor(places.steps));
  return sensors;
}

SensorInput input_of(const Sensor& sensor, const NodeState& state, const io::Clock& clock) {
  return {clock.now(), clock.monotonic(), state.expected_gpus_of(sensor.name())};
}

}  // namespace homeostat::agent
