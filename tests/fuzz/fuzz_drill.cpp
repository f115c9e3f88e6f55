// Any bytes as what a process writes into the kernel log while drills are armed, and as a fault that is ordered:
// nothing crashes, nothing is taken that was not planned and proved.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/drill.hpp"

using namespace homeostat;
using namespace homeostat::fault;

namespace {

constexpr std::string_view token = "0123456789abcdef0123456789abcdef";
constexpr TimePoint now{Duration{1'000'000}};

void require(bool good) {
  if (!good) std::abort();
}

std::vector<ArmedDrill> held() {
  static const auto plan = *plan_drill(*parse_drill("xid=79"), {"0000:17:00", "GPU-u"});
  ArmedDrill drill{"d", std::string(token), {}, plan.findings, now + Duration(1), {}};
  for (const auto& line : plan.lines) drill.lines.push_back(line.text);
  return {drill, {"never armed", "", drill.lines, {}, now + Duration(1), {}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto drills = held();
  const auto verdict = judge_user_line(bytes, drills, now);
  if (verdict.what == UserLine::drill) {
    std::string whole(drill_marker);
    whole.append(token).append(" ").append(verdict.line);
    require(bytes == whole);
    require(std::find(drills[0].lines.begin(), drills[0].lines.end(), verdict.line) != drills[0].lines.end());
  }
  require((verdict.what == UserLine::drill) != verdict.line.empty());
  const auto fault = parse_drill(bytes);
  if (!fault) return 0;
  require(parse_drill(to_text(*fault)) == *fault);
  const auto plan = plan_drill(*fault, {"0000:17:00", "GPU-u", true});
  require(!plan || plan->lines.size() <= max_drill_lines);
  return 0;
}
