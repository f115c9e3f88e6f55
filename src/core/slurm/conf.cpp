#include "core/slurm/conf.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace homeostat::slurm {
namespace {

constexpr size_t max_line_bytes = 2'000;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct Refusal {
  std::string_view key;  // lower case
  std::string_view why;
};

constexpr std::string_view ours = "Homeostat sets it";
constexpr std::string_view from_spec = "it follows from the SlurmCluster's spec";

// What would break the cluster, and what to do instead.
constexpr std::array refusals = std::to_array<Refusal>({
    {"returntoservice",
     "a node that Homeostat set DOWN must stay down until it is replaced; any reply would undo it within a second"},
    {"killwait", "it is the grace of a heal: set spec.killWait_s"},
    {"jobrequeue", "a job that loses a node must come back by itself; jobs opt out with sbatch --no-requeue"},
    {"clustername", "it is the SlurmCluster's name, and slurmctld refuses its state under another one"},
    {"statesavelocation", "the state must lie on the controller's volume"},
    {"slurmdspooldir", ours},
    {"slurmctldhost", from_spec},
    {"slurmctldaddr", from_spec},
    {"controlmachine", from_spec},
    {"controladdr", from_spec},
    {"backupcontroller", "one slurmctld runs in a StatefulSet, which brings it back"},
    {"slurmctldport", "the Services and pods expect 6817"},
    {"slurmdport", "the pods expect 6818"},
    {"slurmuser", "the images have user slurm for it"},
    {"slurmduser", "slurmd starts jobs as their users, so it is root in its pod"},
    {"authtype", "the keys in the cluster's Secret are of auth/slurm"},
    {"authinfo", ours},
    {"authalttypes", "Homeostat speaks to slurmrestd with auth/jwt"},
    {"authaltparameters", "the key is in the cluster's Secret"},
    {"credtype", "the keys in the cluster's Secret are of cred/slurm"},
    {"nodename", "workers register by themselves: add them in spec.workers"},
    {"nodeset", "add worker groups in spec.workers"},
    {"downnodes", "set states with scontrol, or let Homeostat do it"},
    {"maxnodecount", ours},
    {"treewidth", ours},
    {"grestypes", "it follows from gpusPerNode in spec.workers"},
    {"selecttype", "dynamic nodes need select/cons_tres"},
    {"slurmctldparameters", "workers need enable_configless and cloud_reg_addrs"},
    {"prolog", "Homeostat's own runs there"},
    {"prologflags", "they must fit Homeostat's prolog"},
    {"proctracktype", "it must fit what the worker pods may do"},
    {"taskplugin", "it must fit what the worker pods may do"},
    {"include", "one ConfigMap holds all that slurmctld reads"},
    {"plugstackconfig", ours},
    {"slurmctldpidfile", ours},
    {"slurmdpidfile", ours},
});

std::string_view key_of(std::string_view line) { return trimmed(line.substr(0, line.find_first_of("= \t"))); }

void refuse_line(std::string_view line, std::vector<std::string>& out) {
  const auto text = trimmed(line);
  if (text.empty() || text.front() == '#') return;
  const auto shown = "\"" + std::string(text.substr(0, 80)) + "\"";
  if (text.size() > max_line_bytes || text.find_first_of("\r\n") != std::string_view::npos) {
    out.push_back("config line " + shown + " is refused: one setting a line, of at most 2000 characters.");
    return;
  }
  const auto key = lower(key_of(text));
  if (text.find('=') == std::string_view::npos && key != "include") {
    out.push_back("config line " + shown + " is refused: write it as Key=value.");
    return;
  }
  for (const auto& refusal : refusals)
    if (key == refusal.key) out.push_back("config line " + shown + " is refused: " + std::string(refusal.why) + ".");
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : std::string(between)) + word;
  return out;
}

int gpus_of(const ConfSpec& spec) {
  int most = 0;
  for (const auto& group : spec.workers) most = std::max(most, group.gpus_per_node);
  return most;
}

std::vector<std::string> faults_of(const ConfSpec& spec) {
  auto faults = refuse_user_lines(spec.user_lines);
  for (const auto& group : spec.workers)
    if (group.gpus_per_node != 0 && group.gpus_per_node != gpus_of(spec))
      faults.push_back("worker group " + group.name + " has " + std::to_string(group.gpus_per_node) +
                       " GPUs per node and another " + std::to_string(gpus_of(spec)) +
                       "; give every group the same number or none.");
  for (const auto& partition : spec.partitions)
    for (const auto& name : partition.workers)
      if (std::none_of(spec.workers.begin(), spec.workers.end(), [&](const auto& group) { return group.name == name; }))
        faults.push_back("partition " + partition.name + " names workers \"" + name +
                         "\", which spec.workers does not have.");
  return faults;
}

// Settings in the user's lines win over these: they are taste, not what the cluster stands on.
struct Setting {
  std::string key;
  std::string value;
};

std::vector<Setting> defaults_of(const ConfSpec& spec) {
  return {
      {"SelectTypeParameters", "CR_Core"},
      // Short cycles: a job that became eligible, or a node that came, is looked at within a second or so.
      {"SchedulerType", "sched/backfill"},
      {"SchedulerParameters", "nohold_on_prolog_fail,sched_interval=5,bf_interval=5"},
      {"JobAcctGatherType", spec.cgroups ? "jobacct_gather/cgroup" : "jobacct_gather/linux"},
      {"JobFileAppend", "1"},  // a requeued job goes on in its output file
      {"MpiDefault", "none"},
      {"UnkillableStepTimeout", std::to_string(std::max(180, spec.kill_wait_s))},
      {"SlurmctldTimeout", "120"},
      {"SlurmdTimeout", "120"},
      {"MessageTimeout", "20"},
      {"TCPTimeout", "5"},
      {"BatchStartTimeout", "30"},
      {"InactiveLimit", "0"},
      {"MinJobAge", "600"},
      {"LaunchParameters", "use_interactive_step"},
      {"SlurmctldDebug", "info"},
      {"SlurmdDebug", "info"},
  };
}

