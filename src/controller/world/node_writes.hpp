// Changes to Node objects, each as a compare-and-swap against the node as it was just read: nothing is ever written to
// a node of the same name that is another one, and nobody else's change is overwritten.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "core/result.hpp"
#include "kube/client.hpp"

namespace homeostat::controller {

// `change` gets the live node and gives a merge patch, or nothing when there is nothing to change. conflict: another
// uid.
Result<void> change_node(kube::Client& client, std::string_view name, std::string_view uid,
                         const std::function<Result<std::optional<kube::Object>>(const kube::Object&)>& change);

// Takes the spare taint off, sets the workers label ("" leaves it) and writes down for whom. conflict: someone else has
// promoted it.
Result<void> promote_node(kube::Client& client, std::string_view name, std::string_view uid, std::string_view workers,
                          std::string_view promoted_for);

Result<void> cordon_node(kube::Client& client, std::string_view name, std::string_view uid, std::string_view repair);
Result<void> remove_workers_label(kube::Client& client, std::string_view name, std::string_view uid);
Result<void> set_workers_label(kube::Client& client, std::string_view name, std::string_view uid,
                               std::string_view workers);
Result<void> annotate_machine_token(kube::Client& client, std::string_view name, std::string_view uid,
                                    std::string_view token);

}  // namespace homeostat::controller
