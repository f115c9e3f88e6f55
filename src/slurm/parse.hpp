// slurmrestd's JSON to typed values, alike for data_parser v0.0.40 and up. Pure functions.
#pragma once

#include <boost/json/fwd.hpp>

#include "slurm/client.hpp"

namespace homeostat::slurm {

Node parse_node(const boost::json::object& node);
Job parse_job(const boost::json::object& job);
Diag parse_diag(const boost::json::object& answer);

// The first entry of an answer's errors array as an Error, or nothing when there is none. `what` says what was tried.
std::optional<Error> find_error(const boost::json::object& answer, int http_status, std::string_view what);

// Slurm's own numbers for what callers react to.
namespace errors {
inline constexpr long invalid_node_name = 2018, invalid_job_id = 2017, nodes_busy = 2016, invalid_node_state = 2028,
                      job_not_pending = 2073, job_already_finished = 2021, transition_state = 2024;
}
long first_error_number(const boost::json::object& answer);  // -1: no error

}  // namespace homeostat::slurm
