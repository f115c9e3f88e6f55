#include "agent/ethernet_sensor.hpp"

#include <array>

#include "agent/sys_sensor.hpp"
#include "core/fault/link_counters.hpp"
#include "io/ethernet.hpp"

namespace homeostat::agent {

namespace {

class EthernetSensor final : public SysSensor {
 public:
  explicit EthernetSensor(const io::SysRoots& roots) : EthernetSensor(io::EthernetReader(roots)) {}

  std::string_view name() const override { return "ethernet"; }
  std::span<const std::string_view> components() const override {
    static constexpr std::array<std::string_view, 1> names = {"ethernet"};
    return names;
  }

  SensorReport look(const SensorInput& input) override {
    const auto ports = reader_.read();
    SensorReport report;
    report.names = reader_.names();
    report.findings = watch_.look(ports, input.monotonic);
    for (const auto& port : ports)
      if (port.listed && port.trouble.empty()) add_samples(port, report);
    set_state(report, ports, [](const auto& port) { return "Network port " + port.name; });
    return report;
  }

 private:
  explicit EthernetSensor(io::EthernetReader reader) : SysSensor(reader.now_reading()), reader_(std::move(reader)) {}

  static void add_samples(const fault::NetReading& port, SensorReport& report) {
    const Labels labels = {{"device", port.name}};
    report.samples.push_back({"homeostat_ethernet_carrier", labels, port.carrier.value_or(false) ? 1.0 : 0.0});
    if (port.speed_mbps)
      report.samples.push_back({"homeostat_ethernet_speed_bits_per_second", labels, 1e6 * double(*port.speed_mbps)});
    add_sample(report, "homeostat_ethernet_carrier_downs_total", labels, port.carrier_downs);
    add_sample(report, "homeostat_ethernet_receive_errors_total", labels, port.receive_errors);
    add_sample(report, "homeostat_ethernet_receive_bytes_total", labels, port.receive_bytes);
    add_sample(report, "homeostat_ethernet_transmit_bytes_total", labels, port.transmit_bytes);
  }

  io::EthernetReader reader_;
  fault::NetWatch watch_;
};

}  // namespace

std::unique_ptr<Sensor> make_ethernet_sensor(const io::SysRoots& roots) {
  return std::make_unique<EthernetSensor>(roots);
}

}  // namespace homeostat::agent
