// HttpTransport over a socket and OpenSSL alone, for a program that must be small: libcurl and the two dozen libraries
// that it brings cost the agent a third of its memory. HTTP/1.1, one connection, kept alive. No proxies, no redirects.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "io/http.hpp"

namespace homeostat::io {
namespace {

constexpr size_t max_head_bytes = 1 << 16;
constexpr size_t read_bytes = 1 << 14;
constexpr int keepalive_idle_s = 30, keepalive_interval_s = 15;

Duration monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Duration(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

struct Target {
  bool tls = false;
  std::string host, port, authority, path;
};

std::optional<Target> parse_url(std::string_view url) {
  Target target;
  if (url.starts_with("https://"))
    target.tls = true;
  else if (!url.starts_with("http://"))
    return std::nullopt;
  url.remove_prefix(target.tls ? 8 : 7);
  const auto slash = std::min(url.find('/'), url.find('?'));
  auto authority = url.substr(0, slash);
  target.authority = authority;
  target.path = slash == std::string_view::npos ? "/" : std::string(url.substr(slash));
  if (target.path.front() == '?') target.path.insert(0, "/");
  if (authority.starts_with('[')) {
    const auto close = authority.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    target.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
  } else {
    target.host = authority.substr(0, authority.find(':'));
    authority.remove_prefix(target.host.size());
  }
  target.port = authority.starts_with(':') ? std::string(authority.substr(1)) : (target.tls ? "443" : "80");
  const bool sound = !target.host.empty() && url.find_first_of("\r\n @") == std::string_view::npos;
  return sound ? std::optional(target) : std::nullopt;
}

bool is_ip(const std::string& host) {
  std::array<unsigned char, 16> out{};
  return ::inet_pton(AF_INET, host.c_str(), out.data()) == 1 || ::inet_pton(AF_INET6, host.c_str(), out.data()) == 1;
}

template <class T, void (*free_it)(T*)>
struct Free {
  void operator()(T* it) const { free_it(it); }
};
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX, SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Free<SSL, SSL_free>>;
using Certificate = std::unique_ptr<X509, Free<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;

Bio bio_of(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

bool add_roots(SSL_CTX* context, const std::string& ca_pem) {
  if (ca_pem.empty()) return SSL_CTX_set_default_verify_paths(context) == 1;
  const auto bio = bio_of(ca_pem);
  int found = 0;
  while (const Certificate root{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)})
    found += X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root.get());
  ERR_clear_error();
  return found > 0;
}

bool add_identity(SSL_CTX* context, const TlsOptions& tls) {
  if (tls.client_cert_pem.empty()) return true;
  const auto bio = bio_of(tls.client_cert_pem), key_bio = bio_of(tls.client_key_pem);
  const Certificate own(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  const Key key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  if (!own || !key || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (X509* link = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    if (SSL_CTX_add0_chain_cert(context, link) != 1) X509_free(link);
  ERR_clear_error();
  return SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

// How waiting or moving bytes ended.
enum class Outcome { done, ended, timeout, stopped, broken };

// One connection, and what can be done with it until a moment (monotonic) or a stop.
class Wire {
 public:
  Wire() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Wire() {
    close();
    ::close(wake_);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  bool is_open() const { return fd_ >= 0; }
  // Idle, and the other side has neither closed it nor said anything.
  bool is_fresh() const {
    pollfd look{fd_, POLLIN, 0};
    return is_open() && ::poll(&look, 1, 0) == 0;
  }
  void close() {
    session_.reset();
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void wake() const {
    const std::uint64_t one = 1;
    if (::write(wake_, &one, sizeof one) < 0) return;  // it is full: the waiter is awake already
  }
  void calm() const {
    std::uint64_t count = 0;
    while (::read(wake_, &count, sizeof count) > 0) {
    }
  }

  Outcome connect(const sockaddr* address, socklen_t size, Duration until) {
    close();
    fd_ = ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return Outcome::broken;
    if (address->sa_family != AF_UNIX) set_tcp_options();
    if (::connect(fd_, address, size) == 0) return Outcome::done;
    if (errno != EINPROGRESS) return Outcome::broken;
    if (const auto waited = wait(POLLOUT, until); waited != Outcome::done) return waited;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    return error == 0 ? Outcome::done : Outcome::broken;
  }

  Outcome shake_hands(SSL_CTX* context, const std::string& name, bool verify, Duration until) {
    session_.reset(SSL_new(context));
    if (!session_ || SSL_set_fd(session_.get(), fd_) != 1) return Outcome::broken;
    if (is_ip(name))
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session_.get()), name.c_str());
    else if (SSL_set_tlsext_host_name(session_.get(), name.c_str()) != 1 ||
             SSL_set1_host(session_.get(), name.c_str()) != 1)
      return Outcome::broken;
    SSL_set_verify(session_.get(), verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    size_t unused = 0;
    return move(until, unused, [](SSL* session, size_t&) { return SSL_connect(session); });
  }
  // X509_V_OK, or why the server's certificate was refused.
  long verify_result() const { return session_ ? SSL_get_verify_result(session_.get()) : X509_V_OK; }

  Outcome write_all(std::string_view bytes, Duration until, size_t& sent) {
    sent = 0;
    while (sent < bytes.size()) {
      const auto rest = bytes.substr(sent);
      size_t count = 0;
      Outcome outcome = Outcome::done;
      if (session_)
        outcome = move(until, count,
                       [rest](SSL* session, size_t& n) { return SSL_write_ex(session, rest.data(), rest.size(), &n); });
      else if (const ssize_t n = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL); n >= 0)
        count = static_cast<size_t>(n);
      else
        outcome = errno == EAGAIN ? wait(POLLOUT, until) : errno == EINTR ? Outcome::done : Outcome::broken;
      sent += count;
      if (outcome != Outcome::done) return outcome;
    }
    return Outcome::done;
  }

  Outcome read_some(std::vector<char>& into, Duration until, size_t& count) {
    count = 0;
    if (session_)
      return move(until, count,
                  [&into](SSL* session, size_t& n) { return SSL_read_ex(session, into.data(), into.size(), &n); });
    for (;;) {
      const ssize_t n = ::recv(fd_, into.data(), into.size(), 0);
      if (n == 0) return Outcome::ended;
      if (n > 0) {
        count = static_cast<size_t>(n);
        return Outcome::done;
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return Outcome::broken;
      if (const auto waited = wait(POLLIN, until); waited != Outcome::done) return waited;
    }
  }

 private:
  void set_tcp_options() const {
    const int yes = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    ::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_idle_s, sizeof keepalive_idle_s);
    ::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPINTVL, &keepalive_interval_s, sizeof keepalive_interval_s);
  }

  Outcome wait(short events, Duration until) const {
    for (;;) {
      const auto left = until - monotonic();
      if (left <= Duration(0)) return Outcome::timeout;
      std::array<pollfd, 2> polled{pollfd{fd_, events, 0}, pollfd{wake_, POLLIN, 0}};
      const int count =
          ::poll(polled.data(), polled.size(), static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
      if (count < 0 && errno != EINTR) return Outcome::broken;
      if (count > 0 && polled[1].revents != 0) return Outcome::stopped;
      if (count > 0) return Outcome::done;
    }
  }

  template <class Operation>
  Outcome move(Duration until, size_t& count, Operation operation) {
    for (;;) {
      ERR_clear_error();
      const int result = operation(session_.get(), count);
      if (result == 1) return Outcome::done;
      Outcome waited = Outcome::broken;
      switch (SSL_get_error(session_.get(), result)) {
        case SSL_ERROR_WANT_READ:
          waited = wait(POLLIN, until);
          break;
        case SSL_ERROR_WANT_WRITE:
          waited = wait(POLLOUT, until);
          break;
        case SSL_ERROR_ZERO_RETURN:
          return Outcome::ended;
        default:
          if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) return Outcome::ended;
          return Outcome::broken;
      }
      if (waited != Outcome::done) return waited;
    }
  }

  int fd_ = -1;
  int wake_;
  Session session_;
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Cuts an answer out of a stream of bytes; whoever reads feeds it.
class AnswerParser {
 public:
  explicit AnswerParser(bool without_body) : without_body_(without_body) {}

  HttpResponse response;
  bool begun() const { return begun_; }
  bool head_done() const { return state_ >= State::body; }
  bool done() const { return state_ == State::done; }
  bool close_after() const { return close_after_; }
  const char* trouble() const { return trouble_; }  // nullptr while all is well

  // on_body returns false to end it.
  template <class OnBody>
  void feed(std::string_view bytes, OnBody on_body) {
    begun_ |= !bytes.empty();
    while (!bytes.empty() && !trouble_ && !done()) {
      if (state_ == State::body || state_ == State::chunk) {
        const auto piece = bytes.substr(0, static_cast<size_t>(std::min<std::uint64_t>(left_, bytes.size())));
        bytes.remove_prefix(piece.size());
        left_ -= until_close_ ? 0 : piece.size();
        if (!on_body(piece)) return;
        if (left_ == 0) state_ = state_ == State::body ? State::done : State::chunk_end;
        continue;
      }
      const auto end = bytes.find('\n');
      line_.append(bytes.substr(0, end));
      if (line_.size() > max_head_bytes) trouble_ = "a line of the answer's head is too long";
      bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
      if (end == std::string_view::npos) return;
      take_line(trim(line_));
      line_.clear();
    }
  }
  // The other side has closed the connection: good for an answer without a length.
  void close() {
    if (state_ == State::body && until_close_)
      state_ = State::done;
    else if (!done())
      trouble_ = "the connection was closed in the middle of the answer";
    close_after_ = true;
  }

 private:
  enum class State { status, header, body, chunk_size, chunk, chunk_end, trailer, done };

  void take_line(std::string_view line) {
    head_bytes_ += line.size();
    if (head_bytes_ > max_head_bytes && state_ <= State::header) trouble_ = "the answer's head is too long";
    switch (state_) {
      case State::status:
        return take_status(line);
      case State::header:
        return line.empty() ? end_head() : take_header(line);
      case State::chunk_size: {
        const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), left_, 16);
        if (error != std::errc{} || end == line.data()) trouble_ = "a chunk of the answer has no size";
        state_ = left_ == 0 ? State::trailer : State::chunk;
        return;
      }
      case State::chunk_end:
        state_ = State::chunk_size;
        return;
      case State::trailer:
        if (line.empty()) state_ = State::done;
        return;
      case State::body:
      case State::chunk:
      case State::done:
        return;
    }
  }

  void take_status(std::string_view line) {
    const auto space = line.find(' ');
    if (!line.starts_with("HTTP/1.") || space == std::string_view::npos) {
      trouble_ = "it does not answer in HTTP";
      return;
    }
    response.status = 0;
    const auto digits = line.substr(space + 1, 3);
    std::from_chars(digits.data(), digits.data() + digits.size(), response.status);
    if (response.status < 100) trouble_ = "it does not answer in HTTP";
    close_after_ = line.starts_with("HTTP/1.0");
    state_ = State::header;
  }

  void take_header(std::string_view line) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) return;
    response.headers.emplace_back(lower(trim(line.substr(0, colon))), trim(line.substr(colon + 1)));
  }

  void end_head() {
    if (response.status < 200) {  // a 100 Continue: the answer itself follows
      response.headers.clear();
      state_ = State::status;
      return;
    }
    if (lower(response.header("connection").value_or("")) == "close") close_after_ = true;
    if (without_body_ || response.status == 204 || response.status == 304) {
      state_ = State::done;
    } else if (lower(response.header("transfer-encoding").value_or("")).find("chunked") != std::string::npos) {
      state_ = State::chunk_size;
    } else if (const auto length = response.header("content-length")) {
      const auto [end, error] = std::from_chars(length->data(), length->data() + length->size(), left_);
      if (error != std::errc{}) trouble_ = "the answer's length is no number";
      state_ = left_ == 0 ? State::done : State::body;
    } else {
      until_close_ = true;
      left_ = ~std::uint64_t{0};
      state_ = State::body;
    }
  }

  State state_ = State::status;
  std::string line_;
  std::uint64_t left_ = 0;
  size_t head_bytes_ = 0;
  bool without_body_, until_close_ = false, close_after_ = false, begun_ = false;
  const char* trouble_ = nullptr;
};

class SocketTransport final : public HttpTransport {
 public:
  SocketTransport(TlsOptions tls, size_t max_body_bytes)
      : tls_(std::move(tls)), max_body_bytes_(max_body_bytes), buffer_(read_bytes) {}

