#include "controller/notify/notifier.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "io/json.hpp"
#include "io/jwt.hpp"
#include "io/log.hpp"

namespace homeostat::controller {

namespace {

constexpr size_t max_waiting = 256;
constexpr int max_tries = 5;
constexpr Duration first_pause{1'000};
constexpr Duration call_timeout{5'000};

struct Message {
  api::WebhookTarget target;
  std::string body, repair;
  int tries = 0;
  Duration due{0};
};

bool needs_people(const repair::Record& record) {
  return record.phase == repair::Phase::failed || record.phase == repair::Phase::blocked;
}

class Notifier final : public Notifications {
 public:
  Notifier(kube::ClientFactory clients, io::Clock& clock)
      : clients_(std::move(clients)), clock_(clock), thread_([this](std::stop_token stop) { work(stop); }) {}

  void send(const repair::Record& record, const std::vector<api::WebhookTarget>& targets) override {
    if (targets.empty()) return;
    std::string body = notification_body(record);
    std::lock_guard lock(mutex_);
    for (const auto& target : targets) {
      if (waiting_.size() >= max_waiting) {
        io::log_warn("too many notifications wait: this one is dropped", {{"repair", record.name}});
        return;
      }
      waiting_.push_back({target, body, record.name, 0, clock_.monotonic()});
    }
    changed_.notify_one();
  }

 private:
  void work(std::stop_token stop) {
    while (!stop.stop_requested()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return !waiting_.empty(); });
      if (stop.stop_requested()) return;
      auto next = std::ranges::min_element(waiting_, {}, &Message::due);
      Duration pause = next->due - clock_.monotonic();
      if (pause > Duration{0}) {
        changed_.wait_for(lock, stop, std::min(pause, first_pause), [] { return false; });
        continue;
      }
      Message message = *next;
      waiting_.erase(next);
      lock.unlock();
      deliver(std::move(message), stop);
    }
  }

  void deliver(Message message, std::stop_token stop) {
    auto sent = post(message, stop);
    if (sent) return io::log_info("people are told", {{"repair", message.repair}, {"url", message.target.url}});
    if (++message.tries >= max_tries)
      return io::log_warn("a notification could not be delivered",
                          {{"repair", message.repair}, {"url", message.target.url}, {"error", sent.error().message}});
    message.due = clock_.monotonic() + first_pause * (1 << (message.tries - 1));
    std::lock_guard lock(mutex_);
    if (waiting_.size() < max_waiting) waiting_.push_back(std::move(message));
  }

  Result<void> post(const Message& message, std::stop_token stop) {
    io::HttpRequest request;
    request.method = "POST";
    request.url = message.target.url;
    request.headers = {{"Content-Type", "application/json"}, {"User-Agent", "homeostat"}};
    request.body = message.body;
    request.timeout = call_timeout;
    io::TlsOptions tls;
    if (!message.target.secret_name.empty()) {
      if (client_ == nullptr) client_ = clients_();
      auto secret = client_->get(kube::resources::secrets, message.target.secret_namespace, message.target.secret_name);
      if (!secret) return std::unexpected(secret.error());
      if (auto key = io::base64_decode(io::string_at(*secret, {"data", "key"})); key && !key->empty())
        request.headers.emplace_back("X-Homeostat-Signature", sign_body(*key, message.body));
      if (auto ca = io::base64_decode(io::string_at(*secret, {"data", "ca.crt"}))) tls.ca_pem = *ca;
    }
    auto answer = io::make_curl_transport(std::move(tls), 1u << 20)->send(request, stop);
    if (!answer) return std::unexpected(answer.error());
    if (answer->status >= 200 && answer->status < 300) return {};
    return fail(ErrorKind::unavailable, "the webhook answered " + std::to_string(answer->status));
  }

  kube::ClientFactory clients_;
  io::Clock& clock_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Message> waiting_;
  std::unique_ptr<kube::Client> client_;  // of the worker thread
  std::jthread thread_;                   // last: it ends before what it uses
};

}  // namespace

std::string notification_body(const repair::Record& record) {
  bool action = needs_people(record);
  // A drill says so in its first word: whoever is on call reads no further.
  std::string text = (record.fault.drill ? "DRILL: node " : "Node ") + record.node + " of pool " + record.pool + ": " +
                     repair::spoken(record.fault) + (record.fault.device.empty() ? "" : " on " + record.fault.device) +
                     ". " + (record.message.empty() ? "Its repair has begun" : record.message) + ". " +
                     (action ? "Please look at it: kubectl describe repair " + record.name : "No action is needed.");
  boost::json::object body{{"repair", record.name},
                           {"phase", repair::to_string(record.phase)},
                           {"node", record.node},
                           {"pool", record.pool},
                           {"fault",
                            {{"component", record.fault.component},
                             {"code", record.fault.code},
                             {"device", record.fault.device},
                             {"severity", record.fault.severity},
                             {"evidence", record.fault.evidence},
                             {"drill", record.fault.drill}}},
                           {"message", record.message},
                           {"actionNeeded", action},
                           {"text", text}};
  return io::to_text(body);
}

std::string sign_body(std::string_view key, std::string_view body) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(body.data()),
       body.size(), digest.data(), &size);
  std::string text = "sha256=";
  for (unsigned int i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

std::unique_ptr<Notifications> make_notifier(kube::ClientFactory clients, io::Clock& clock) {
  return std::make_unique<Notifier>(std::move(clients), clock);
}

}  // namespace homeostat::controller
