// Where the API server is and how to prove who we are: from kubeconfig files or from the pod that we run in.
// Every failure is one sentence that names the file and says what to do. Secrets stay in memory and out of messages.
#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"
#include "io/clock.hpp"
#include "io/http.hpp"

namespace homeostat::kube {

struct Credential {
  std::string bearer_token = {};     // "" for none
  std::string client_cert_pem = {};  // from an exec plugin; replaces the one in TlsOptions when set
  std::string client_key_pem = {};
};

// Shared by all clients of one configuration; safe from any thread.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  virtual Result<Credential> current(Duration monotonic_now, TimePoint now) = 0;
  virtual void drop() = 0;  // the server answered 401: read the file or run the plugin anew at the next call
};

std::shared_ptr<CredentialSource> static_token(std::string token);
// Re-read every minute and after drop().
std::shared_ptr<CredentialSource> token_file(std::string path);

struct ExecPlugin {
  std::string command = {};
  std::vector<std::string> args = {};
  std::map<std::string, std::string> env = {};  // added to ours
  std::string api_version = {};                 // client.authentication.k8s.io/v1 or v1beta1
  std::string cluster_info = {};                // JSON of spec.cluster when provideClusterInfo is set, else ""
  std::string install_hint = {};
};
// Run at the first use, when the credential has expired and after drop(); 30 s at most. Started with an argument
// vector.
std::shared_ptr<CredentialSource> exec_plugin(ExecPlugin plugin);

struct ClusterConfig {
  std::string server = {};  // https://host:port, no trailing slash
  io::TlsOptions tls = {};
  std::shared_ptr<CredentialSource> credentials = {};  // null: the client certificate alone
  std::string ns = "default";
  std::string impersonate_user = {};
  std::vector<std::string> impersonate_groups = {};
  std::string origin = {};  // "kubeconfig /x/y, context z": for messages
};

struct KubeconfigOptions {
  std::vector<std::string> paths =
      {};                    // merged, the first to define a name wins; empty: $KUBECONFIG, else ~/.kube/config
  std::string context = {};  // "": current-context
};

Result<ClusterConfig> load_kubeconfig(const KubeconfigOptions& options = {});

// From KUBERNETES_SERVICE_HOST/PORT and the service account's mounted files. not_found: not in a pod.
Result<ClusterConfig> load_in_cluster(
    std::string_view service_account_dir = "/var/run/secrets/kubernetes.io/serviceaccount");

// The pod's own account where there is one, else the kubeconfig.
Result<ClusterConfig> load_cluster_config(const KubeconfigOptions& options = {});

}  // namespace homeostat::kube
