// One machine of the lab: its files, its zone, its beginning and its end.
#pragma once

#include <string>

#include "core/result.hpp"
#include "lab/config.hpp"
#include "lab/machine_book.hpp"
#include "lab/pki.hpp"
#include "lab/zone_spec.hpp"

namespace homeostat::lab {

std::string containerd_config(const LabConfig& config);
std::string cni_config(const LabConfig& config, int number);
std::string kubelet_config(const LabConfig& config, const MachineOrder& order);
ZoneSpec machine_spec(const LabConfig& config, const Machine& machine);

// Files, network, cgroup, and a zone that runs; what is there already is kept. template_root: the containerd root to
// clone.
Result<void> make_machine(const LabConfig& config, const Pki& pki, const Machine& machine,
                          const std::string& template_root);
bool machine_runs(const LabConfig& config, std::string_view name);
// Returns once every process of the machine is dead: milliseconds.
Result<void> fence_machine(const LabConfig& config, std::string_view name);
// After fence_machine: network, cgroup and files.
Result<void> clean_up_machine(const LabConfig& config, const Machine& machine);

}  // namespace homeostat::lab
