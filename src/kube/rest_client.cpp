// The Client over HTTP: URLs, bodies, content types, the mapping of Status to ErrorKind, retries, paging and watch
// framing.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>

#include "io/json.hpp"
#include "kube/connect.hpp"

namespace homeostat::kube {
namespace {

constexpr size_t max_watch_line_bytes = 8u << 20;
constexpr int max_pages = 10'000;
constexpr int max_list_restarts = 3;
constexpr Duration watch_grace{15'000};  // beyond the server's own end of a watch
constexpr Duration max_retry_after{60'000};

std::string percent_encode(std::string_view text) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(hex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(hex[static_cast<unsigned char>(c) & 15]);
    }
  }
  return out;
}

// "?a=b&c=d" of the members that are not empty.
std::string query_of(std::initializer_list<std::pair<std::string_view, std::string>> members) {
  std::string out;
  for (const auto& [name, value] : members)
    if (!value.empty()) out += fmt::format("{}{}={}", out.empty() ? '?' : '&', name, percent_encode(value));
  return out;
}

std::string path_of(const Resource& resource, std::string_view ns, std::string_view name = {},
                    std::string_view subresource = {}) {
  std::string path =
      resource.group.empty() ? "/api/" + resource.version : "/apis/" + resource.group + "/" + resource.version;
  if (resource.namespaced && !ns.empty()) path += "/namespaces/" + percent_encode(ns);
  path += "/" + resource.plural;
  if (!name.empty()) path += "/" + percent_encode(name);
  if (!subresource.empty()) path += "/" + std::string(subresource);
  return path;
}

bool has_cause(const Object& status, std::string_view reason) {
  for (const auto& cause : io::array_at(status, {"details", "causes"}))
    if (io::string_at(cause, {"reason"}) == reason) return true;
  return false;
}

std::optional<Duration> retry_after_of(const io::HttpResponse& response, const Object& status) {
  std::int64_t seconds = io::int_at(status, {"details", "retryAfterSeconds"}, -1);
  if (const auto header = response.header("retry-after"))
    std::from_chars(header->data(), header->data() + header->size(), seconds);
  if (seconds < 0) return std::nullopt;
  return std::min<Duration>(std::chrono::seconds(std::min<std::int64_t>(seconds, 3600)), max_retry_after);
}

// What an HTTP status and the Status object in its body mean to callers.
ErrorKind kind_of(int code, const Object& status) {
  const auto reason = io::string_at(status, {"reason"});
  switch (code) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return ErrorKind::invalid;
    case 401:
      return ErrorKind::unauthorized;
    case 403:
      return ErrorKind::forbidden;
    case 404:
      return ErrorKind::not_found;
    case 409:
      return reason == "AlreadyExists" ? ErrorKind::already_exists : ErrorKind::conflict;
    case 410:
      return ErrorKind::gone;
    case 429:
      return has_cause(status, "DisruptionBudget") ? ErrorKind::disruption_budget : ErrorKind::throttled;
    case 504:
      return has_cause(status, "ResourceVersionTooLarge") ? ErrorKind::throttled : ErrorKind::unavailable;
    default:
      return code >= 500 ? ErrorKind::unavailable : ErrorKind::internal;
  }
}

Error error_of(int code, const Object& status, std::optional<Duration> retry_after, std::string_view what) {
  Error error;
  error.kind = kind_of(code, status);
  error.retry_after = retry_after;
  if (error.kind == ErrorKind::throttled && !error.retry_after) error.retry_after = Duration{1000};
  std::string message = io::string_at(status, {"message"});
  if (message.empty()) message = fmt::format("HTTP status {}", code);
  for (const auto& cause : io::array_at(status, {"details", "causes"})) {
    const auto text = io::string_at(cause, {"message"});
    if (!text.empty() && message.find(text) == message.npos && message.size() < 4000)
      message += io::string_at(cause, {"field"}).empty()
                     ? fmt::format(" ({})", text)
                     : fmt::format(" ({}: {})", io::string_at(cause, {"field"}), text);
  }
  error.message = fmt::format("{}: {}", what, message);
  if (error.kind == ErrorKind::unauthorized)
    error.message += "; the credentials are missing, wrong or expired: renew them";
  return error;
}

Error error_of(const io::HttpResponse& response, std::string_view what) {
  Object status;
  if (auto parsed = io::parse_json_object(response.body))
    status = std::move(*parsed);
  else if (!response.body.empty())
    status["message"] = fmt::format("HTTP status {}: {}", response.status, response.body.substr(0, 300));
  return error_of(response.status, status, retry_after_of(response, status), what);
}

// Newline-delimited JSON cut anywhere: hands over whole lines.
class LineBuffer {
 public:
  // false: stop reading (a line was too long, or on_line said so).
  bool feed(std::string_view chunk, const std::function<bool(std::string_view)>& on_line) {
    while (!chunk.empty()) {
      const auto end = chunk.find('\n');
      if (end == chunk.npos) {
        held_.append(chunk);
        too_long = held_.size() > max_watch_line_bytes;
        return !too_long;
      }
      bool go_on = true;
      if (held_.empty()) {
        go_on = end == 0 || on_line(chunk.substr(0, end));
      } else {
        held_.append(chunk.substr(0, end));
        const std::string line = std::exchange(held_, {});
        go_on = on_line(line);
      }
      if (!go_on) return false;
      chunk.remove_prefix(end + 1);
    }
    return true;
  }
  bool too_long = false;

