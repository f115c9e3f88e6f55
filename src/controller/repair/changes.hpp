// Which changes of a watched object are worth a look at the node: heartbeats are not. Pure functions.
#pragma once

#include "kube/store.hpp"

namespace homeostat::controller {

// Verdict, boot, findings with their class and role, incidents; also a resync (old and now are the same).
bool health_has_news(const kube::ObjectPtr& old, const kube::ObjectPtr& now);
// Conditions without their heartbeats, cordon, labels of ours, boot; also a resync.
bool node_has_news(const kube::ObjectPtr& old, const kube::ObjectPtr& now);
// Of a NodePool or HealthPolicy: its spec, not its status. A resync is none.
bool rules_have_news(const kube::ObjectPtr& old, const kube::ObjectPtr& now);

}  // namespace homeostat::controller
