// Any bytes as an out-of-memory record and as the path of a control group: what is named is well formed.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/fault/oom.hpp"
#include "core/fault/text.hpp"

using namespace homeostat::fault;

namespace {

void require(bool good) {
  if (!good) std::abort();
}

void check(const CgroupOwner& owner) {
  require(owner.pod_uid.empty() || owner.pod_uid.size() == 32 || owner.pod_uid.size() == 36);
  for (char c : owner.pod_uid) require(is_digit(c) || (c >= 'a' && c <= 'f') || c == '-');
  require(owner.slurm_job.size() <= 18);
  for (char c : owner.slurm_job) require(is_digit(c));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(cgroup_owner(text));
  static_cast<void>(killed_pid(text));
  if (const auto record = parse_oom_record(text)) {
    check({record->finding.pod_uid, record->finding.slurm_job});
    require(record->finding.component == "oom" && record->finding.device.size() <= 64);
  }
  return 0;
}