 private:
  std::string held_;
};

std::optional<WatchEventType> event_type_of(std::string_view text) {
  if (text == "ADDED") return WatchEventType::added;
  if (text == "MODIFIED") return WatchEventType::modified;
  if (text == "DELETED") return WatchEventType::deleted;
  if (text == "BOOKMARK") return WatchEventType::bookmark;
  if (text == "ERROR") return WatchEventType::error;
  return std::nullopt;
}

class RestClient final : public Client {
 public:
  RestClient(ClusterConfig config, TransportMaker maker, io::Clock& clock, io::Random& random, ClientOptions options,
             std::shared_ptr<RateLimiter> limiter)
      : config_(std::move(config)),
        maker_(std::move(maker)),
        clock_(clock),
        random_(random),
        options_(std::move(options)),
        limiter_(std::move(limiter)),
        tls_(config_.tls) {}

  Result<Object> get(const Resource& resource, std::string_view ns, std::string_view name) override;
  Result<ObjectList> list(const Resource& resource, std::string_view ns, const ListOptions& options) override;
  Result<void> watch(const Resource& resource, std::string_view ns, const WatchOptions& options,
                     const std::function<bool(WatchEvent&&)>& on_event, std::stop_token stop) override;
  Result<Object> create(const Resource& resource, std::string_view ns, const Object& body) override;
  Result<Object> replace(const Resource& resource, std::string_view ns, std::string_view name, const Object& body,
                         std::string_view subresource) override;
  Result<Object> apply(const Resource& resource, std::string_view ns, std::string_view name, const Object& body,
                       const ApplyOptions& options) override;
  Result<Object> patch(const Resource& resource, std::string_view ns, std::string_view name, PatchType type,
                       const boost::json::value& body, std::string_view subresource) override;
  Result<void> remove(const Resource& resource, std::string_view ns, std::string_view name,
                      const DeleteOptions& options) override;
  Result<void> evict(std::string_view ns, std::string_view pod, std::string_view uid) override;
  Result<std::string> raw_get(std::string_view path) override;

 private:
  struct Call {
    std::string method, path, body, content_type;
    bool idempotent() const { return method == "GET"; }
  };

  Result<void> prepare(io::HttpRequest& request);
  Result<io::HttpResponse> exchange(const Call& call);
  std::optional<Duration> retry_delay(const Call& call, const Result<io::HttpResponse>& outcome, int attempt,
                                      bool& dropped);
  Result<Object> object_call(const Call& call);
  Result<void> page(const Resource& resource, std::string_view ns, const ListOptions& options, std::string& token,
                    ObjectList& out);
  Result<void> handle_watch_line(std::string_view line, const std::function<bool(WatchEvent&&)>& on_event, bool& go_on,
                                 std::string_view what);
  bool pause(Duration delay) {
    if (delay > Duration{0}) clock_.sleep(delay, options_.stop);
    return !options_.stop.stop_requested();
  }

