// For the tests of the sysfs sensors: a folder of their own, looks in time, and what a hanging look shows.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "agent/sensor.hpp"
#include "io/fake_sys.hpp"
#include "io/sysfs.hpp"
#include "tests/test_findings.hpp"
#include "tests/test_folder.hpp"

namespace homeostat::agent {

class TestTree {
 public:
  io::SysRoots roots() const { return {sys.root().string(), sys.proc().string()}; }

 private:
  TestFolder folder_;

 public:
  io::FakeSys sys{folder_.path / "sys"};
};

inline SensorInput at(std::chrono::seconds time, int expected_gpus = 0) {
  return {TimePoint(time), Duration(time), expected_gpus};
}

inline std::string codes_of(const SensorReport& report) { return fault::codes_of(report.findings); }

// Looks every 5 s; the last report.
inline SensorReport looks(Sensor& sensor, std::chrono::seconds from, std::chrono::seconds to, int expected_gpus = 0) {
  SensorReport report;
  for (auto now = from; now <= to; now += std::chrono::seconds(5)) report = sensor.look(at(now, expected_gpus));
  return report;
}

inline const Sample* sample_of(const SensorReport& report, std::string_view name) {
  const auto found = std::ranges::find(report.samples, name, &Sample::name);
  return found == report.samples.end() ? nullptr : &*found;
}

// The sensor hangs in `path`, says so, and answers again once the driver does.
inline void check_hang(Sensor& sensor, io::FakeSys& sys, const std::string& path, std::chrono::seconds now) {
  CAPTURE(path);
  sys.hang(path);
  auto answer = std::async(std::launch::async, [&] { return sensor.look(at(now)); });
  const auto file = path.substr(path.rfind('/') + 1);
  std::string reading;
  for (int i = 0; i < 400 && !reading.ends_with(file); ++i) {
    reading = sensor.now_reading();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(reading.ends_with(file));
  CHECK(answer.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  sys.release(path);
  REQUIRE(answer.wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  CHECK(answer.get().state != fault::ProbeState::pending);
  CHECK(sensor.now_reading().empty());
}

}  // namespace homeostat::agent
