// slurm.conf, gres.conf, cgroup.conf and plugstack.conf from a plain description, and which lines of a user's may be
// added. Pure: the same spec gives the same bytes, so a hash of them says whether anything changed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace homeostat::slurm {

struct ConfWorkers {
  std::string name = {};  // the NodeSet, chosen by the feature of that name
  int gpus_per_node = 0;
};

struct ConfPartition {
  std::string name = {};
  std::vector<std::string> workers = {};
  bool is_default = false;
  std::string max_time = {};  // Slurm's format; "": without limit
};

struct ConfSpec {
  std::string cluster_name = {};
  std::string controller_host = {};     // slurmctld's own host name
  std::string controller_address = {};  // how everyone reaches it
  std::vector<ConfWorkers> workers = {};
  std::vector<ConfPartition> partitions = {};
  std::vector<std::string> user_lines = {};
  int kill_wait_s = 120;
  int max_nodes = 1024;
  bool cgroups = true;  // false: pods whose cgroups are read-only (the lab)
};

struct RenderedConf {
  std::string slurm_conf = {};
  std::string gres_conf = {};
  std::string cgroup_conf = {};
  std::string plugstack_conf = {};

  std::map<std::string, std::string> files() const;  // by file name
};

// invalid: a partition names workers that do not exist, GPU counts differ, or a user line is refused; the message has
// all reasons.
Result<RenderedConf> render_conf(const ConfSpec& spec);

// Why each line may not be added, as sentences; empty when all may.
std::vector<std::string> refuse_user_lines(const std::vector<std::string>& lines);

}  // namespace homeostat::slurm
