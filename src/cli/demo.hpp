// `homeostat demo`: the first heal before your eyes. Brings the lab up where needed, leaves it up.
#pragma once

#include "cli/context.hpp"

namespace homeostat::cli {

struct DemoOptions {
  int heals = 1;
  bool as_json = false;  // the figures on stdout, nothing else
};

int demo(Context& context, const DemoOptions& options);

}  // namespace homeostat::cli