  ClusterConfig config_;
  TransportMaker maker_;
  io::Clock& clock_;
  io::Random& random_;
  ClientOptions options_;
  std::shared_ptr<RateLimiter> limiter_;
  io::TlsOptions tls_;
  std::unique_ptr<io::HttpTransport> transport_;
};

// Credentials, fixed headers and the connection; an exec plugin may have brought a new client certificate.
Result<void> RestClient::prepare(io::HttpRequest& request) {
  Credential credential;
  if (config_.credentials) {
    auto current = config_.credentials->current(clock_.monotonic(), clock_.now());
    if (!current) return std::unexpected(current.error());
    credential = std::move(*current);
  }
  if (!credential.client_cert_pem.empty() && credential.client_cert_pem != tls_.client_cert_pem) {
    tls_.client_cert_pem = credential.client_cert_pem;
    tls_.client_key_pem = credential.client_key_pem;
    transport_.reset();
  }
  if (!transport_) transport_ = maker_(tls_);
  std::erase_if(request.headers, [](const auto& header) { return header.first == "Authorization"; });
  if (!credential.bearer_token.empty())
    request.headers.emplace_back("Authorization", "Bearer " + credential.bearer_token);
  return {};
}

// How long to wait before another attempt; nullopt: this outcome is final.
std::optional<Duration> RestClient::retry_delay(const Call& call, const Result<io::HttpResponse>& outcome, int attempt,
                                                bool& dropped) {
  const Duration backoff{100 * (1 << attempt) + static_cast<int>(random_.next() % 100)};
  if (!outcome) {
    const auto kind = outcome.error().kind;
    const bool lost = kind == ErrorKind::unknown_outcome || kind == ErrorKind::timeout;
    if (kind == ErrorKind::unreachable || (lost && call.idempotent())) return backoff;
    return std::nullopt;
  }
  if (outcome->status == 401 && !dropped && config_.credentials) {
    dropped = true;
    config_.credentials->drop();
    return Duration{0};
  }
  if (outcome->status != 429 && outcome->status < 500) return std::nullopt;
  const Error error = error_of(*outcome, "");
  if (error.kind == ErrorKind::disruption_budget) return std::nullopt;
  if (outcome->status == 429 || (outcome->status == 503 && error.retry_after))
    return error.retry_after.value_or(Duration{1000});
  if (call.idempotent() && error.kind == ErrorKind::throttled) return error.retry_after;  // 504 ResourceVersionTooLarge
  if (call.idempotent() && outcome->status != 501 && outcome->status != 505) return backoff;
  return std::nullopt;
}

Result<io::HttpResponse> RestClient::exchange(const Call& call) {
  io::HttpRequest request{.method = call.method, .url = config_.server + call.path, .body = call.body};
  request.headers = {{"Accept", "application/json"}, {"User-Agent", options_.user_agent}};
  if (!call.content_type.empty()) request.headers.emplace_back("Content-Type", call.content_type);
  if (!config_.impersonate_user.empty()) request.headers.emplace_back("Impersonate-User", config_.impersonate_user);
  for (const auto& group : config_.impersonate_groups) request.headers.emplace_back("Impersonate-Group", group);
  const Duration deadline = clock_.monotonic() + options_.request_timeout;
  bool dropped = false;
  for (int attempt = 0;; ++attempt) {
    if (!pause(limiter_->reserve(clock_.monotonic())))
      return fail(ErrorKind::cancelled, "stopped while waiting to call the API server");
    if (auto ready = prepare(request); !ready) return std::unexpected(ready.error());
    request.timeout = std::max<Duration>(Duration{100}, deadline - clock_.monotonic());
    auto outcome = transport_->send(request, options_.stop);
    const auto delay = retry_delay(call, outcome, attempt, dropped);
    if (!delay || attempt + 1 >= options_.attempts || clock_.monotonic() + *delay >= deadline) return outcome;
    if (!pause(*delay)) return outcome;
  }
}

Result<Object> RestClient::object_call(const Call& call) {
  auto response = exchange(call);
  if (!response) return std::unexpected(response.error());
  const std::string what = call.method + " " + call.path.substr(0, call.path.find('?'));
  if (response->status < 200 || response->status > 299) return std::unexpected(error_of(*response, what));
  auto object = io::parse_json_object(response->body, "the API server's answer to " + what);
  // A write whose answer is garbage has taken effect: nobody may take it for a refusal.
  if (!object)
    return fail(call.idempotent() ? ErrorKind::internal : ErrorKind::unknown_outcome, object.error().message);
  return object;
}

Result<Object> RestClient::get(const Resource& resource, std::string_view ns, std::string_view name) {
  if (name.empty()) return fail(ErrorKind::invalid, "a get needs the name of the " + resource.kind);
  return object_call({"GET", path_of(resource, ns, name), "", ""});
}

Result<void> RestClient::page(const Resource& resource, std::string_view ns, const ListOptions& options,
                              std::string& token, ObjectList& out) {
  auto answer =
      object_call({"GET",
                   path_of(resource, ns) + query_of({{"limit", std::to_string(options_.page_size)},
                                                     {"continue", token},
                                                     // a continue token carries its own version
                                                     {"resourceVersion", token.empty() ? options.resource_version : ""},
                                                     {"labelSelector", options.label_selector},
                                                     {"fieldSelector", options.field_selector}}),
                   "", ""});
  if (!answer) return std::unexpected(answer.error());
  out.resource_version = io::string_at(*answer, {"metadata", "resourceVersion"});
  token = io::string_at(*answer, {"metadata", "continue"});
  auto* items = answer->if_contains("items");
  if (items == nullptr || !items->is_array()) return {};  // Go's empty list may be null
  for (auto& item : items->get_array()) {
    if (!item.is_object()) return fail(ErrorKind::internal, "the API server listed something that is not an object");
    auto& object = item.get_object();
    if (!object.contains("kind")) object["kind"] = resource.kind;  // list items come without
    if (!object.contains("apiVersion")) object["apiVersion"] = resource.api_version();
    out.items.push_back(std::move(object));
  }
  return {};
}

Result<ObjectList> RestClient::list(const Resource& resource, std::string_view ns, const ListOptions& options) {
  ListOptions current = options;
  for (int restart = 0;; ++restart) {
    ObjectList out;
    std::string token;
    int pages = 0;
    Result<void> result;
    do {
      result = page(resource, ns, current, token, out);
    } while (result && !token.empty() && ++pages < max_pages);
    if (result && token.empty()) return out;
    if (result) return fail(ErrorKind::internal, "the list of " + resource.plural + " does not end");
    // A continue token that has expired: begin again at the newest, without any token.
    if (result.error().kind != ErrorKind::gone || pages == 0 || restart >= max_list_restarts)
      return std::unexpected(result.error());
    current.resource_version.clear();
  }
}

Result<void> RestClient::handle_watch_line(std::string_view line, const std::function<bool(WatchEvent&&)>& on_event,
                                           bool& go_on, std::string_view what) {
  auto parsed = io::parse_json_object(line, "an event of the watch", max_watch_line_bytes);
  if (!parsed) return std::unexpected(parsed.error());
  const auto type = event_type_of(io::string_at(*parsed, {"type"}));
  auto* object = parsed->if_contains("object");
  if (object == nullptr || !object->is_object())
    return fail(ErrorKind::internal, fmt::format("{}: an event without an object", what));
  if (!type) return {};  // a type that we do not know: nothing to do
  if (*type == WatchEventType::error) {
    const auto& status = object->get_object();
    const auto seconds = io::int_at(status, {"details", "retryAfterSeconds"}, -1);
    std::optional<Duration> retry_after;
    if (seconds >= 0)
      retry_after = std::min<Duration>(std::chrono::seconds(std::min<std::int64_t>(seconds, 3600)), max_retry_after);
    return std::unexpected(error_of(static_cast<int>(io::int_at(status, {"code"}, 500)), status, retry_after, what));
  }
  go_on = on_event(WatchEvent{*type, std::move(object->get_object())});
  return {};
}

Result<void> RestClient::watch(const Resource& resource, std::string_view ns, const WatchOptions& options,
                               const std::function<bool(WatchEvent&&)>& on_event, std::stop_token stop) {
  const std::string path =
      path_of(resource, ns) + query_of({{"watch", "true"},
                                        {"allowWatchBookmarks", "true"},
                                        {"resourceVersion", options.resource_version},
                                        {"timeoutSeconds", std::to_string(options.timeout.count())},
                                        {"labelSelector", options.label_selector},
                                        {"fieldSelector", options.field_selector}});
  const std::string what = "watch of " + resource.plural;
  io::HttpRequest request{.method = "GET", .url = config_.server + path, .timeout = options_.request_timeout};
  request.headers = {{"Accept", "application/json"}, {"User-Agent", options_.user_agent}};
  LineBuffer lines;
  Result<void> outcome;
  const auto on_line = [&](std::string_view line) {
    bool go_on = true;
    outcome = handle_watch_line(line, on_event, go_on, what);
    return outcome.has_value() && go_on;
  };
  for (bool dropped = false;;) {
    clock_.sleep(limiter_->reserve(clock_.monotonic()), stop);
    if (auto ready = prepare(request); !ready) return std::unexpected(ready.error());
    auto response = transport_->stream(
        request, std::chrono::duration_cast<Duration>(options.timeout) + watch_grace,
        [&](std::string_view chunk) { return lines.feed(chunk, on_line); }, stop);
    if (lines.too_long) return fail(ErrorKind::internal, what + ": one event is larger than 8 MiB");
    if (!outcome) return outcome;
    if (!response) return std::unexpected(response.error());
    if (response->status == 401 && !dropped && config_.credentials) {
      dropped = true;
      config_.credentials->drop();
      continue;
    }
    if (response->status != 200) return std::unexpected(error_of(*response, what));
    return {};
  }
}

Result<Object> RestClient::create(const Resource& resource, std::string_view ns, const Object& body) {
  return object_call({"POST", path_of(resource, ns), io::to_text(body), "application/json"});
}

Result<Object> RestClient::replace(const Resource& resource, std::string_view ns, std::string_view name,
                                   const Object& body, std::string_view subresource) {
  return object_call({"PUT", path_of(resource, ns, name, subresource), io::to_text(body), "application/json"});
}

Result<Object> RestClient::apply(const Resource& resource, std::string_view ns, std::string_view name,
                                 const Object& body, const ApplyOptions& options) {
  if (options.field_manager.empty()) return fail(ErrorKind::invalid, "an apply needs a field manager");
  Object sent = body;
  if (auto* metadata = sent.if_contains("metadata"); metadata && metadata->is_object())
    metadata->get_object().erase("managedFields");
  return object_call({"PATCH",
                      path_of(resource, ns, name, options.subresource) +
                          query_of({{"fieldManager", options.field_manager}, {"force", options.force ? "true" : ""}}),
                      io::to_text(sent), "application/apply-patch+yaml"});
}

Result<Object> RestClient::patch(const Resource& resource, std::string_view ns, std::string_view name, PatchType type,
                                 const boost::json::value& body, std::string_view subresource) {
  std::string_view content_type = "application/merge-patch+json";
  if (type == PatchType::strategic_merge) content_type = "application/strategic-merge-patch+json";
  if (type == PatchType::json) content_type = "application/json-patch+json";
  return object_call({"PATCH", path_of(resource, ns, name, subresource), io::to_text(body), std::string(content_type)});
}

boost::json::object preconditions_of(const std::string& uid, const std::string& resource_version) {
  boost::json::object out;
  if (!uid.empty()) out["uid"] = uid;
  if (!resource_version.empty()) out["resourceVersion"] = resource_version;
  return out;
}

Result<void> RestClient::remove(const Resource& resource, std::string_view ns, std::string_view name,
                                const DeleteOptions& options) {
  if (name.empty())
    return fail(ErrorKind::invalid,
                "a delete needs the name of the " + resource.kind);  // else it would delete them all
  boost::json::object body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", options.propagation}};
  if (auto preconditions = preconditions_of(options.uid, options.resource_version); !preconditions.empty())
    body["preconditions"] = std::move(preconditions);
  if (options.grace_s) body["gracePeriodSeconds"] = *options.grace_s;
  const auto outcome = object_call({"DELETE", path_of(resource, ns, name), io::to_text(body), "application/json"});
  if (outcome || outcome.error().kind == ErrorKind::not_found) return {};
  return std::unexpected(outcome.error());
}

Result<void> RestClient::evict(std::string_view ns, std::string_view pod, std::string_view uid) {
  boost::json::object body{
      {"apiVersion", "policy/v1"}, {"kind", "Eviction"}, {"metadata", {{"name", pod}, {"namespace", ns}}}};
  if (!uid.empty())
    body["deleteOptions"] = boost::json::object{{"preconditions", preconditions_of(std::string(uid), "")}};
  const auto outcome =
      object_call({"POST", path_of(resources::pods, ns, pod, "eviction"), io::to_text(body), "application/json"});
  if (outcome || outcome.error().kind == ErrorKind::not_found) return {};
  return std::unexpected(outcome.error());
}

Result<std::string> RestClient::raw_get(std::string_view path) {
  auto response = exchange({"GET", std::string(path), "", ""});
  if (!response) return std::unexpected(response.error());
  if (response->status < 200 || response->status > 299)
    return std::unexpected(error_of(*response, fmt::format("GET {}", path.substr(0, path.find('?')))));
  return std::move(response->body);
}

}  // namespace

Duration RateLimiter::reserve(Duration now) {
  std::lock_guard lock(mutex_);
  const double seconds = std::max(0.0, std::chrono::duration<double>(now - last_).count());
  tokens_ = std::min(burst_, tokens_ + seconds * per_second_);
  last_ = std::max(last_, now);
  tokens_ -= 1;
  if (tokens_ >= 0 || per_second_ <= 0) return Duration{0};
  return Duration{static_cast<Duration::rep>(std::ceil(-tokens_ / per_second_ * 1000))};
}

ClientFactory make_client_factory_over(TransportMaker transport, ClusterConfig config, io::Clock& clock,
                                       io::Random& random, ClientOptions options) {
  auto limiter = std::make_shared<RateLimiter>(options.qps, options.burst);
  return [transport = std::move(transport), config = std::move(config), options = std::move(options), limiter, &clock,
          &random] { return std::make_unique<RestClient>(config, transport, clock, random, options, limiter); };
}

}  // namespace homeostat::kube
