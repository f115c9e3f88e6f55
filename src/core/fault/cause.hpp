// What a finding is in the chain of causes: its family, how deep it lies, and which findings belong to one fault.
// Facts about devices that a text cannot tell (which PCI port leads to which GPU) come in as Topology; without them
// nothing is guessed. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

// Which PCI ports lie between a device and its root: device without function ("0000:17:00"), port with its function
// ("0000:16:00.0").
struct Topology {
  std::vector<std::pair<std::string, std::string>> above;
  bool leads_to(std::string_view port, std::string_view device) const;
};

enum class Family {
  other,     // stands alone
  power,     // a GPU lacks its supply
  bus,       // a GPU does not answer on the bus any more
  pcie,      // errors of the bus itself
  memory,    // of a GPU
  core,      // firmware, power controller or scheduler of a GPU has stopped
  nvlink,    // a GPU's links
  fabric,    // NVSwitch, fabric manager
  program,   // an exception that a program has caused, or met
  recovery,  // what the driver asks for or does about another fault
  teardown,  // what is torn down after any other fault
  counter,   // a state of a GPU beside its faults: heat, clocks, width
  nic,
  disk,
  filesystem,
  network_storage,
  host_memory,
  kernel,
  oom,
};

struct Cause {
  Family family = Family::other;
  int depth = 100;            // the smallest of an incident is its root
  bool after_effect = false;  // never raises an incident
  bool victim_kind = false;   // what a healthy GPU reports of somebody else's link
};

Cause cause_of(const Finding& finding);
bool is_of_gpu(Family family);

// The same physical device whatever its spelling: without function, with or without domain.
bool same_pci_device(std::string_view a, std::string_view b);

// How far apart two findings may be and still be companions.
constexpr Duration companion_window{3'000};

// One occurrence of a finding, as causes see it.
struct Occurrence {
  const Finding* finding = nullptr;
  std::string_view device;  // by its PCI address also where the finding names it otherwise
  Cause cause;
  TimePoint at{};
};

bool is_grave(const Occurrence& o);  // error or fatal
// It takes down what hangs on the GPU: its links, its peers' programs.
bool gpu_has_died(const Occurrence& o);

// It belongs to one fault at most and joins no two: an after-effect, or a line that names no device.
bool attaches_to_one(const Occurrence& o);
// Does `effect` say that `cause` is its cause?
bool names_cause(const Occurrence& cause, const Occurrence& effect);

// Seen within the window, are they of one fault? Symmetric; says nothing of time.
bool are_companions(const Occurrence& a, const Occurrence& b, const Topology& topology);
// Is `effect` what `cause` leads to, or a later sight of it, though it comes long after? Looks at the time between.
bool leads_later(const Occurrence& cause, const Occurrence& effect, const Topology& topology);

}  // namespace homeostat::fault
