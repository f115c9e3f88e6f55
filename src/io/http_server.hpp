// A small HTTP or HTTPS server: one handler for every request, run on a bounded set of threads. Who may call is the
// handler's decision. Bodies, heads and waits are bounded; a connection that exceeds a bound is answered or closed,
// never waited for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "io/http.hpp"

namespace homeostat::io {

struct ServerRequest {
  std::string method = {};
  std::string path = {};  // decoded, without the query
  std::vector<std::pair<std::string, std::string>> query = {};
  Headers headers;  // names in lower case
  std::string body = {};
  std::string remote_address = {};

  std::string_view header(std::string_view lower_case_name) const;  // "" when absent
  std::string_view query_value(std::string_view name) const;        // "" when absent
};

struct ServerResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Headers headers;
  // When set, body is ignored and this is called again and again with a writer until it returns false; a writer that
  // returns false says that the client has gone. Each call must return within a second or so, or stop() has to wait for
  // it.
  std::function<bool(const std::function<bool(std::string_view)>& write)> stream = {};
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;                             // 0: any free one, see port()
  std::string cert_pem = {}, key_pem = {};  // both empty: plain HTTP
  size_t max_body_bytes = 1u << 20;
  size_t threads = 16;  // connections served at once; a stream holds one
  std::chrono::seconds read_timeout{10}, write_timeout{10};
};

class HttpServer {
 public:
  using Handler =
      std::function<ServerResponse(const ServerRequest&)>;  // called from many threads; an exception becomes a 500

  // Listens when it returns. invalid: bad certificate or address; already_exists: the port is taken.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, Handler handler);
  virtual ~HttpServer() = default;  // stops
  virtual int port() const = 0;
  virtual void stop() = 0;  // no handler runs after it returns
};

// Compares secrets without telling by its duration where they differ.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace homeostat::io
