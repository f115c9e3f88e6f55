// The command line of `homeostat-agent run`.
#pragma once

#include <span>
#include <string_view>

#include "agent/run.hpp"
#include "core/result.hpp"

namespace homeostat::agent {

// "--name=value" and "--name value". Errors (kind invalid) are sentences that say what to write.
Result<RunOptions> parse_run_options(std::span<const std::string_view> arguments);

}  // namespace homeostat::agent
