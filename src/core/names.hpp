// One thing has one name: every label, taint, annotation, condition and prefix that Homeostat writes where others can
// see it.
#pragma once

#include <string_view>

namespace homeostat::names {

inline constexpr std::string_view group = "homeostat.dev";
inline constexpr std::string_view version = "v1alpha1";
inline constexpr std::string_view api_version = "homeostat.dev/v1alpha1";
inline constexpr std::string_view system_namespace = "homeostat-system";

// Node labels.
inline constexpr std::string_view pool_label = "homeostat.dev/pool";  // NodePool that the machine belongs to
inline constexpr std::string_view workers_label =
    "homeostat.dev/workers";  // the switch: "<namespace>.<cluster>.<worker group>"
// Node taint of a warm spare, effect NoSchedule; also what says that a node is a spare.
inline constexpr std::string_view spare_taint = "homeostat.dev/spare";
// Node annotations.
inline constexpr std::string_view cordoned_by_annotation =
    "homeostat.dev/cordoned-by";  // name of the Repair that cordoned
inline constexpr std::string_view machine_token_annotation =
    "homeostat.dev/machine-token";  // provider's idempotency token
inline constexpr std::string_view promoted_for_annotation =
    "homeostat.dev/promoted-for";  // Repair that took the spare, or "pool"
// NodePool label: "true" marks a production pool, "false" one that drills may strike. Without it, a pool of real
// machines counts as production and one of the lab does not.
inline constexpr std::string_view production_label = "homeostat.dev/production";
// NodeHealth annotation: the Drill that the node's agent holds ready, so that whoever breaks something knows that it
// will be taken for a drill.
inline constexpr std::string_view drill_annotation = "homeostat.dev/drill";
// NodeHealth annotation: "kernel-log" where the node's agent writes a drill's lines itself. Without it only fake
// hardware can fail there.
inline constexpr std::string_view drills_by_annotation = "homeostat.dev/drills-by";
inline constexpr std::string_view drills_by_kernel_log = "kernel-log";
// NodePool annotation "<repair>@<time>": the repair that is being opened (controller/repair/slot).
inline constexpr std::string_view opening_annotation = "homeostat.dev/opening";
// Pod label that forbids automatic replacement of the pod's node when its value is "true".
inline constexpr std::string_view no_replace_label = "homeostat.dev/no-replace";
// Labels of objects that a SlurmCluster owns.
inline constexpr std::string_view cluster_label = "homeostat.dev/cluster";
inline constexpr std::string_view component_label = "homeostat.dev/component";        // controller, rest, login, worker
inline constexpr std::string_view worker_group_label = "homeostat.dev/worker-group";  // of a worker's pod

// Node condition: True healthy, False sick, Unknown when nobody can say.
inline constexpr std::string_view accelerator_condition = "AcceleratorHealthy";
// Node condition: True when the node holds its job up, by what the job's nodes report of their steps.
inline constexpr std::string_view slow_condition = "AcceleratorSlow";

// Every reason that we write into Slurm begins with this; a state without it was set by someone else and is left alone.
inline constexpr std::string_view reason_prefix = "homeostat:";

// Field managers for server-side apply, one per writer.
inline constexpr std::string_view agent_manager = "homeostat-agent";
inline constexpr std::string_view controller_manager = "homeostat-controller";
inline constexpr std::string_view straggler_manager = "homeostat-straggler";

}  // namespace homeostat::names
