// Drill: a fault that the platform team orders on one node (api/crds/drills.yaml), as the resource's JSON and a plain
// value. Decoding never fails: what is missing or of another type reads as empty. status.token is a secret: it is
// neither logged nor printed.
#pragma once

#include <boost/json/fwd.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.hpp"

namespace homeostat::api {

enum class DrillPhase { pending, armed, seen, done, refused, expired };

std::string_view to_string(DrillPhase phase);  // "Pending", …
std::optional<DrillPhase> parse_drill_phase(std::string_view text);
// Pending, Armed or Seen: it stands in the way of another drill on its node.
bool is_active(DrillPhase phase);

struct DrillLine {
  int level = 3;  // as printk's
  std::string text;
  bool operator==(const DrillLine&) const = default;
};

struct DrillStatus {
  DrillPhase phase = DrillPhase::pending;
  std::string token;  // while it is Armed or Seen
  std::string message;
  std::string device;                 // PCI address that spec.device stands for
  std::vector<std::string> findings;  // ids to expect, the telling one first
  std::vector<DrillLine> lines;       // what a real node's agent writes
  std::string repair;                 // that it led to
  std::optional<TimePoint> armed_at, expires_at, seen_at, finished_at;
  bool operator==(const DrillStatus&) const = default;
};

struct Drill {
  std::string name, uid, resource_version;
  TimePoint created_at{};
  std::string node, fault, device;  // spec
  bool allow_production = false;
  DrillStatus status;
};

Drill decode_drill(const boost::json::object& object);
boost::json::object encode_drill_spec(const Drill& drill);
boost::json::object encode_drill_status(const DrillStatus& status);

// The metadata, spec and status of a Drill that may be shown: without its token.
boost::json::object without_token(boost::json::object drill);

}  // namespace homeostat::api
