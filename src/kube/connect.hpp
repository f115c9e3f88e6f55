// Makes Clients. A Client belongs to one thread; the factories are safe from any thread and their clients share one
// token bucket and one credential. Idempotent reads are retried a few times within request_timeout; a write is retried
// only when the server said that it did nothing (429, 503 with Retry-After, 401 once) or no connection was made.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "io/clock.hpp"
#include "io/http.hpp"
#include "kube/client.hpp"
#include "kube/kubeconfig.hpp"

namespace homeostat::kube {

// A token bucket over monotonic time. Safe from any thread.
class RateLimiter {
 public:
  RateLimiter(double per_second, int burst) : per_second_(per_second), burst_(burst), tokens_(burst) {}
  // Takes one token, in advance if need be; how long the caller must wait before it acts.
  Duration reserve(Duration monotonic_now);

 private:
  std::mutex mutex_;
  double per_second_, burst_, tokens_;
  Duration last_{0};
};

// How a connection is made: production gives io::make_curl_transport, the fake API server gives its own.
using TransportMaker = std::function<std::unique_ptr<io::HttpTransport>(const io::TlsOptions&)>;

struct ClientOptions {
  std::string user_agent = "homeostat";  // "homeostat-controller/0.1.0 (repair)"
  double qps = 20;
  int burst = 40;
  Duration request_timeout{30'000};  // of one call, retries and waits included (a list: of each page)
  int attempts = 4;                  // of one call at most
  int page_size = 500;
  std::stop_token stop = {};  // ends calls that have no stop_token of their own
};

// transport: null means libcurl. clock and random outlive every client.
std::unique_ptr<Client> make_client(ClusterConfig config, TransportMaker transport, io::Clock& clock,
                                    io::Random& random, ClientOptions options = {});
ClientFactory make_client_factory(ClusterConfig config, TransportMaker transport, io::Clock& clock, io::Random& random,
                                  ClientOptions options = {});
// For a program that must not link libcurl: transport is never null.
ClientFactory make_client_factory_over(TransportMaker transport, ClusterConfig config, io::Clock& clock,
                                       io::Random& random, ClientOptions options = {});

}  // namespace homeostat::kube
