#include "agent/disk_sensor.hpp"

#include <array>

#include "agent/sys_sensor.hpp"
#include "io/disks.hpp"

namespace homeostat::agent {

namespace {

class DiskSensor final : public SysSensor {
 public:
  explicit DiskSensor(const io::SysRoots& roots) : DiskSensor(io::DiskReader(roots)) {}

  std::string_view name() const override { return "disk"; }
  std::span<const std::string_view> components() const override {
    static constexpr std::array<std::string_view, 1> names = {"disk-counters"};
    return names;
  }
  Duration interval() const override { return std::chrono::seconds(10); }
  std::string now_reading() const override {
    auto text = SysSensor::now_reading();
    return text.empty() ? proc_now_->text() : text;
  }

  SensorReport look(const SensorInput& input) override {
    const auto reading = reader_.read();
    SensorReport report;
    report.findings = watch_.look(reading, input.monotonic);
    size_t troubled = reading.troubles.size();
    std::string trouble = troubled > 0 ? reading.troubles.front() + "." : "";
    for (const auto& disk : reading.nvme) {
      if (!disk.trouble.empty()) {
        ++troubled;
        trouble = "NVMe controller " + disk.name + " cannot be asked: " + disk.trouble + ".";
      } else if (disk.listed) {
        report.samples.push_back({"homeostat_nvme_live", {{"device", disk.name}}, disk.state == "live" ? 1.0 : 0.0});
      }
    }
    for (const auto& filesystem : reading.filesystems)
      report.samples.push_back(
          {"homeostat_filesystem_errors", {{"device", filesystem.disk}}, double(filesystem.errors)});
    const auto answers = reading.nvme.size() + reading.blocks.size() + reading.mounts.size();
    set_state(report, answers + reading.troubles.size(), troubled, trouble);
    return report;
  }

 private:
  explicit DiskSensor(io::DiskReader reader)
      : SysSensor(reader.now_reading()), proc_now_(reader.now_reading_proc()), reader_(std::move(reader)) {}

  std::shared_ptr<io::NowReading> proc_now_;
  io::DiskReader reader_;
  fault::DiskWatch watch_;
};

}  // namespace

std::unique_ptr<Sensor> make_disk_sensor(const io::SysRoots& roots) { return std::make_unique<DiskSensor>(roots); }

}  // namespace homeostat::agent
