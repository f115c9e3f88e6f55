#include "kube/informer.hpp"

#include <boost/json.hpp>

#include "io/log.hpp"
#include "kube/meta.hpp"
#include "kube/reflector.hpp"

namespace homeostat::kube {

Informer::Informer(ClientFactory clients, Resource resource, InformerOptions options, io::Clock& clock,
                   io::Random& random)
    : clients_(std::move(clients)),
      resource_(std::move(resource)),
      options_(std::move(options)),
      clock_(clock),
      random_(random) {}

void Informer::subscribe(Subscriber subscriber) { subscribers_.push_back(std::move(subscriber)); }

bool Informer::synced() const {
  std::lock_guard lock(mutex_);
  return synced_;
}

bool Informer::wait_synced(Duration timeout, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  return synced_changed_.wait_for(lock, stop, timeout, [&] { return synced_; });
}

void Informer::mark_synced() {
  std::lock_guard lock(mutex_);
  synced_ = true;
  synced_changed_.notify_all();
}

void Informer::tell(const StoreChange& change) {
  for (const auto& subscriber : subscribers_) subscriber(change.key, change.old, change.now);
}

void Informer::adopt(std::vector<Object> items) {
  std::vector<ObjectPtr> objects;
  objects.reserve(items.size());
  for (auto& item : items) objects.push_back(std::make_shared<const Object>(std::move(item)));
  // What the new list lacks was deleted while nobody looked: told as a deletion with the last state that we knew.
  for (const auto& change : store_.replace_all(std::move(objects))) tell(change);
  mark_synced();
}

Result<void> Informer::relist() {
  auto client = clients_();
  auto list = client->list(resource_, options_.ns, {options_.label_selector, options_.field_selector, ""});
  if (!list) return std::unexpected(list.error());
  adopt(std::move(list->items));
  return {};
}

void Informer::act_list(Reflector& reflector, Client& client, const std::string& resource_version) {
  auto list = client.list(resource_, options_.ns, {options_.label_selector, options_.field_selector, resource_version});
  if (!list) {
    io::log_warn("cannot list; will try again", {{"resource", resource_.plural}, {"error", list.error().message}});
    reflector.list_failed(list.error(), clock_.monotonic());
    return;
  }
  std::string version = std::move(list->resource_version);
  adopt(std::move(list->items));
  reflector.listed(std::move(version), clock_.monotonic());
}

void Informer::act_watch(Reflector& reflector, Client& client, const std::string& resource_version,
                         std::chrono::seconds timeout, std::stop_token stop) {
  const auto on_event = [&](WatchEvent&& event) {
    reflector.seen(resource_version_of(event.object));
    if (event.type == WatchEventType::bookmark) return true;
    auto object = std::make_shared<const Object>(std::move(event.object));
    if (event.type == WatchEventType::deleted) {
      StoreChange change = store_.erase(key_of(*object));
      change.old = std::move(object);  // the event carries the final state
      tell(change);
    } else {
      tell(store_.put(std::move(object)));
    }
    return !stop.stop_requested();
  };
  if (options_.resync > Duration{0}) {  // the watch ends in time for the next resync
    const auto left = std::chrono::ceil<std::chrono::seconds>(next_resync_ - clock_.monotonic());
    timeout = std::clamp(left, std::chrono::seconds(1), timeout);
  }
  const WatchOptions options{options_.label_selector, options_.field_selector, resource_version, timeout};
  const auto ended = client.watch(resource_, options_.ns, options, on_event, stop);
  if (ended) return reflector.watch_ended(clock_.monotonic());
  if (!stop.stop_requested())
    io::log_warn("the watch broke; will resume", {{"resource", resource_.plural}, {"error", ended.error().message}});
  reflector.watch_failed(ended.error(), clock_.monotonic());
}

void Informer::resync_when_due() {
  if (options_.resync <= Duration{0} || clock_.monotonic() < next_resync_) return;
  const auto tenth = static_cast<std::uint64_t>(options_.resync.count() / 10 + 1);
  const bool first = next_resync_ == Duration{0};
  next_resync_ = clock_.monotonic() + options_.resync - Duration{static_cast<Duration::rep>(random_.next() % tenth)};
  if (first) return;
  for (const auto& object : store_.list()) tell({key_of(*object), object, object});
}

void Informer::run(std::stop_token stop) {
  Reflector reflector(random_);
  std::unique_ptr<Client> client = clients_();
  while (!stop.stop_requested()) {
    resync_when_due();
    const auto action = reflector.next(clock_.monotonic());
    switch (action.what) {
      case Reflector::Do::list:
        act_list(reflector, *client, action.resource_version);
        break;
      case Reflector::Do::watch:
        act_watch(reflector, *client, action.resource_version, action.timeout, stop);
        break;
      case Reflector::Do::wait:
        clock_.sleep(action.delay, stop);
        break;
    }
  }
}

}  // namespace homeostat::kube
