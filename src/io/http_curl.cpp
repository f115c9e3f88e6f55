// HttpTransport on libcurl: one easy handle and one multi handle per transport, so that a stop request can wake a
// waiting call and the connection lives on between calls. HTTP/1.1 on purpose: one dead TCP connection then freezes one
// watch, not all.
#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <mutex>

#include "io/http.hpp"

namespace homeostat::io {
namespace {

constexpr long tcp_keepalive_idle_s = 30;
constexpr long tcp_keepalive_interval_s = 15;
constexpr int poll_slice_ms = 1000;  // the longest wait between two looks at deadlines; wakeups cut it short

void global_init() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// A URL without its query: queries can hold selectors and tokens, messages should not.
std::string_view without_query(std::string_view url) { return url.substr(0, url.find('?')); }

// What one transfer has seen so far.
struct Exchange {
  HttpResponse response;
  size_t max_body_bytes = 0;
  bool too_large = false;
  bool ended_by_reader = false;
  bool headers_done = false;
  const std::function<bool(std::string_view)>* on_chunk = nullptr;  // set for stream()
  Duration last_activity{0};
};

Duration now_monotonic() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

bool is_success(int status) { return status >= 200 && status < 300; }

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line = trim({data, size * count});
  exchange.last_activity = now_monotonic();
  if (line.starts_with("HTTP/")) {  // a new answer begins (after a 100 Continue, for instance)
    exchange.response.headers.clear();
    const auto space = line.find(' ');
    exchange.response.status = space == line.npos ? 0 : std::atoi(std::string(line.substr(space + 1, 3)).c_str());
  } else if (line.empty()) {
    exchange.headers_done = exchange.response.status >= 200;
  } else if (const auto colon = line.find(':'); colon != line.npos) {
    exchange.response.headers.emplace_back(lower(trim(line.substr(0, colon))), trim(line.substr(colon + 1)));
  }
  return size * count;
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const size_t bytes = size * count;
  exchange.last_activity = now_monotonic();
  if (exchange.on_chunk && is_success(exchange.response.status)) {
    if ((*exchange.on_chunk)({data, bytes})) return bytes;
    exchange.ended_by_reader = true;
    return 0;
  }
  if (exchange.response.body.size() + bytes > exchange.max_body_bytes) {
    exchange.too_large = true;
    return 0;
  }
  exchange.response.body.append(data, bytes);
  return bytes;
}

curl_blob blob_of(const std::string& text) { return {const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY}; }

class CurlTransport final : public HttpTransport {
 public:
  CurlTransport(TlsOptions tls, size_t max_body_bytes) : tls_(std::move(tls)), max_body_bytes_(max_body_bytes) {
    global_init();
    multi_ = curl_multi_init();
    easy_ = curl_easy_init();
  }
  ~CurlTransport() override {
    curl_easy_cleanup(easy_);
    curl_multi_cleanup(multi_);
  }
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;

  Result<HttpResponse> send(const HttpRequest& request, std::stop_token stop) override {
    return perform(request, std::nullopt, nullptr, stop);
  }
  Result<HttpResponse> stream(const HttpRequest& request, Duration idle,
                              const std::function<bool(std::string_view)>& on_chunk, std::stop_token stop) override {
    return perform(request, idle, &on_chunk, stop);
  }

 private:
  void set_options(const HttpRequest& request, Exchange& exchange, const HeaderList& headers);
  void set_tls();
  Result<HttpResponse> perform(const HttpRequest& request, std::optional<Duration> idle,
                               const std::function<bool(std::string_view)>* on_chunk, std::stop_token stop);
  std::optional<Error> drive(const HttpRequest& request, std::optional<Duration> idle, Exchange& exchange,
                             std::stop_token stop);
  Error error_of(CURLcode code, const HttpRequest& request, const Exchange& exchange) const;
  bool request_was_sent() const;