  Result<HttpResponse> send(const HttpRequest& request, std::stop_token stop) override {
    return perform(request, std::nullopt, nullptr, stop);
  }
  Result<HttpResponse> stream(const HttpRequest& request, Duration idle,
                              const std::function<bool(std::string_view)>& on_chunk, std::stop_token stop) override {
    return perform(request, idle, &on_chunk, stop);
  }

 private:
  using OnChunk = std::function<bool(std::string_view)>;

  Result<HttpResponse> perform(const HttpRequest& request, std::optional<Duration> idle, const OnChunk* on_chunk,
                               const std::stop_token& stop);
  Result<HttpResponse> exchange(const HttpRequest& request, const Target& target, std::optional<Duration> idle,
                                const OnChunk* on_chunk, Duration until, bool& nothing_came);
  std::optional<Error> open(const HttpRequest& request, const Target& target, Duration until);
  std::optional<Error> dial(const HttpRequest& request, const Target& target, Duration until);
  std::optional<Error> secure(const HttpRequest& request, const Target& target, Duration until);
  Error error_of(Outcome outcome, const HttpRequest& request, bool sent, std::string_view why) const;

  TlsOptions tls_;
  size_t max_body_bytes_;
  std::vector<char> buffer_;
  Context context_;
  Wire wire_;
  std::string connected_to_;
};

// Without its query: queries can hold selectors and tokens, messages should not.
std::string where(const HttpRequest& request) {
  return request.method + " " + request.url.substr(0, request.url.find('?'));
}

Error SocketTransport::error_of(Outcome outcome, const HttpRequest& request, bool sent, std::string_view why) const {
  const auto at = where(request);
  if (outcome == Outcome::stopped) return {ErrorKind::cancelled, at + ": stopped", {}};
  if (outcome == Outcome::timeout)
    return {sent ? ErrorKind::timeout : ErrorKind::unreachable,
            at + ": no answer within " + format_duration(request.timeout),
            {}};
  std::string message = at;
  message.append(": the connection failed (").append(why).append(")");
  return {sent ? ErrorKind::unknown_outcome : ErrorKind::unreachable, std::move(message), {}};
}

std::optional<Error> SocketTransport::dial(const HttpRequest& request, const Target& target, Duration until) {
  if (!tls_.unix_socket.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (tls_.unix_socket.size() >= sizeof address.sun_path)
      return Error{ErrorKind::invalid, where(request) + ": the unix socket's path is too long", {}};
    std::copy(tls_.unix_socket.begin(), tls_.unix_socket.end(), std::begin(address.sun_path));
    const auto outcome = wire_.connect(reinterpret_cast<const sockaddr*>(&address), sizeof address, until);
    if (outcome == Outcome::done) return std::nullopt;
    return error_of(outcome, request, false, std::strerror(errno));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  // In a pod the API server is an address: no resolver is asked and none can make us wait.
  hints.ai_flags = is_ip(target.host) ? AI_NUMERICHOST | AI_NUMERICSERV : AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found); failed != 0)
    return Error{ErrorKind::unreachable,
                 where(request) + ": the host name does not resolve (" + ::gai_strerror(failed) + ")",
                 {}};
  const std::unique_ptr<addrinfo, Free<addrinfo, ::freeaddrinfo>> addresses(found);
  Outcome outcome = Outcome::broken;
  int error = 0;
  for (const auto* next = found; next != nullptr && outcome == Outcome::broken; next = next->ai_next) {
    outcome = wire_.connect(next->ai_addr, next->ai_addrlen, until);
    error = errno;
  }
  if (outcome == Outcome::done) return std::nullopt;
  if (outcome == Outcome::broken)
    return Error{ErrorKind::unreachable,
                 where(request) + ": nothing answers there (" + std::strerror(error) + "); is the server running?",
                 {}};
  return error_of(outcome, request, false, "");
}

std::optional<Error> SocketTransport::secure(const HttpRequest& request, const Target& target, Duration until) {
  if (!context_) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!context_) return Error{ErrorKind::internal, "OpenSSL cannot be started", {}};
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    // An idle connection keeps no buffers.
    SSL_CTX_set_mode(context_.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
    const bool good =
        add_identity(context_.get(), tls_) && (tls_.insecure_skip_verify || add_roots(context_.get(), tls_.ca_pem));
    if (!good) {
      context_.reset();
      return Error{ErrorKind::invalid, where(request) + ": a certificate or key of ours cannot be used", {}};
    }
  }
  const auto& name = tls_.server_name.empty() ? target.host : tls_.server_name;
  const auto outcome = wire_.shake_hands(context_.get(), name, !tls_.insecure_skip_verify, until);
  if (outcome == Outcome::done) return std::nullopt;
  if (const long refused = wire_.verify_result(); outcome == Outcome::broken && refused != X509_V_OK)
    return Error{ErrorKind::invalid,
                 where(request) + ": the server's certificate is not trusted (" +
                     X509_verify_cert_error_string(refused) + "); check the CA certificate and the server name",
                 {}};
  return error_of(outcome, request, false, "TLS could not be agreed");
}

