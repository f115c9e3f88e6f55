#include "agent/amdsmi_sensor.hpp"

#include "agent/sys_sensor.hpp"
#include "io/amd.hpp"

namespace homeostat::agent {

namespace {

class AmdSmiSensor final : public SysSensor {
 public:
  AmdSmiSensor(io::SysTree tree, AmdSmiSensorOptions options)
      : SysSensor(tree.now_reading()), tree_(std::move(tree)), options_(std::move(options)) {
    if (!options_.load) options_.load = io::load_amdsmi;
  }

  std::string_view name() const override { return "amdsmi"; }
  std::span<const std::string_view> components() const override { return {}; }
  // It only completes what /sys tells every 5 s, and starting the library costs more than a look.
  Duration interval() const override { return Duration(30'000); }

  SensorReport look(const SensorInput& input) override {
    SensorReport report;
    const auto known = gpus();
    if (known.empty()) {
      report.state = fault::ProbeState::absent;
      return report;
    }
    auto reading = read(known);
    if (!reading) return unanswered(reading.error());
    options_.shelf->put_library(reading->gpus, input.monotonic);
    set_state(report, reading->gpus, [](const fault::AmdReading& gpu) { return "AMD GPU " + gpu.pci; });
    if (report.state == fault::ProbeState::good) report.message = message_of(*reading);
    return report;
  }

 private:
  // As the sensor `amd` has read them; before its first look, as they are listed.
  std::vector<fault::AmdReading> gpus() {
    auto gpus = options_.shelf->files();
    std::erase_if(gpus, [](const fault::AmdReading& gpu) { return !gpu.listed; });
    if (!gpus.empty()) return gpus;
    for (auto& pci : io::accelerators_of_amdgpu(tree_)) gpus.emplace_back().pci = std::move(pci);
    return gpus;
  }

  Result<io::AmdSmiReading> read(const std::vector<fault::AmdReading>& known) {
    if (!library_) {
      auto loaded = options_.load(options_.library_path, tree_.now_reading());
      if (!loaded) return std::unexpected(loaded.error());
      library_ = std::move(*loaded);
    }
    return library_->read(known);
  }

  // /sys alone is enough where nobody has asked for more.
  SensorReport unanswered(const Error& error) const {
    const bool unfit = error.kind == ErrorKind::not_found || error.kind == ErrorKind::invalid;
    SensorReport report;
    report.state = unfit && options_.library_path.empty() ? fault::ProbeState::absent : fault::ProbeState::failed;
    report.message = error.message;
    return report;
  }

  std::string message_of(const io::AmdSmiReading& reading) const {
    std::string text = "amdsmi " + reading.version;
    if (!reading.driver_version.empty()) text += ", amdgpu " + reading.driver_version;
    text += ".";
    if (const auto lacking = library_->lacking(); !lacking.empty())
      text += " It lacks " + lacking.front() +
              (lacking.size() > 1 ? " and " + std::to_string(lacking.size() - 1) + " more functions." : ".");
    if (!reading.unreadable.empty()) text += " " + reading.unreadable.front();
    if (reading.unreadable.size() > 1)
      text += " And " + std::to_string(reading.unreadable.size() - 1) + " more could not be told.";
    return text;
  }

  io::SysTree tree_;
  AmdSmiSensorOptions options_;
  std::unique_ptr<io::AmdSmi> library_;
};

}  // namespace

std::unique_ptr<Sensor> make_amdsmi_sensor(AmdSmiSensorOptions options) {
  io::SysTree tree(options.roots.sys);
  return std::make_unique<AmdSmiSensor>(std::move(tree), std::move(options));
}

}  // namespace homeostat::agent
