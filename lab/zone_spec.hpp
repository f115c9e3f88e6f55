// What one zone is: its namespaces, mounts, devices and programs, as a file that `homeostat-lab zone-init` reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace homeostat::lab {

struct ZoneProgram {
  std::string name;
  std::vector<std::string> argv = {};
  std::vector<std::string> env = {};  // NAME=value, beside PATH and HOME
  std::string wait_for = {};          // started once this path exists (or after 30 s, so that its own error is seen)
};

// Done in the order given. tmpfs: source is unused. bind: source is a file or folder of the host.
struct ZoneMount {
  enum class Kind { tmpfs, bind } kind = Kind::bind;
  std::string source;
  std::string target;  // made when it is missing
  bool read_only = false;
};

struct ZoneDevice {  // character device of the zone's own /dev
  std::string name;
  unsigned major = 0, minor = 0;
};

struct ZoneSpec {
  std::string name = {};
  std::string netns = {};  // path under /run/netns; "": the host's network
  std::string cgroup =
      {};  // "/lab-x": the zone's own processes run in its child "system"; "": stay where the caller is
  std::string record = {};  // file that will hold the first process's pid and start time
  std::string folder = {};  // logs go to folder/log, the status to folder/status.json
  bool own_dev = false;     // a private /dev with the standard nodes and `devices`
  std::vector<ZoneMount> mounts = {};
  std::vector<ZoneDevice> devices = {};
  std::vector<ZoneProgram> programs = {};
};

std::string to_json(const ZoneSpec& spec);
Result<ZoneSpec> parse_zone_spec(std::string_view text);

// Start of the next try after a program ended: soon at first, at most every 5 s; a run of 10 s or more forgets the
// past.
int next_backoff_ms(int last_backoff_ms, long long ran_ms);

}  // namespace homeostat::lab
