// The small commands: each does one thing, prints it and gives an exit code.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "cli/context.hpp"

namespace homeostat::cli {

int show_status(Context& context, bool as_json);
int list_repairs(Context& context, bool as_json);
int show_repair(Context& context, const std::string& name, bool as_json);
// These two become another program and return only when that fails.
int open_ssh(Context& context, const std::vector<std::string>& command);
int run_kubectl(Context& context, const std::vector<std::string>& arguments);

// A record as people read it: fault, phases with their times, steps, jobs. Pure.
std::string describe_repair(const boost::json::object& repair);

}  // namespace homeostat::cli
