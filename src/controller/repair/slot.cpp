#include "controller/repair/slot.hpp"

#include <boost/json/value.hpp>

#include "core/names.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::controller {

namespace {
constexpr Duration claim_lasts{30'000};
}

Result<Slot> read_slot(kube::Client& client, const std::string& pool) {
  auto object = client.get(kube::resources::node_pools, "", pool);
  if (!object) return std::unexpected(object.error());
  Slot slot{pool, kube::resource_version_of(*object), "", {}};
  std::string claim = kube::annotation_of(*object, names::opening_annotation);
  auto at = claim.find('@');
  if (at == std::string::npos) return slot;
  slot.claimed_by = claim.substr(0, at);
  slot.claimed_at = parse_rfc3339(claim.substr(at + 1)).value_or(TimePoint{});
  return slot;
}

bool slot_is_taken(const Slot& slot, const std::string& repair, bool visible, TimePoint now) {
  if (slot.claimed_by.empty() || slot.claimed_by == repair || visible) return false;
  return std::chrono::abs(now - slot.claimed_at) <= claim_lasts;
}

Result<void> take_slot(kube::Client& client, const Slot& slot, const std::string& repair, TimePoint now) {
  // Taken before a crash, or before a create that failed; renewed in time.
  if (slot.claimed_by == repair && std::chrono::abs(now - slot.claimed_at) <= claim_lasts / 2) return {};
  kube::Object patch;
  io::set_at(patch, {"metadata", "resourceVersion"}, boost::json::value(slot.resource_version));
  io::set_at(patch, {"metadata", "annotations", names::opening_annotation},
             boost::json::value(repair + "@" + format_rfc3339(now)));
  auto written = client.patch(kube::resources::node_pools, "", slot.pool, kube::PatchType::merge, patch);
  if (!written) return std::unexpected(written.error());
  return {};
}

}  // namespace homeostat::controller
