// What one reconcile needs to reach the world: a Kubernetes client, Slurm clients by workers label and providers by
// pool. Sessions keep their connections alive and are lent to one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/node_pool.hpp"
#include "core/result.hpp"
#include "kube/client.hpp"
#include "provider/provider.hpp"
#include "slurm/client.hpp"

namespace homeostat::controller {

using SlurmConnector = std::function<Result<std::unique_ptr<slurm::Client>>(kube::Client&, std::string_view workers)>;
using ProviderConnector =
    std::function<Result<std::unique_ptr<provider::Provider>>(kube::Client&, const api::NodePool&)>;

struct Connectors {
  kube::ClientFactory kube;
  SlurmConnector slurm;
  ProviderConnector provider;
};

class Session {
 public:
  explicit Session(const Connectors& connectors) : connectors_(connectors), kube_(connectors.kube()) {}

  kube::Client& kube() { return *kube_; }
  Result<slurm::Client*> slurm(std::string_view workers);
  Result<provider::Provider*> provider(const api::NodePool& pool);
  // The next use connects anew, with credentials read anew: after a failure that says that they may have changed.
  void forget_slurm(std::string_view workers);
  void forget_provider(std::string_view pool);

 private:
  const Connectors& connectors_;
  std::unique_ptr<kube::Client> kube_;
  std::map<std::string, std::unique_ptr<slurm::Client>, std::less<>> slurm_;
  std::map<std::string, std::unique_ptr<provider::Provider>, std::less<>> providers_;
};

// A pool of sessions; safe from any thread. Holds as many as were ever lent at once.
class Sessions {
 public:
  explicit Sessions(Connectors connectors) : connectors_(std::move(connectors)) {}

  using Lent = std::unique_ptr<Session, std::function<void(Session*)>>;
  Lent lend();

 private:
  Connectors connectors_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;
};

// Splits "<namespace>.<cluster>.<worker group>"; invalid when it is not of that form.
struct WorkersLabel {
  std::string ns, cluster, group;
};
Result<WorkersLabel> parse_workers_label(std::string_view text);

// The connectors of production: Secrets and Services as contracts.md names them. `clock` outlives them.
SlurmConnector make_slurm_connector(const io::Clock& clock, std::stop_token stop);
ProviderConnector make_provider_connector(std::stop_token stop);

}  // namespace homeostat::controller
