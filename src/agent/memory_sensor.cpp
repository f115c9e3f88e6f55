#include "agent/memory_sensor.hpp"

#include <array>

#include "agent/sys_sensor.hpp"
#include "io/edac.hpp"

namespace homeostat::agent {

namespace {

class MemorySensor final : public SysSensor {
 public:
  explicit MemorySensor(const io::SysRoots& roots) : MemorySensor(io::EdacReader(roots)) {}

  std::string_view name() const override { return "memory"; }
  std::span<const std::string_view> components() const override {
    static constexpr std::array<std::string_view, 1> names = {"memory-counters"};
    return names;
  }
  Duration interval() const override { return std::chrono::seconds(15); }

  SensorReport look(const SensorInput& input) override {
    const auto controllers = reader_.read();
    SensorReport report;
    report.findings = watch_.look(controllers, input.monotonic);
    for (const auto& controller : controllers) {
      const Labels labels = {{"controller", controller.controller}};
      add_sample(report, "homeostat_memory_corrected_errors_total", labels, controller.corrected);
      add_sample(report, "homeostat_memory_uncorrected_errors_total", labels, controller.uncorrected);
    }
    set_state(report, controllers, [](const auto& controller) { return "Memory controller " + controller.controller; });
    return report;
  }

 private:
  explicit MemorySensor(io::EdacReader reader) : SysSensor(reader.now_reading()), reader_(std::move(reader)) {}

  io::EdacReader reader_;
  fault::MemoryWatch watch_;
};

}  // namespace

std::unique_ptr<Sensor> make_memory_sensor(const io::SysRoots& roots) { return std::make_unique<MemorySensor>(roots); }

}  // namespace homeostat::agent