std::optional<Error> SocketTransport::open(const HttpRequest& request, const Target& target, Duration until) {
  wire_.close();
  connected_to_.clear();
  auto failed = dial(request, target, until);
  if (!failed && target.tls) failed = secure(request, target, until);
  if (failed)
    wire_.close();
  else
    connected_to_ = (target.tls ? "https://" : "http://") + target.authority;
  return failed;
}

std::string head_of(const HttpRequest& request, const Target& target) {
  std::string head;
  head.reserve(2048 + request.body.size());
  head.append(request.method).append(" ").append(target.path).append(" HTTP/1.1\r\nHost: ").append(target.authority);
  head.append("\r\n");
  for (const auto& [name, value] : request.headers) head.append(name).append(": ").append(value).append("\r\n");
  if (!request.body.empty() || (request.method != "GET" && request.method != "HEAD"))
    head.append("Content-Length: ").append(std::to_string(request.body.size())).append("\r\n");
  return head.append("\r\n");
}

// One request on the open connection.
Result<HttpResponse> SocketTransport::exchange(const HttpRequest& request, const Target& target,
                                               std::optional<Duration> idle, const OnChunk* on_chunk, Duration until,
                                               bool& nothing_came) {
  nothing_came = true;
  size_t sent = 0;
  // Head and body leave in one piece.
  if (const auto outcome = wire_.write_all(head_of(request, target) + request.body, until, sent);
      outcome != Outcome::done)
    return std::unexpected(error_of(outcome, request, sent > 0, std::strerror(errno)));
  AnswerParser parser(request.method == "HEAD");
  bool too_large = false, ended_by_reader = false;
  const auto on_body = [&](std::string_view piece) {
    if (on_chunk != nullptr && parser.response.status < 300) {
      ended_by_reader = !(*on_chunk)(piece);
      return !ended_by_reader;
    }
    too_large = parser.response.body.size() + piece.size() > max_body_bytes_;
    if (!too_large) parser.response.body.append(piece);
    return !too_large;
  };
  while (!parser.done() && !ended_by_reader) {
    size_t count = 0;
    const auto deadline = idle && parser.head_done() ? monotonic() + *idle : until;
    const auto outcome = wire_.read_some(buffer_, deadline, count);
    if (outcome == Outcome::timeout && idle && parser.head_done()) break;  // nothing more came for that long
    if (outcome == Outcome::ended && !parser.begun())
      return std::unexpected(error_of(Outcome::broken, request, true, "it was closed without an answer"));
    nothing_came = nothing_came && !parser.begun();
    if (outcome == Outcome::ended)
      parser.close();
    else if (outcome != Outcome::done)
      return std::unexpected(error_of(outcome, request, true, std::strerror(errno)));
    parser.feed({buffer_.data(), count}, on_body);
    nothing_came = false;
    if (too_large)
      return fail(ErrorKind::invalid,
                  where(request) + ": the answer is larger than " + std::to_string(max_body_bytes_) + " bytes");
    if (parser.trouble() != nullptr) return std::unexpected(error_of(Outcome::broken, request, true, parser.trouble()));
  }
  if (!parser.done() || parser.close_after()) wire_.close();
  return std::move(parser.response);
}

