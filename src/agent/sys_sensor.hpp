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

 private:
  std::shared_ptr<io::NowReading> now_;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

template <class T>
void add_sample(SensorReport& report, const char* name, const Labels& labels, const std::optional<T>& value) {
  if (value) report.samples.push_back({name, labels, static_cast<double>(*value)});
}

// What a sensor with devices says of itself: absent without any, failed when none of them can be asked.
inline void set_state(SensorReport& report, size_t devices, size_t troubled, const std::string& trouble) {
  report.state = devices == 0          ? fault::ProbeState::absent
                 : troubled == devices ? fault::ProbeState::failed
                                       : fault::ProbeState::good;
  if (report.state == fault::ProbeState::failed) report.message = trouble;
}

}  // namespace homeostat::agent
