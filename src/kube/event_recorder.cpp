#include "kube/event_recorder.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/meta.hpp"

namespace homeostat::kube {
namespace {
constexpr size_t max_waiting = 256;
constexpr size_t max_remembered = 1024;
constexpr size_t max_message_bytes = 1000;
constexpr Duration repeat_window{600'000};
constexpr std::chrono::seconds flush_bound{2};
}  // namespace

class EventRecorder::Impl {
 public:
  Impl(ClientFactory clients, std::string component, std::string instance, io::Clock& clock)
      : clients_(std::move(clients)),
        component_(std::move(component)),
        instance_(std::move(instance)),
        clock_(clock),
        thread_([this](std::stop_token stop) { run(stop); }) {}

  ~Impl() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, flush_bound, [&] { return waiting_.empty() && !sending_; });
    }
    thread_.request_stop();
  }

  void record(const Resource& resource, const Object& about, EventType type, std::string_view reason,
              std::string_view message);

 private:
  struct Sent {
    std::string ns, name;
    std::int64_t count = 1;
    Duration last{0};
  };

  void run(std::stop_token stop);
  void send(Client& client, const Object& event);
  bool raise_count(Client& client, Sent& sent, const Object& event);
  static std::string identity_of(const Object& event);

  ClientFactory clients_;
  std::string component_, instance_;
  io::Clock& clock_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Object> waiting_;
  bool sending_ = false;
  std::uint64_t dropped_ = 0;
  std::uint64_t serial_ = 0;
  std::map<std::string, Sent> sent_;  // the thread's own
  std::jthread thread_;               // last: ends before what it uses
};

void EventRecorder::Impl::record(const Resource& resource, const Object& about, EventType type, std::string_view reason,
                                 std::string_view message) {
  const std::string ns = namespace_of(about).empty() ? "default" : namespace_of(about);
  const std::string now = meta_time(clock_.now());
  if (message.size() > max_message_bytes) {
    message = message.substr(0, max_message_bytes);
    while (!message.empty() && (static_cast<unsigned char>(message.back()) & 0xc0) == 0x80)
      message.remove_suffix(1);  // no half characters
    if (!message.empty() && (static_cast<unsigned char>(message.back()) & 0x80) != 0) message.remove_suffix(1);
  }
  boost::json::object involved{{"apiVersion", resource.api_version()},
                               {"kind", resource.kind},
                               {"name", name_of(about)},
                               {"uid", uid_of(about)}};
  if (!namespace_of(about).empty()) involved["namespace"] = namespace_of(about);
  std::lock_guard lock(mutex_);
  if (waiting_.size() >= max_waiting) {
    ++dropped_;
    return;
  }
  const auto unique = short_hash(fmt::format("{}/{}/{}/{}/{}", instance_, clock_.now().time_since_epoch().count(),
                                             uid_of(about), reason, ++serial_));
  Object event = new_object(resources::events, ns, fmt::format("{}.{}", name_of(about), unique));
  event["involvedObject"] = std::move(involved);
  event["type"] = type == EventType::normal ? "Normal" : "Warning";
  event["reason"] = reason;
  event["message"] = message;
  event["source"] = boost::json::object{{"component", component_}, {"host", instance_}};
  event["reportingComponent"] = component_;
  event["reportingInstance"] = instance_;
  event["firstTimestamp"] = now;
  event["lastTimestamp"] = now;
  event["count"] = 1;
  waiting_.push_back(std::move(event));
  changed_.notify_all();
}

std::string EventRecorder::Impl::identity_of(const Object& event) {
  return io::string_at(event, {"involvedObject", "uid"}) + "\n" + io::string_at(event, {"involvedObject", "name"}) +
         "\n" + io::string_at(event, {"reason"}) + "\n" + io::string_at(event, {"message"});
}

bool EventRecorder::Impl::raise_count(Client& client, Sent& sent, const Object& event) {
  const boost::json::object patch{{"count", sent.count + 1},
                                  {"lastTimestamp", io::string_at(event, {"lastTimestamp"})}};
  if (!client.patch(resources::events, sent.ns, sent.name, PatchType::merge, patch)) return false;
  ++sent.count;
  sent.last = clock_.monotonic();
  return true;
}

void EventRecorder::Impl::send(Client& client, const Object& event) {
  const Duration now = clock_.monotonic();
  std::erase_if(sent_, [&](const auto& entry) { return now - entry.second.last > repeat_window; });
  const std::string identity = identity_of(event);
  if (const auto known = sent_.find(identity); known != sent_.end() && raise_count(client, known->second, event))
    return;
  if (const auto created = client.create(resources::events, namespace_of(event), event); !created) {
    io::log_warn("an event was not written",
                 {{"reason", io::string_at(event, {"reason"})}, {"error", created.error().message}});
    return;
  }
  if (sent_.size() < max_remembered) sent_[identity] = {namespace_of(event), name_of(event), 1, now};
}

void EventRecorder::Impl::run(std::stop_token stop) {
  const auto client = clients_();
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
    const Object event = std::move(waiting_.front());
    waiting_.pop_front();
    sending_ = true;
    const auto dropped = std::exchange(dropped_, 0);
    lock.unlock();
    if (dropped > 0) io::log_warn("events were dropped, too many waited", {{"count", std::to_string(dropped)}});
    send(*client, event);
    lock.lock();
    sending_ = false;
    changed_.notify_all();
    if (stop.stop_requested()) return;
  }
}

EventRecorder::EventRecorder(ClientFactory clients, std::string component, std::string instance, io::Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(clients), std::move(component), std::move(instance), clock)) {}
EventRecorder::~EventRecorder() = default;

void EventRecorder::record(const Resource& resource, const Object& about, EventType type, std::string_view reason,
                           std::string_view message) {
  impl_->record(resource, about, type, reason, message);
}

}  // namespace homeostat::kube
