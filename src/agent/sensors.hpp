// Runs any number of Sensors so that none can hold up another, the kernel log, reporting or liveness: a few threads
// look at those that are due; one that does not answer within its patience is reported as failed, keeps the thread that
// it hangs in and is not asked again before that thread returns, and a fresh thread takes the lost one's place. So at
// most one thread per sensor is ever lost.
// Threads: everything here is safe from any thread; reports come from the pool's threads and from tick(), never two of
// one sensor at once.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "agent/sensor.hpp"
#include "io/clock.hpp"

namespace homeostat::agent {

struct SensorsOptions {
  unsigned threads = 2;  // that look while nothing hangs
};

class Sensors {
 public:
  // What a sensor said, or what is said of one that hangs or throws. Called without any lock held.
  using OnReport = std::function<void(const Sensor&, SensorReport)>;
  // What the sensor is to know before it looks.
  using InputFor = std::function<SensorInput(const Sensor&)>;

  // clock, and what the two functions use, must outlive the last thread that hangs: the process's lifetime, in effect.
  // After the destructor has begun, neither function is called anew.
  Sensors(std::vector<std::unique_ptr<Sensor>> sensors, io::Clock& clock, InputFor input, OnReport on_report,
          SensorsOptions options = {});
  ~Sensors();  // waits for reports that are being handed over, not for a sensor that looks
  Sensors(const Sensors&) = delete;
  Sensors& operator=(const Sensors&) = delete;

  // Another boot: what the sensors before remember of counters is of no use. Those are let go as by the destructor.
  void replace(std::vector<std::unique_ptr<Sensor>> sensors);
  // Finds what hangs and gives its place to another thread. To be called about twice a second.
  void tick();
  // The kernel has just said something: look at everything soon, at most once a second.
  void ask_now();
  // Every sensor has answered or has been given up once.
  bool all_asked() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared() const;

  mutable std::mutex which_;  // guards the pointer alone
  std::shared_ptr<Shared> shared_;
};

// How a failure of one sensor colours the node's verdict: see docs/operators/agent.md, "When a sensor fails".
bool is_essential(std::string_view sensor);

}  // namespace homeostat::agent
