// What the sensors that read sysfs have in common.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/sensor.hpp"
#include "io/sysfs.hpp"

namespace homeostat::agent {

class SysSensor : public Sensor {
 public:
  explicit SysSensor(std::shared_ptr<io::NowReading> now) : now_(std::move(now)) {}
  std::string now_reading() const override { return now_->text(); }

 protected:
  // What a sensor with devices says of itself: absent without any, failed when none of them can be asked. A driver that
  // resets its devices answers nothing for a moment: who has answered before has three looks' time.
  void set_state(SensorReport& report, size_t devices, size_t troubled, const std::string& trouble) {
    const bool silent = devices > 0 && troubled == devices;
    silent_looks_ = silent ? silent_looks_ + 1 : 0;
    has_answered_ |= devices > troubled;
    const bool failed = silent && (!has_answered_ || silent_looks_ >= 3);
    report.state = devices == 0 ? fault::ProbeState::absent
                   : failed     ? fault::ProbeState::failed
                                : fault::ProbeState::good;
    if (failed) report.message = trouble;
  }

  template <class Reading, class NameOf>
  static std::string trouble_of(const Reading& device, NameOf name_of) {
    return name_of(device) + " cannot be asked: " + device.trouble + ".";
  }

  // The same, counted from what was read of each device; `name_of` names one in the sentence.
  template <class Reading, class NameOf>
  void set_state(SensorReport& report, const std::vector<Reading>& devices, NameOf name_of) {
    size_t troubled = 0;
    std::string trouble;
    for (const auto& device : devices) {
      if (device.trouble.empty()) continue;
      ++troubled;
      trouble = trouble_of(device, name_of);
    }
    set_state(report, devices.size(), troubled, trouble);
  }

 private:
  unsigned silent_looks_ = 0;
  bool has_answered_ = false;
  std::shared_ptr<io::NowReading> now_;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

template <class T>
void add_sample(SensorReport& report, const char* name, const Labels& labels, const std::optional<T>& value) {
  if (value) report.samples.push_back({name, labels, static_cast<double>(*value)});
}

}  // namespace homeostat::agent
