// Any bytes as a step report (a name, a line feed, a content): what is accepted keeps its promises.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/fault/step_report.hpp"
#include "io/step_files.hpp"

using namespace homeostat;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto end = bytes.find('\n');
  if (end == std::string_view::npos) return 0;
  const TimePoint now{Duration{1'800'000'000'000}};
  auto report = io::parse_step_report(bytes.substr(0, end), bytes.substr(end + 1), now);
  if (!report) {
    if (report.error().message.empty()) std::abort();
    return 0;
  }
  // Written so that a figure that is no number fails, too.
  if (!(report->step_s > 0 && report->step_s <= 86'400)) std::abort();
  if (!(report->compute_s >= 0 && report->compute_s <= report->step_s && report->wait_s >= 0)) std::abort();
  if (report->rank < 0 || report->step < 0 || report->updated_at > now) std::abort();
  if (report->job.empty() || report->job.find_first_not_of("0123456789") != std::string::npos) std::abort();
  if (report->group.size() > 64 || report->group.find_first_of("\"\\\n{} ") != std::string::npos) std::abort();
  report->alive = true;
  if (fault::gather_steps({&*report, 1}).size() != 1) std::abort();
  return 0;
}
