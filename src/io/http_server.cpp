#include "io/http_server.hpp"

#include <httplib.h>  // its features (TLS, zlib) are defined by src/io/CMakeLists.txt, as the library was built
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include <atomic>
#include <thread>

namespace homeostat::io {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

ServerRequest convert(const httplib::Request& from) {
  ServerRequest to;
  to.method = from.method;
  to.path = from.path;
  for (const auto& [name, value] : from.params) to.query.emplace_back(name, value);
  for (const auto& [name, value] : from.headers) to.headers.emplace_back(lower(name), value);
  to.body = from.body;
  to.remote_address = from.remote_addr;
  return to;
}

class Server final : public HttpServer {
 public:
  Server(std::unique_ptr<httplib::Server> server, Handler handler)
      : server_(std::move(server)), handler_(std::move(handler)) {}
  ~Server() override { stop(); }

  Result<void> listen(const HttpServerOptions& options) {
    server_->new_task_queue = [threads = options.threads] { return new httplib::ThreadPool(threads); };
    server_->set_payload_max_length(options.max_body_bytes);
    server_->set_read_timeout(options.read_timeout);
    server_->set_write_timeout(options.write_timeout);
    server_->set_keep_alive_timeout(5);
    server_->set_tcp_nodelay(true);
    // httplib's own choice, SO_REUSEPORT, would let a second server take the same port unnoticed.
    server_->set_socket_options([](socket_t sock) {
      int yes = 1;
      ::setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    auto serve = [this](const httplib::Request& request, httplib::Response& response) { answer(request, response); };
    const std::string any = "[\\s\\S]*";
    server_->Get(any, serve).Post(any, serve).Put(any, serve).Patch(any, serve).Delete(any, serve).Options(any, serve);
    if (options.port == 0) {
      port_ = server_->bind_to_any_port(options.address);
      if (port_ <= 0)
        return fail(ErrorKind::invalid,
                    "cannot listen on " + options.address + ": the address is not one of this machine's");
    } else {
      port_ = options.port;
      if (!server_->bind_to_port(options.address, port_))
        return fail(ErrorKind::already_exists, "cannot listen on " + options.address + ":" + std::to_string(port_) +
                                                   ": the port is taken or the address is not one of this machine's");
    }
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    // The socket listens already; but stop() is heard only once the loop runs.
    for (int tries = 0; tries < 5000 && !server_->is_running(); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  }

  int port() const override { return port_; }

  void stop() override {
    if (!thread_.joinable()) return;
    stopping_ = true;
    server_->stop();
    thread_.join();
  }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) {
    ServerResponse result;
    try {
      result = handler_(convert(request));
    } catch (const std::exception&) {
      result = {};
      result.status = 500;
      result.body = R"({"error":{"code":"Internal","message":"the server failed to answer; its log says why"}})";
    }
    response.status = result.status;
    for (const auto& [name, value] : result.headers) response.set_header(name, value);
    if (!result.stream) return response.set_content(result.body, result.content_type);
    response.set_chunked_content_provider(
        result.content_type, [this, stream = std::move(result.stream)](size_t, httplib::DataSink& sink) {
          bool more =
              !stopping_ && stream([&sink](std::string_view chunk) { return sink.write(chunk.data(), chunk.size()); });
          if (!more) sink.done();
          return true;
        });
  }

  std::unique_ptr<httplib::Server> server_;
  Handler handler_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  int port_ = 0;
};

Result<std::unique_ptr<httplib::Server>> make_tls_server(const HttpServerOptions& options) {
  using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
  Bio cert_bio(BIO_new_mem_buf(options.cert_pem.data(), static_cast<int>(options.cert_pem.size())), BIO_free_all);
  Bio key_bio(BIO_new_mem_buf(options.key_pem.data(), static_cast<int>(options.key_pem.size())), BIO_free_all);
  std::unique_ptr<X509, decltype(&X509_free)> cert(PEM_read_bio_X509(cert_bio.get(), nullptr, nullptr, nullptr),
                                                   X509_free);
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  if (!cert || !key) return fail(ErrorKind::invalid, "the server's certificate or key cannot be read as PEM");
  auto server = std::make_unique<httplib::SSLServer>(cert.get(), key.get());
  if (!server->is_valid()) return fail(ErrorKind::invalid, "the server's certificate and key do not belong together");
  return server;
}

}  // namespace

std::string_view ServerRequest::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_case_name) return value;
  return {};
}

std::string_view ServerRequest::query_value(std::string_view wanted) const {
  for (const auto& [name, value] : query)
    if (name == wanted) return value;
  return {};
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, Handler handler) {
  std::unique_ptr<httplib::Server> inner;
  if (options.cert_pem.empty() && options.key_pem.empty()) {
    inner = std::make_unique<httplib::Server>();
  } else {
    auto tls = make_tls_server(options);
    if (!tls) return std::unexpected(tls.error());
    inner = std::move(*tls);
  }
  auto server = std::make_unique<Server>(std::move(inner), std::move(handler));
  if (auto listening = server->listen(options); !listening) return std::unexpected(listening.error());
  return server;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned char x[SHA256_DIGEST_LENGTH], y[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), x);
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), y);
  return CRYPTO_memcmp(x, y, sizeof x) == 0;
}

}  // namespace homeostat::io
