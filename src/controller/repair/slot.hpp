// The right to open one more repair in a pool, so that two controllers at once stay within one budget. The claim is an
// annotation of the NodePool, taken by compare-and-swap: whoever opens writes it first, and as long as the Repair that
// it names cannot be seen yet nobody else opens one. A claim whose writer died is void after 30 s.
//   read the slot -> list the repairs -> plan -> take the slot -> create the Repair
#pragma once

#include <string>

#include "core/result.hpp"
#include "core/time.hpp"
#include "kube/client.hpp"

namespace homeostat::controller {

struct Slot {
  std::string pool = {}, resource_version = {};
  std::string claimed_by = {};  // name of a Repair; "": nobody
  TimePoint claimed_at{};
};

Result<Slot> read_slot(kube::Client& client, const std::string& pool);

// True while another repair is being opened: `visible` says whether a Repair of that name was in the list that was read
// after the slot.
bool slot_is_taken(const Slot& slot, const std::string& repair, bool visible, TimePoint now);

// conflict: the NodePool has changed since; read again.
Result<void> take_slot(kube::Client& client, const Slot& slot, const std::string& repair, TimePoint now);

}  // namespace homeostat::controller
