// `homeostat up` and `down`: the lab, Homeostat's manifests and examples/cluster.yaml, in that order; harmless when all
// is there.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/context.hpp"
#include "core/result.hpp"

namespace homeostat::cli {

// Manifests as the lab needs them: the agent's of deploy/lab in place of the one for real machines, and the image's id
// on the pod templates, so that a newly built image rolls them. Pure.
void tailor_images(std::vector<boost::json::object>& objects, std::string_view image_id);
// The breaker is for many machines that break by themselves; the lab's are broken on purpose, one after the other.
// Pure.
void tailor_policy(std::vector<boost::json::object>& objects);
// Adds the key to each SlurmCluster's spec.login.authorizedKeys. Pure.
void add_login_key(std::vector<boost::json::object>& objects, const std::string& public_key);

struct UpOptions {
  bool wait = true;  // until pool and Slurm are ready
};

// Exit code. Tells what it does with the time since the start.
int up(Context& context, const UpOptions& options, const Teller& teller);

// Until the pool has its nodes and its spare, and Slurm's login answers. What `up` ends with, and every heal.
Result<void> wait_until_whole(Context& context, const Teller& teller, Duration limit);

int down(const Places& places);

// homeostat-lab with these arguments; its output is the terminal's unless `quiet`. Its exit code, or 3 when it is not
// there.
int run_lab(const Places& places, const std::vector<std::string>& arguments, bool quiet = false);

// The address of the lab's host side, which pods can reach.
Result<std::string> lab_host_address(const Places& places);

}  // namespace homeostat::cli
