// Carries out one effect of a repair. Each is harmless when it happens twice and refuses to touch what is not the
// repair's own.
#pragma once

#include "controller/notify/notifier.hpp"
#include "controller/repair/observe.hpp"
#include "core/repair/step.hpp"

namespace homeostat::controller {

Result<void> act(Session& session, Notifications& notifications, const repair::Effect& effect,
                 const repair::Record& record, const RepairContext& context,
                 const std::vector<api::WebhookTarget>& targets);

}  // namespace homeostat::controller
