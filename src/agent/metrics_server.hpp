// Answers GET /metrics and GET /healthz in plain HTTP on the pod's network, on one thread: at most 8 connections at
// once, requests of at most 4 KiB, 5 s for each, then the connection is closed. Read-only; nothing secret is told.
//
// Our own rather than prometheus-cpp: that brings civetweb, zlib and libcurl with their threads, which together cost
// more memory than the whole agent may use (docs/adr/0008).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/result.hpp"

namespace homeostat::agent {

struct MetricsServerHandlers {
  std::function<std::string()> metrics;  // the exposition
  std::function<std::string()> illness;  // "" while the agent lives, else a sentence: /healthz then answers 503
};

class MetricsServer {
 public:
  // "10.0.0.7:9477", "[::1]:9477" or ":9477" for every address; port 0: any free one. It listens when this returns.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& address, MetricsServerHandlers handlers);
  virtual ~MetricsServer() = default;  // stops
  virtual int port() const = 0;
};

}  // namespace homeostat::agent
