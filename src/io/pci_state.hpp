// Whether a PCI function is there, and whether a driver has it.
#pragma once

#include <string>

#include "io/sysfs.hpp"

namespace homeostat::io {

struct PciState {
  bool there = false, bound = false;
};

inline PciState pci_state(SysTree& tree, const std::string& address) {
  PciState state;
  if (address.empty()) return state;
  const auto folder = tree.open("bus/pci/devices/" + address);
  state.there = static_cast<bool>(folder);
  state.bound = state.there && !tree.link(folder, "driver").empty();
  return state;
}

}  // namespace homeostat::io
