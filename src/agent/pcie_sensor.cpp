#include "agent/pcie_sensor.hpp"

#include <array>

#include "agent/sys_sensor.hpp"
#include "io/pcie.hpp"

namespace homeostat::agent {

namespace {

class PcieSensor final : public SysSensor {
 public:
  explicit PcieSensor(const io::SysRoots& roots) : PcieSensor(io::PcieReader(roots)) {}

  std::string_view name() const override { return "pcie"; }
  std::span<const std::string_view> components() const override {
    static constexpr std::array<std::string_view, 1> names = {"pcie-counters"};
    return names;
  }
  // Each link file reads the device's configuration space; nothing here changes within seconds.
  Duration interval() const override { return std::chrono::seconds(15); }

  SensorReport look(const SensorInput& input) override {
    const auto devices = reader_.read();
    SensorReport report;
    report.findings = watch_.look(devices, input.monotonic);
    for (const auto& device : devices)
      if (device.kind != fault::PciKind::bridge) add_samples(device, report);
    set_state(report, devices, [](const auto& device) { return "PCI device " + device.address; });
    return report;
  }

 private:
  explicit PcieSensor(io::PcieReader reader) : SysSensor(reader.now_reading()), reader_(std::move(reader)) {}

  static void add_samples(const fault::PciReading& device, SensorReport& report) {
    const Labels labels = {{"device", fault::pci_device_key(device)}};
    add_sample(report, "homeostat_pcie_link_lanes", labels, device.lanes);
    add_sample(report, "homeostat_pcie_link_max_lanes", labels, device.max_lanes);
    add_sample(report, "homeostat_pcie_correctable_errors_total", labels, device.correctable);
    add_sample(report, "homeostat_pcie_nonfatal_errors_total", labels, device.nonfatal);
    add_sample(report, "homeostat_pcie_fatal_errors_total", labels, device.fatal);
  }

  io::PcieReader reader_;
  fault::PcieWatch watch_;
};

}  // namespace

std::unique_ptr<Sensor> make_pcie_sensor(const io::SysRoots& roots) { return std::make_unique<PcieSensor>(roots); }

}  // namespace homeostat::agent