  TlsOptions tls_;
  size_t max_body_bytes_;
  CURLM* multi_ = nullptr;
  CURL* easy_ = nullptr;
  HeaderList connect_to_;  // must outlive the transfer
  char error_text_[CURL_ERROR_SIZE] = {};
};

void CurlTransport::set_tls() {
  curl_easy_setopt(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!tls_.ca_pem.empty()) {
    curl_blob ca = blob_of(tls_.ca_pem);
    curl_easy_setopt(easy_, CURLOPT_CAINFO_BLOB, &ca);
  }
  if (!tls_.client_cert_pem.empty()) {
    curl_blob cert = blob_of(tls_.client_cert_pem), key = blob_of(tls_.client_key_pem);
    curl_easy_setopt(easy_, CURLOPT_SSLCERTTYPE, "PEM");
    curl_easy_setopt(easy_, CURLOPT_SSLCERT_BLOB, &cert);
    curl_easy_setopt(easy_, CURLOPT_SSLKEYTYPE, "PEM");
    curl_easy_setopt(easy_, CURLOPT_SSLKEY_BLOB, &key);
  }
  if (tls_.insecure_skip_verify) {
    curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, 0L);
  }
}

// "https://host:port/..." -> {host, port}; used to connect to one name while verifying another (tls-server-name).
std::optional<std::pair<std::string, std::string>> host_and_port(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == url.npos) return std::nullopt;
  auto authority = url.substr(scheme + 3);
  authority = authority.substr(0, authority.find_first_of("/?"));
  const auto colon = authority.rfind(':');
  const bool has_port = colon != authority.npos && authority.find(']', colon) == authority.npos;
  std::string port(has_port ? authority.substr(colon + 1) : (url.starts_with("https") ? "443" : "80"));
  return std::pair{std::string(has_port ? authority.substr(0, colon) : authority), port};
}

void CurlTransport::set_options(const HttpRequest& request, Exchange& exchange, const HeaderList& headers) {
  curl_easy_reset(easy_);  // options only: live connections stay in the multi handle
  std::string url = request.url;
  if (!tls_.server_name.empty()) {
    // curl verifies the URL's host name: put the wanted name there and connect to the real address.
    if (const auto target = host_and_port(url)) {
      const auto at = url.find(target->first);
      url.replace(at, target->first.size(), tls_.server_name);
      HeaderList connect(curl_slist_append(
          nullptr,
          fmt::format("{}:{}:{}:{}", tls_.server_name, target->second, target->first, target->second).c_str()));
      connect_to_ = std::move(connect);
      curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, connect_to_.get());
    }
  }
  curl_easy_setopt(easy_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy_, CURLOPT_TCP_KEEPIDLE, tcp_keepalive_idle_s);
  curl_easy_setopt(easy_, CURLOPT_TCP_KEEPINTVL, tcp_keepalive_interval_s);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_text_);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::max<Duration::rep>(1, request.timeout.count())));
  if (!tls_.proxy_url.empty()) curl_easy_setopt(easy_, CURLOPT_PROXY, tls_.proxy_url.c_str());
  if (!tls_.unix_socket.empty()) curl_easy_setopt(easy_, CURLOPT_UNIX_SOCKET_PATH, tls_.unix_socket.c_str());
  set_tls();
  if (request.method == "HEAD") {
    curl_easy_setopt(easy_, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET" || !request.body.empty()) {
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

// Whether any byte of the request may have left: after that a broken connection says nothing about the effect.
bool CurlTransport::request_was_sent() const {
  curl_off_t pretransfer_us = 0;
  long request_bytes = 0;
  curl_easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &pretransfer_us);
  curl_easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &request_bytes);
  return pretransfer_us > 0 && request_bytes > 0;
}