Result<HttpResponse> SocketTransport::perform(const HttpRequest& request, std::optional<Duration> idle,
                                              const OnChunk* on_chunk, const std::stop_token& stop) {
  const auto target = parse_url(request.url);
  if (!target) return fail(ErrorKind::invalid, where(request) + ": not a usable http or https address");
  if (!tls_.proxy_url.empty())
    return fail(ErrorKind::invalid,
                where(request) + ": this program does not speak through a proxy; take proxy-url out");
  wire_.calm();
  const std::stop_callback wake(stop, [this] { wire_.wake(); });
  const Duration until = monotonic() + request.timeout;
  const std::string wanted = (target->tls ? "https://" : "http://") + target->authority;
  bool reused = wire_.is_fresh() && connected_to_ == wanted;
  for (;;) {
    if (!reused)
      if (const auto failed = open(request, *target, until)) return std::unexpected(*failed);
    bool nothing_came = false;
    auto response = exchange(request, *target, idle, on_chunk, until, nothing_came);
    if (response) return response;
    wire_.close();
    const bool broke =
        response.error().kind == ErrorKind::unknown_outcome || response.error().kind == ErrorKind::unreachable;
    // A server that closed an idle connection in the very moment has not looked at the request.
    if (!reused || !nothing_came || !broke) return response;
    reused = false;
  }
}

}  // namespace

std::unique_ptr<HttpTransport> make_socket_transport(TlsOptions tls, size_t max_body_bytes) {
  return std::make_unique<SocketTransport>(std::move(tls), max_body_bytes);
}

}  // namespace homeostat::io
