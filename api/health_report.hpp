// What the agent's ledger becomes in a NodeHealth: findings with their class, incident and role, within a size that the
// API server takes. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>

#include "api/node_health.hpp"
#include "core/fault/incident.hpp"
#include "core/fault/ledger.hpp"
#include "core/fault/verdict.hpp"

namespace homeostat::api {

// Sets findings, incidents and how many incidents were left out. `incidents` are those of `entries`.
void fill_findings(NodeHealthStatus& status, std::span<const fault::LedgerEntry> entries,
                   const fault::IncidentSet& incidents, std::span<const fault::PolicyRule> rules);

constexpr size_t max_status_bytes = 61'440;  // etcd takes 1.5 MiB, but thousands of nodes write this

// Makes the status' JSON no longer than that: long texts are cut first, then the mildest findings go and are counted in
// dropped_findings. Returns its length.
size_t fit_status(NodeHealthStatus& status, size_t max_bytes = max_status_bytes);

}  // namespace homeostat::api
