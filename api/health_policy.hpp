// HealthPolicy: what is done about faults, as data (api/crds/healthpolicies.yaml). Decoding never fails: what is
// missing has the schema's default, a rule that makes no sense is left out and told in `problems`.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "core/fault/verdict.hpp"
#include "core/repair/detectors.hpp"
#include "core/repair/plan.hpp"
#include "core/time.hpp"

namespace homeostat::api {

struct WebhookTarget {
  std::string url;
  std::string secret_namespace, secret_name;  // "" without a Secret
  bool operator==(const WebhookTarget&) const = default;
};

struct HealthPolicy {
  std::string name = "default";
  Duration grace{120'000};
  Duration drain_deadline{600'000};
  std::string opt_out_label = "homeostat.dev/no-replace";
  int max_concurrent = 2;
  int max_percent = 20;
  std::vector<fault::PolicyRule> rules;
  repair::DetectorPolicy detectors;  // conditions[], agentSilence_s, nodeSilence_s, startup_s
  fault::RepairClass reset_fallback = fault::RepairClass::watch;
  Duration reset_hold{60'000};
  repair::BreakerPolicy breaker;
  std::vector<WebhookTarget> notify;
  std::vector<std::string> problems;  // sentences
};

HealthPolicy decode_health_policy(const boost::json::object& object);
boost::json::object encode_health_policy_spec(const HealthPolicy& policy);

}  // namespace homeostat::api
