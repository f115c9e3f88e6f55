// Asks the accelerators how they are, on a thread of its own: a driver that hangs hangs the probe, never the agent, and
// then nobody can say.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/fault/verdict.hpp"
#include "core/result.hpp"
#include "core/time.hpp"
#include "io/nvml.hpp"

namespace homeostat::agent {

struct ProbeReport {
  fault::ProbeState state = fault::ProbeState::pending;
  std::string message;                     // why it failed
  std::optional<io::NvmlReading> reading;  // the last good one
  std::uint64_t rounds = 0;                // that have ended
};

// What a reading says about the node, given how many GPUs there should be. Component gpu-nvml.
std::vector<fault::Finding> findings_of(const io::NvmlReading& reading, int expected_gpus);

struct ProbeOptions {
  std::string nvml_path;      // "": the loader's
  bool gpus_expected = true;  // false: a missing library means that there is nothing to watch
  Duration interval{10'000};
  Duration patience{10'000};  // after which an unfinished probe counts as hanging
};

class Probe {
 public:
  using Load = std::function<Result<std::unique_ptr<io::Nvml>>(const std::string&)>;
  explicit Probe(ProbeOptions options, Load load = nullptr);  // null: io::load_nvml
  ~Probe();                                                   // does not wait for a probe that hangs

  ProbeReport latest() const;
  void ask_now();  // another round soon: the kernel has just said something
  void expect_gpus(bool expected);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace homeostat::agent
