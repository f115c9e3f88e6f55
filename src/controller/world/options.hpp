// The controller's command line.
#pragma once

#include <string>
#include <vector>

#include "core/result.hpp"

namespace homeostat::controller {

struct Options {
  std::string kubeconfig = {};  // "": the pod's own account, else $KUBECONFIG or ~/.kube/config
  bool leader_elect = true;
  std::string identity = {};  // "": $POD_NAME, else host and process id
  std::string http_address = "0.0.0.0";
  int http_port = 8080;  // /healthz and /metrics; 0: none
  bool debug = false;
};

extern const char* const usage;

// invalid: a sentence for people, followed by what is right.
Result<Options> parse_options(const std::vector<std::string>& args);

}  // namespace homeostat::controller
