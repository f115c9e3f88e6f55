// What a code means, what is done about it and why, for people: `homeostat-agent explain CODE`. Pure; reads the
// catalogue only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"

namespace homeostat::fault {

struct Explanation {
  std::string component, code;  // as a finding of it names them: "nvlink", "149/NETIR_LINK_EVT"
  std::string name;             // the vendor's own name; "" when there is none
  std::string title;            // one sentence
  Severity severity = Severity::none;
  RepairClass repair_class = RepairClass::watch;
  bool at_once = false;                // acts without waiting for companion lines
  std::string action, action_meaning;  // the catalogue's word and its sentence; "" when nobody has published one
  std::string why;                     // the reason of our decision; "" when nobody disagrees
  std::string repeat;                  // a sentence; "" when repetition changes nothing
  std::vector<std::string> details;    // how the line is decoded, models, exceptions
  std::vector<std::string> published;  // "EKS: fatal"
  std::vector<std::string> related;    // codes that can be explained in turn
  std::string source;
};

// Accepts what people type: "79", "xid 79", "XID79", "sxid 12028", "154/0x2", "149/NETIR_LINK_EVT", "RAS_UE",
// "RAS_UE/umc", "nic/LINK_DOWN", "gpu-xid 79". The class is that of the catalogue with the default policy. nullopt:
// not known.
std::optional<Explanation> explain(std::string_view code);

// Several lines of plain text, each at most about 100 characters where words allow it; ends with a newline.
std::string render(const Explanation& explanation);

// Up to five codes that look like what was typed, the likeliest first.
std::vector<std::string> suggestions(std::string_view code);

}  // namespace homeostat::fault
