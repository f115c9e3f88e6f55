// What every command stands on: where the lab and the programs are, the API server, and how to stop. One Context per
// process; its client belongs to the main thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"

namespace homeostat::cli {

inline constexpr int exit_good = 0, exit_failed = 1, exit_usage = 2, exit_missing = 3, exit_refused = 4;

struct Places {
  std::string state;     // the lab's folder
  std::string programs;  // the folder of this program and of homeostat-lab
  std::string sources;   // the work tree: deploy/, api/crds/, catalog/, examples/, scripts/
  std::string cluster;   // kubeconfig of another cluster than the lab's; "" for the lab

  std::string kubeconfig() const { return cluster.empty() ? state + "/kubeconfig" : cluster; }
  std::string kubectl() const { return state + "/bin/kubectl"; }
  std::string lab_program() const { return programs + "/homeostat-lab"; }
  std::string ssh_folder() const { return state + "/ssh"; }
  std::string ssh_key() const { return ssh_folder() + "/id_ed25519"; }
  std::string known_hosts() const { return ssh_folder() + "/known_hosts"; }
};

// ${HOMEOSTAT_STATE:-/var/lib/homeostat/lab}; programs and sources are found from where this program lies.
Places find_places();

// Where the lab's one cluster lives (examples/cluster.yaml).
struct ClusterNames {
  std::string pool = "gpu", ns = "slurm", cluster = "demo", user = "researcher";
};

class Context {
 public:
  Context(Places places, std::stop_token stop) : places_(std::move(places)), stop_(std::move(stop)) {}

  const Places& places() const { return places_; }
  const ClusterNames& names() const { return names_; }
  std::stop_token stop() const { return stop_; }
  io::Clock& clock() { return clock_; }
  TimePoint now() const { return clock_.now(); }

  // Connects at the first call. not_found: there is no lab.
  Result<kube::Client*> client();

 private:
  Places places_;
  ClusterNames names_;
  std::stop_token stop_;
  io::SystemClock clock_;
  io::SystemRandom random_;
  std::unique_ptr<kube::Client> client_;
};

// Lines with the time since the start; what is still missing is told when it changes.
class Teller {
 public:
  explicit Teller(bool quiet = false);
  void say(std::string_view text) const;
  bool quiet() const { return quiet_; }

 private:
  Duration start_;
  bool quiet_;
};

// Asks `missing` until it answers "" (there), every `every`; tells what is missing whenever that changes. An error of
// `missing` is told and asked again: servers restart. timeout: with the last answer and `hint`, where to look.
struct Wait {
  std::string what;
  Duration limit{60'000};
  Duration every{300};
  std::string hint = {};
};
Result<void> wait_for(Context& context, const Wait& wait, const Teller& teller,
                      const std::function<Result<std::string>()>& missing);

// The sentence on stderr, and the exit code for it.
int complain(const Error& error);

}  // namespace homeostat::cli