std::string render_slurm_conf(const ConfSpec& spec) {
  std::string out =
      "# Rendered by Homeostat from the SlurmCluster; edit that instead.\n"
      "ClusterName=" +
      spec.cluster_name +
      "\n"
      "SlurmctldHost=" +
      spec.controller_host + "(" + spec.controller_address +
      ")\n"
      "SlurmUser=slurm\n"
      "SlurmdUser=root\n"
      "SlurmctldPort=6817\n"
      "SlurmdPort=6818\n"
      "StateSaveLocation=/var/spool/slurmctld\n"
      "SlurmdSpoolDir=/var/spool/slurmd\n"
      "SlurmctldPidFile=/run/slurmctld/slurmctld.pid\n"
      "SlurmdPidFile=/run/slurmd.pid\n"
      "\n# Keys come from a Secret; users' names and ids travel with the credentials.\n"
      "AuthType=auth/slurm\n"
      "CredType=cred/slurm\n"
      "AuthInfo=use_client_ids,cred_expire=120\n"
      "AuthAltTypes=auth/jwt\n"
      "AuthAltParameters=jwt_key=/etc/slurm-keys/jwt.key\n"
      "\n# Workers register by themselves under their Kubernetes node's name and take their configuration from "
      "slurmctld.\n"
      "SlurmctldParameters=enable_configless,cloud_reg_addrs,idle_on_node_suspend\n"
      "CommunicationParameters=NoAddrCache\n"
      "MaxNodeCount=" +
      std::to_string(spec.max_nodes) +
      "\n"
      "TreeWidth=" +
      std::to_string(spec.max_nodes) +
      "\n"
      "SelectType=select/cons_tres\n"
      "\n# What a heal stands on: DOWN stays down, every process has the grace, and the job comes back by itself.\n"
      "KillWait=" +
      std::to_string(spec.kill_wait_s) +
      "\n"
      "ReturnToService=0\n"
      "JobRequeue=1\n"
      "Prolog=/usr/lib/homeostat/job-hosts\n";
  if (spec.cgroups)
    out += "PrologFlags=Alloc,Contain\nProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup,task/affinity\n";
  else
    out += "PrologFlags=Alloc\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n";
  if (gpus_of(spec) > 0) out += "GresTypes=gpu\n";
  out += "\n";
  for (const auto& setting : defaults_of(spec)) {
    const bool replaced = std::any_of(spec.user_lines.begin(), spec.user_lines.end(), [&](const std::string& line) {
      return lower(key_of(trimmed(line))) == lower(setting.key);
    });
    if (!replaced) out += setting.key + "=" + setting.value + "\n";
  }
  out += "\n";
  for (const auto& group : spec.workers) out += "NodeSet=" + group.name + " Feature=" + group.name + "\n";
  for (const auto& partition : spec.partitions)
    out += "PartitionName=" + partition.name + " Nodes=" + joined(partition.workers, ",") +
           " Default=" + (partition.is_default ? "YES" : "NO") +
           " MaxTime=" + (partition.max_time.empty() ? "UNLIMITED" : partition.max_time) + " State=UP\n";
  if (!spec.user_lines.empty()) out += "\n# From spec.config.\n";
  for (const auto& line : spec.user_lines) out += std::string(trimmed(line)) + "\n";
  return out;
}

std::string render_gres_conf(const ConfSpec& spec) {
  const int gpus = gpus_of(spec);
  if (gpus == 0) return "# No worker group has GPUs.\n";
  const auto range = gpus == 1 ? std::string("0") : "[0-" + std::to_string(gpus - 1) + "]";
  return "# A machine's GPUs are its device nodes; slurmd refuses to start where one is missing.\nName=gpu "
         "File=/dev/nvidia" +
         range + "\n";
}

std::string render_cgroup_conf(const ConfSpec& spec) {
  if (!spec.cgroups) return "# The pods' cgroups are read-only here.\nCgroupPlugin=disabled\n";
  return "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainCores=yes\nConstrainRAMSpace=yes\nConstrainDevices=yes\n";
}

}  // namespace

std::map<std::string, std::string> RenderedConf::files() const {
  return {{"slurm.conf", slurm_conf},
          {"gres.conf", gres_conf},
          {"cgroup.conf", cgroup_conf},
          {"plugstack.conf", plugstack_conf}};
}

std::vector<std::string> refuse_user_lines(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (const auto& line : lines) refuse_line(line, out);
  return out;
}

Result<RenderedConf> render_conf(const ConfSpec& spec) {
  if (const auto faults = faults_of(spec); !faults.empty()) return fail(ErrorKind::invalid, joined(faults, " "));
  return RenderedConf{.slurm_conf = render_slurm_conf(spec),
                      .gres_conf = render_gres_conf(spec),
                      .cgroup_conf = render_cgroup_conf(spec),
                      .plugstack_conf = "# No SPANK plugins.\n"};
}

}  // namespace homeostat::slurm
