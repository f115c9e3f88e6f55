// Where a lab lives and what it is called. One folder (the state) holds everything that it knows; lab.json in it holds
// this.
#pragma once

#include <string>
#include <string_view>

#include "core/result.hpp"
#include "lab/address_plan.hpp"

namespace homeostat::lab {

struct LabConfig {
  std::string state;            // absolute
  std::string instance = "hl";  // prefix of bridge and namespaces: a second lab on one machine needs another
  RangeTexts ranges;
  std::string kubernetes;  // folder with kube and coredns
  std::string images;      // folder with docker-archives (*.tar)
  std::string cache;       // where the image templates are kept
  std::string nvml;        // the fake libnvidia-ml.so.1; "" when it was not built
  std::string program;     // this program: what the zones' first processes run

  AddressPlan plan;  // made of ranges

  std::string bridge() const { return instance + "0"; }
  std::string netns(std::string_view zone) const { return "/run/netns/" + netns_name(zone); }
  std::string netns_name(std::string_view zone) const { return instance + "-" + std::string(zone); }
  std::string cgroup(std::string_view zone) const {
    return "/lab-" + (instance == "hl" ? std::string() : instance + "-") + std::string(zone);
  }
  std::string path(std::string_view below) const { return state + "/" + std::string(below); }
  std::string machine(std::string_view name) const { return state + "/machines/" + std::string(name); }
  std::string record(std::string_view zone) const { return state + "/zones/" + std::string(zone) + ".json"; }
  std::string tool(std::string_view name) const { return state + "/bin/" + std::string(name); }
};

inline constexpr std::string_view control_plane_zone = "control-plane";
inline constexpr int api_port = 6443, provider_port = 7443;

std::string default_state();  // ${HOMEOSTAT_STATE:-/var/lib/homeostat/lab}
std::string default_cache();  // ${HOMEOSTAT_CACHE:-/var/cache/homeostat}

Result<void> save_config(const LabConfig& config);
// not_found: there is no lab in that folder.
Result<LabConfig> load_config(const std::string& state);

}  // namespace homeostat::lab
