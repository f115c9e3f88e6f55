// The lab's wires: one bridge on the host, and for each zone a namespace with one leg on it. The host's iptables, ports
// and settings stay as they are; three routes lead from the host to pods, services and load balancers through the
// control plane.
#pragma once

#include <string>
#include <vector>

#include "core/result.hpp"
#include "lab/config.hpp"

namespace homeostat::lab {

// Sentences about what is in the way: ranges in use, a bridge of another lab. Empty: go ahead.
Result<std::vector<std::string>> network_obstacles(const LabConfig& config);

Result<void> make_bridge(const LabConfig& config);  // idempotent
void remove_bridge(const LabConfig& config);        // and with it the routes
bool bridge_exists(const LabConfig& config);

// number: last part of the zone's address (2 for the control plane). Replaces what is left of an earlier one.
Result<void> connect_zone(const LabConfig& config, std::string_view zone, int number);
void disconnect_zone(const LabConfig& config, std::string_view zone, int number);

}  // namespace homeostat::lab
