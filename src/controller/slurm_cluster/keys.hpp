// The Secrets of a SlurmCluster: made once, never renewed while they are good, never printed. Only the REST certificate
// ages.
#pragma once

#include <functional>

#include "api/slurm_cluster.hpp"
#include "controller/slurm_cluster/render.hpp"
#include "core/result.hpp"
#include "io/clock.hpp"
#include "kube/client.hpp"

namespace homeostat::controller {

// Makes what is missing of <cluster>-keys, <cluster>-login-hostkeys and <cluster>-rest-tls, and renews the certificate
// 30 days before its end. A Secret that exists without one of its keys is an error (invalid): overwriting it could lock
// out running daemons.
Result<KeyStamps> ensure_keys(kube::Client& client, const api::SlurmCluster& cluster, const kube::Object& owner,
                              io::Random& random, TimePoint now);

}  // namespace homeostat::controller
