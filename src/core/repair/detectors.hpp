// What others say of a node, and what silence says: Node conditions by the policy's rules, a lost heartbeat of the
// agent or the kubelet told from a dead machine. Pure: `now` and a monotonic time are passed in; what has to be
// remembered between two looks is a Continuity that the caller keeps. Values only: one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/repair/finding.hpp"
#include "core/time.hpp"

namespace homeostat::repair {

// One rule of a HealthPolicy: a Node condition of this type (exact, or "prefix*") with this status and reason (exact,
// "prefix*", or "" for any) means this fault. Of the rules that fit a condition the first decides.
struct ConditionRule {
  std::string type = {};
  std::string status = "True";  // True, False, Unknown: some detectors say True for a fault, others False
  std::string reason = {};
  Duration stands_for{60'000};  // how long it must stand without a change
  std::string component = {}, code = {};
  fault::Severity severity = fault::Severity::error;
  fault::RepairClass repair_class = fault::RepairClass::watch;
  bool operator==(const ConditionRule&) const = default;
};

struct NodeCondition {
  std::string type = {}, status = {}, reason = {}, message = {};
  std::optional<TimePoint> transition_at = {}, heartbeat_at = {};  // by the clock of who wrote it
};

const NodeCondition* find_condition(std::span<const NodeCondition> conditions, std::string_view type);
bool rule_fits(const ConditionRule& rule, const NodeCondition& condition);

// How long things have stood, by one clock of our own: the clocks of nodes may be wrong by years. A thing is named by
// a key; a change of its mark (another status, another transition) starts it anew. Bounded: the longest unseen goes.
class Continuity {
 public:
  static constexpr size_t max_keys = 16'384;

  // Notes that `key` stands with `mark` at `monotonic`; how long it has stood since the mark was first seen.
  Duration held(const std::string& key, std::string_view mark, Duration monotonic);
  // The same, but only once the mark has changed under our eyes: nullopt for a mark that was there from the start.
  std::optional<Duration> since_change(const std::string& key, std::string_view mark, Duration monotonic);
  void forget(const std::string& key_prefix);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string mark;
    Duration since{0}, seen{0};
    bool changed = false;
  };
  Entry& look(const std::string& key, std::string_view mark, Duration monotonic);
  void make_room();

  std::map<std::string, Entry> entries_;
};

// What Slurm says of the node. unknown: it was not asked or did not answer.
enum class SlurmSight { unknown, not_in_slurm, answers, silent };
enum class MachineSight { unknown, there, gone };

// One node as it was just read.
struct NodeSight {
  std::string node = {}, node_uid = {}, boot_id = {};
  std::vector<NodeCondition> conditions = {};
  std::optional<TimePoint> created_at = {};   // of the Node object, by the API server's clock
  bool cordoned_by_others = false;            // a person or another tool has work with it
  std::optional<TimePoint> last_report = {};  // of its NodeHealth, by the node's clock; nullopt: never reported
  Duration agent_silent_for{0};               // since that last changed, by our own clock
  std::string agent_pod = {};  // what its agent's pod is, for people: "Running", "there is none"; "": unread
  SlurmSight slurm = SlurmSight::unknown;
  MachineSight machine = MachineSight::unknown;
  std::string fleet = {};  // why silence proves nothing now (too many are silent at once); "": it does
};

struct DetectorPolicy {
  std::vector<ConditionRule> conditions = {};
  Duration agent_silence{120'000};  // the agent reports every 10 s; an update of its DaemonSet takes under a minute
  Duration node_silence{300'000};   // as Slurm's own SlurmdTimeout: from then on its jobs are lost anyway
  Duration startup{300'000};        // after a boot, conditions and silence prove nothing
};

struct Detection {
  std::vector<Finding> findings = {};
  std::optional<Duration> look_again = {};  // when something that stands now may begin to count
};

// Whether Slurm, the agent's pod and the provider are worth asking: the agent has been silent for too long.
bool agent_is_silent(const NodeSight& sight, const DetectorPolicy& policy);

Detection detect(const NodeSight& sight, const DetectorPolicy& policy, Continuity& continuity, TimePoint now,
                 Duration monotonic);

// When many nodes fall silent within a minute, it is the control plane or the network, not the nodes. `since`:
// monotonic, when each was last heard of. Nodes in repair and nodes that never reported are not to be in `fleet`.
struct FleetNode {
  std::string node = {};
  bool silent = false;
  Duration since{0};
};
struct FleetLimits {
  int min_nodes = 2;
  int percent = 20;
  Duration within{60'000};
};
// "" or a sentence why the silence of `node` proves nothing.
std::string silence_of_many(std::string_view node, std::span<const FleetNode> fleet, const FleetLimits& limits = {});

}  // namespace homeostat::repair
