#include "agent/metrics_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>
#include <thread>
#include <vector>

#include "core/time.hpp"

namespace homeostat::agent {

namespace {

constexpr size_t max_connections = 8;
constexpr size_t max_request_bytes = 4096;
constexpr Duration connection_bound{5'000};

Duration monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Duration(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

struct Connection {
  int fd = -1;
  Duration until{0};
  std::string request, answer;
  size_t sent = 0;
  bool closing = false;
};

std::string answer_of(std::string_view status, std::string_view type, std::string_view body) {
  std::string out;
  out.reserve(body.size() + 160);
  out.append("HTTP/1.1 ").append(status).append("\r\nContent-Type: ").append(type);
  out.append("\r\nContent-Length: ").append(std::to_string(body.size()));
  out.append("\r\nConnection: close\r\n\r\n").append(body);
  return out;
}

constexpr std::string_view plain = "text/plain; charset=utf-8";

std::string answer_to(std::string_view request, const MetricsServerHandlers& handlers) {
  const auto line = request.substr(0, request.find("\r\n"));
  const auto first = line.find(' '), second = line.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos)
    return answer_of("400 Bad Request", plain, "This is not HTTP.\n");
  if (line.substr(0, first) != "GET") return answer_of("405 Method Not Allowed", plain, "Only GET is answered.\n");
  auto path = line.substr(first + 1, second - first - 1);
  path = path.substr(0, path.find('?'));
  if (path == "/metrics") return answer_of("200 OK", "text/plain; version=0.0.4; charset=utf-8", handlers.metrics());
  if (path == "/healthz") {
    const auto illness = handlers.illness();
    return illness.empty() ? answer_of("200 OK", plain, "ok\n")
                           : answer_of("503 Service Unavailable", plain, illness + "\n");
  }
  return answer_of("404 Not Found", plain, "Ask for /metrics or /healthz.\n");
}

class Server final : public MetricsServer {
 public:
  Server(int listener, int port, MetricsServerHandlers handlers)
      : listener_(listener),
        port_(port),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        handlers_(std::move(handlers)) {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  ~Server() override {
    thread_.request_stop();
    const std::uint64_t one = 1;
    if (::write(wake_, &one, sizeof one) > 0) thread_.join();
    for (const auto& connection : connections_) ::close(connection.fd);
    ::close(listener_);
    ::close(wake_);
  }
  int port() const override { return port_; }

 private:
  void serve(const std::stop_token& stop) {
    std::vector<pollfd> polled;
    while (!stop.stop_requested()) {
      polled.assign({{wake_, POLLIN, 0}, {listener_, POLLIN, 0}});
      // Whoever comes when all places are taken waits in the kernel's short queue.
      if (connections_.size() >= max_connections) polled[1].events = 0;
      for (const auto& connection : connections_)
        polled.push_back({connection.fd, static_cast<short>(connection.answer.empty() ? POLLIN : POLLOUT), 0});
      if (::poll(polled.data(), polled.size(), connections_.empty() ? -1 : 500) < 0 && errno != EINTR) return;
      for (size_t i = 2; i < polled.size(); ++i)
        if (polled[i].revents != 0) go_on(connections_[i - 2]);
      if (polled[1].revents != 0) accept();
      drop_done();
    }
  }

  void accept() {
    Connection connection;
    connection.fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection.fd < 0) return;
    connection.until = monotonic() + connection_bound;
    connections_.push_back(std::move(connection));
  }

  void go_on(Connection& connection) const {
    if (connection.answer.empty()) read_request(connection);
    if (!connection.answer.empty()) send_answer(connection);
  }

  void read_request(Connection& connection) const {
    std::array<char, 1024> buffer{};
    const ssize_t count = ::recv(connection.fd, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
      connection.closing = count == 0 || (errno != EAGAIN && errno != EINTR);
      return;
    }
    connection.request.append(buffer.data(), static_cast<size_t>(count));
    if (connection.request.find("\r\n\r\n") != std::string::npos)
      connection.answer = answer_to(connection.request, handlers_);
    else if (connection.request.size() > max_request_bytes)
      connection.answer = answer_of("431 Request Header Fields Too Large", plain, "The request is too long.\n");
  }

  static void send_answer(Connection& connection) {
    while (connection.sent < connection.answer.size()) {
      const ssize_t count = ::send(connection.fd, connection.answer.data() + connection.sent,
                                   connection.answer.size() - connection.sent, MSG_NOSIGNAL);
      if (count < 0) {
        connection.closing = errno != EAGAIN && errno != EINTR;
        return;
      }
      connection.sent += static_cast<size_t>(count);
    }
    ::shutdown(connection.fd, SHUT_WR);
    connection.closing = true;
  }

  void drop_done() {
    const auto now = monotonic();
    std::erase_if(connections_, [now](const Connection& connection) {
      const bool over = connection.closing || now >= connection.until;
      if (over) ::close(connection.fd);
      return over;
    });
  }

  int listener_, port_, wake_;
  MetricsServerHandlers handlers_;
  std::vector<Connection> connections_;
  std::jthread thread_;
};

std::unexpected<Error> bad_address(const std::string& address) {
  return fail(ErrorKind::invalid, "Metrics cannot be served on \"" + address +
                                      "\": write an address of this machine and a port, such as :9477.");
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& address,
                                                            MetricsServerHandlers handlers) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return bad_address(address);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
  if (error != std::errc{} || end != address.data() + address.size() || port > 65535) return bad_address(address);
  auto host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  // Every address, of both families where the machine has both.
  if (host.empty()) host = "::";
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  const bool is_four = ::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1;
  if (!is_four && ::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1) return bad_address(address);
  const auto bind_to = [](const auto& where) {
    const int fd =
        ::socket(reinterpret_cast<const sockaddr*>(&where)->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return fd;
    const int yes = 1, no = 0;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) return fd;
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
  };
  int fd = is_four ? bind_to(four) : bind_to(six);
  if (fd < 0 && host == "::" && errno != EADDRINUSE) fd = bind_to(four);  // a machine without IPv6
  sockaddr_in6 got{};
  socklen_t size = sizeof got;
  if (fd < 0 || ::listen(fd, 8) != 0 || ::getsockname(fd, reinterpret_cast<sockaddr*>(&got), &size) != 0) {
    const std::string why = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    return fail(ErrorKind::already_exists, "Metrics cannot be served on " + address + ": " + why + ".");
  }
  return std::make_unique<Server>(fd, ntohs(got.sin6_port), std::move(handlers));
}

}  // namespace homeostat::agent
