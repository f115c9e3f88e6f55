// The controller's figures in Prometheus' text form, taken from what the informers know.
#pragma once

#include <string>

#include "controller/world/plan_book.hpp"
#include "kube/store.hpp"

namespace homeostat::controller {

std::string render_metrics(const kube::Store& pools, const kube::Store& repairs, const PlanBook& book);

}  // namespace homeostat::controller
