// The command lines of `homeostat-agent`. Errors (kind invalid) are sentences that say what to write.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "agent/check.hpp"
#include "agent/run.hpp"
#include "core/result.hpp"

namespace homeostat::agent {

// "--name=value" and "--name value".
Result<RunOptions> parse_run_options(std::span<const std::string_view> arguments);
Result<CheckOptions> parse_check_options(std::span<const std::string_view> arguments);

struct ExplainOptions {
  std::string code;
  bool json = false;
};
Result<ExplainOptions> parse_explain_options(std::span<const std::string_view> arguments);

}  // namespace homeostat::agent
