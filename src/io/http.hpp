// HTTP as the rest of the house sees it. Two transports speak to the world: libcurl's, and a small one over a socket
// for the agent; tests and the simulation put fakes in their place.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::io {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "GET";
  std::string url = {};  // absolute: https://host:port/path?query
  Headers headers = {};
  std::string body = {};
  Duration timeout{10'000};  // connect, send and the whole answer; for stream(): until the headers of the answer
};

struct HttpResponse {
  int status = 0;
  Headers headers = {};  // names in lower case
  std::string body = {};

  std::optional<std::string> header(std::string_view lower_case_name) const;
};

// PEM texts, held in memory and never written to disk by the transport.
struct TlsOptions {
  std::string ca_pem = {};           // empty: the system's roots
  std::string client_cert_pem = {};  // empty: no client certificate
  std::string client_key_pem = {};
  std::string server_name = {};  // verify the server under this name instead of the URL's host
  bool insecure_skip_verify = false;
  std::string proxy_url = {};    // empty: from the environment
  std::string unix_socket = {};  // empty: TCP
};

// A transport is used by one thread at a time and keeps its connection alive between calls.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;

  // Any complete answer is a value, whatever its status. Errors: unreachable (surely no effect), unknown_outcome
  // (broke after sending), timeout, cancelled, invalid (bad URL, TLS refused: the message says which).
  virtual Result<HttpResponse> send(const HttpRequest& request, std::stop_token stop) = 0;

  // Hands over the body as it arrives; on_chunk returns false to end it. Returns when the server ends the body,
  // on_chunk ends it, nothing arrived for `idle`, or stop is requested. A status other than 2xx is returned with its
  // body, unstreamed.
  virtual Result<HttpResponse> stream(const HttpRequest& request, Duration idle,
                                      const std::function<bool(std::string_view)>& on_chunk, std::stop_token stop) = 0;
};

using TransportFactory = std::function<std::unique_ptr<HttpTransport>()>;

// Answers are refused beyond max_body_bytes.
std::unique_ptr<HttpTransport> make_curl_transport(TlsOptions tls, size_t max_body_bytes = 64u << 20);
// The same without libcurl, for a program that must be small: no proxies; SIGPIPE must be ignored.
std::unique_ptr<HttpTransport> make_socket_transport(TlsOptions tls, size_t max_body_bytes = 64u << 20);

}  // namespace homeostat::io
