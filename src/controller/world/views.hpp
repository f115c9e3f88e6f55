// Kubernetes, Slurm and provider objects as the plain values that core/repair decides on. Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "api/health_policy.hpp"
#include "api/node_health.hpp"
#include "core/repair/plan.hpp"
#include "core/repair/step.hpp"
#include "kube/client.hpp"
#include "provider/provider.hpp"
#include "slurm/client.hpp"

namespace homeostat::controller {

repair::NodeView view_node(const kube::Object& node);
repair::HealthView view_health(const api::NodeHealth& health);
repair::PodView view_pod(const kube::Object& pod, std::string_view opt_out_label);
repair::SlurmNodeView view_slurm_node(const slurm::Node& node);
std::vector<repair::JobView> view_jobs(const std::vector<slurm::Job>& jobs);
repair::MachineView view_machine(const provider::Machine& machine);
repair::Policy view_policy(const api::HealthPolicy& policy);
// What the agent has found, each with what the policy says about it.
std::vector<repair::Finding> view_findings(const api::NodeHealth& health, const api::HealthPolicy& policy);
std::vector<repair::Incident> view_incidents(const api::NodeHealth& health);
std::vector<repair::NodeCondition> view_conditions(const kube::Object& node);
// What is in the two objects; what else knows the node is still to be asked. health nullptr: it has none.
repair::NodeSight view_sight(const kube::Object& node, const api::NodeHealth* health);

// Ready, not cordoned, healthy and with all its GPUs: fit to take jobs.
bool is_fit(const repair::NodeView& node, const repair::HealthView& health, int gpus_per_node);

}  // namespace homeostat::controller
