// The algebra of Slurm's node and job states. A state is a base (IDLE, RUNNING, …) with any number of flags (DRAIN,
// COMPLETING, …), which slurmrestd gives as a set of words. Words that nobody here knows change nothing.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace homeostat::slurm {

using StateSet = std::set<std::string, std::less<>>;

// "DOWN+DRAIN" for people: the words in their order.
std::string to_string(const StateSet& states);

// --- nodes
bool node_is_down(const StateSet& states);        // no job runs or starts here
bool node_is_drain(const StateSet& states);       // no new job starts here; UNDRAIN in flight counts as not
bool node_is_completing(const StateSet& states);  // processes of an ended job are still being cleaned up
bool node_has_jobs(const StateSet& states);       // allocated, mixed or completing
bool node_takes_jobs(const StateSet& states);  // idle, mixed or allocated, answering, and nothing that keeps jobs away
bool node_is_dynamic(const StateSet& states);  // registered by itself, so it can be deleted
bool node_answers(const StateSet& states);     // slurmctld does not miss its slurmd

// --- jobs
bool job_is_running(const StateSet& states);     // RUNNING and not completing: its processes are at work
bool job_is_pending(const StateSet& states);     // in the queue, free of processes
bool job_is_completing(const StateSet& states);  // processes may still be alive, whatever the base state says
bool job_is_active(const StateSet& states);      // not ended for good
bool job_is_ended(const StateSet& states);       // ended for good and cleaned up

// True for a reason that we wrote (names::reason_prefix): only such a state is ours to undo.
bool reason_is_ours(std::string_view reason);

}  // namespace homeostat::slurm