Error CurlTransport::error_of(CURLcode code, const HttpRequest& request, const Exchange& exchange) const {
  const auto where = fmt::format("{} {}", request.method, without_query(request.url));
  const std::string why = error_text_[0] != '\0' ? error_text_ : curl_easy_strerror(code);
  if (exchange.too_large)
    return {ErrorKind::invalid, fmt::format("{}: the answer is larger than {} bytes", where, max_body_bytes_), {}};
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {ErrorKind::invalid, fmt::format("{}: not a usable http or https address ({})", where, why), {}};
    case CURLE_PEER_FAILED_VERIFICATION:
      return {
          ErrorKind::invalid,
          fmt::format("{}: the server's certificate is not trusted ({}); check the CA certificate and the server name",
                      where, why),
          {}};
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      return {ErrorKind::invalid, fmt::format("{}: a certificate or key of ours cannot be used ({})", where, why), {}};
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {ErrorKind::unreachable, fmt::format("{}: the host name does not resolve ({})", where, why), {}};
    case CURLE_COULDNT_CONNECT:
      return {ErrorKind::unreachable,
              fmt::format("{}: nothing answers there ({}); is the server running?", where, why),
              {}};
    case CURLE_OPERATION_TIMEDOUT:
      return {request_was_sent() ? ErrorKind::timeout : ErrorKind::unreachable,
              fmt::format("{}: no answer within {}", where, format_duration(request.timeout)),
              {}};
    default:
      return {request_was_sent() ? ErrorKind::unknown_outcome : ErrorKind::unreachable,
              fmt::format("{}: the connection failed ({})", where, why),
              {}};
  }
}

// Runs the transfer that is already added to the multi handle. nullopt: it ended well, or as the reader wished.
std::optional<Error> CurlTransport::drive(const HttpRequest& request, std::optional<Duration> idle, Exchange& exchange,
                                          std::stop_token stop) {
  const std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi_); });
  const Duration deadline = now_monotonic() + request.timeout;
  exchange.last_activity = now_monotonic();
  for (;;) {
    int running = 0;
    curl_multi_perform(multi_, &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      if (message->data.result == CURLE_OK || exchange.ended_by_reader) return std::nullopt;
      return error_of(message->data.result, request, exchange);
    }
    if (stop.stop_requested())
      return Error{
          ErrorKind::cancelled, fmt::format("{} {}: cancelled", request.method, without_query(request.url)), {}};
    const Duration now = now_monotonic();
    const bool streaming = idle && exchange.headers_done;
    const Duration limit = streaming ? exchange.last_activity + *idle : deadline;
    if (now >= limit) {
      if (streaming) return std::nullopt;  // silence ends a stream; the caller resumes
      return error_of(CURLE_OPERATION_TIMEDOUT, request, exchange);
    }
    const int wait_ms = static_cast<int>(std::clamp<Duration::rep>((limit - now).count(), 1, poll_slice_ms));
    curl_multi_poll(multi_, nullptr, 0, wait_ms, nullptr);
  }
}

Result<HttpResponse> CurlTransport::perform(const HttpRequest& request, std::optional<Duration> idle,
                                            const std::function<bool(std::string_view)>* on_chunk,
                                            std::stop_token stop) {
  HeaderList headers;
  const auto add = [&](const std::string& line) { headers.reset(curl_slist_append(headers.release(), line.c_str())); };
  for (const auto& [name, value] : request.headers) add(fmt::format("{}: {}", name, value));
  add("Expect:");  // no 100-continue round trip before a body
  const bool has_type = std::any_of(request.headers.begin(), request.headers.end(),
                                    [](const auto& header) { return lower(header.first) == "content-type"; });
  if (!has_type) add("Content-Type:");  // curl would otherwise call every body a form

  Exchange exchange;
  exchange.max_body_bytes = max_body_bytes_;
  exchange.on_chunk = on_chunk;
  error_text_[0] = '\0';
  set_options(request, exchange, headers);
  curl_multi_add_handle(multi_, easy_);
  const auto error = drive(request, idle, exchange, stop);
  curl_multi_remove_handle(multi_, easy_);
  if (error) return std::unexpected(*error);
  return std::move(exchange.response);
}

}  // namespace

std::unique_ptr<HttpTransport> make_curl_transport(TlsOptions tls, size_t max_body_bytes) {
  return std::make_unique<CurlTransport>(std::move(tls), max_body_bytes);
}

}  // namespace homeostat::io
