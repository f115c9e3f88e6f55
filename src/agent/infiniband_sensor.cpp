#include "agent/infiniband_sensor.hpp"

#include <array>

#include "agent/sys_sensor.hpp"
#include "core/fault/link_counters.hpp"
#include "io/infiniband.hpp"

namespace homeostat::agent {

namespace {

struct CounterName {
  fault::PortCounter counter;
  const char* name;
  double unit = 1;
};

constexpr CounterName counter_names[] = {
    {fault::PortCounter::link_downed, "homeostat_infiniband_link_downed_total"},
    {fault::PortCounter::link_error_recovery, "homeostat_infiniband_link_error_recovery_total"},
    {fault::PortCounter::symbol_error, "homeostat_infiniband_symbol_errors_total"},
    {fault::PortCounter::receive_errors, "homeostat_infiniband_receive_errors_total"},
    {fault::PortCounter::transmit_wait, "homeostat_infiniband_transmit_wait_total"},
    {fault::PortCounter::receive_data, "homeostat_infiniband_receive_bytes_total", 4},
    {fault::PortCounter::transmit_data, "homeostat_infiniband_transmit_bytes_total", 4},
};

class InfinibandSensor final : public SysSensor {
 public:
  explicit InfinibandSensor(const io::SysRoots& roots) : InfinibandSensor(io::InfinibandReader(roots)) {}

  std::string_view name() const override { return "infiniband"; }
  std::span<const std::string_view> components() const override {
    static constexpr std::array<std::string_view, 1> names = {"infiniband"};
    return names;
  }

  SensorReport look(const SensorInput& input) override {
    const auto ports = reader_.read();
    SensorReport report;
    report.findings = watch_.look(ports, input.monotonic);
    for (const auto& port : ports) {
      if (!port.pci.empty() && !port.virtual_function) report.names.emplace_back(port.device, port.pci);
      if (port.listed && port.trouble.empty()) add_samples(port, report);
    }
    set_state(report, ports, [](const auto& port) { return "Port " + port.device + "/" + port.port; });
    return report;
  }

 private:
  explicit InfinibandSensor(io::InfinibandReader reader)
      : SysSensor(reader.now_reading()), reader_(std::move(reader)) {}

  static void add_samples(const fault::PortReading& port, SensorReport& report) {
    const Labels labels = {{"device", port.device}, {"port", port.port}};
    const bool active = port.state == fault::PortState::active || port.state == fault::PortState::active_defer;
    report.samples.push_back({"homeostat_infiniband_port_active", labels, active ? 1.0 : 0.0});
    if (port.rate_gbps)
      report.samples.push_back({"homeostat_infiniband_rate_bits_per_second", labels, *port.rate_gbps * 1e9});
    for (const auto& [counter, name, unit] : counter_names)
      if (const auto& value = port.counters[static_cast<size_t>(counter)])
        report.samples.push_back({name, labels, static_cast<double>(*value) * unit});
  }

  io::InfinibandReader reader_;
  fault::PortWatch watch_;
};

}  // namespace

std::unique_ptr<Sensor> make_infiniband_sensor(const io::SysRoots& roots) {
  return std::make_unique<InfinibandSensor>(roots);
}

}  // namespace homeostat::agent
