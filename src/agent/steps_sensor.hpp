// How fast the jobs on this node step, where their training scripts say so (docs/users/step-times.md). It finds no
// fault: one node alone cannot tell that it is the slow one. The controller compares (controller/straggler).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/sensor.hpp"

namespace homeostat::agent {

inline constexpr const char* default_step_folder = "/run/homeostat/steps";

// Makes the folder if it can (mode 1777), and is absent where there is none.
std::unique_ptr<Sensor> make_steps_sensor(std::string folder = default_step_folder);

// Adds what NVML's samples say of the GPUs meanwhile: the lowest SM clock of those that are busy, and how busy they
// are.
void add_gpu_figures(std::vector<api::JobPerformance>& performance, std::span<const Sample> nvml_samples);

}  // namespace homeostat::agent
