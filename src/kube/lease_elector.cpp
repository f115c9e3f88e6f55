#include "kube/lease_elector.hpp"

#include <boost/json.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "io/json.hpp"
#include "io/log.hpp"
#include "kube/meta.hpp"

namespace homeostat::kube {

ElectionCore::Do ElectionCore::decide(const Observed& lease, Duration now) {
  if (!lease.exists) return leading_ && now - renewed_ >= options_.renew_deadline ? Do::lost : Do::create;
  if (lease.resource_version != seen_version_) {  // opaque: that it changed is all that counts
    seen_version_ = lease.resource_version;
    seen_at_ = now;
  }
  if (lease.holder == options_.identity) {
    if (leading_ && now - renewed_ >= options_.renew_deadline) return Do::lost;
    return Do::update;
  }
  if (leading_) return Do::lost;  // somebody else holds it
  if (lease.holder.empty()) return Do::update;
  return now - seen_at_ >= lease.duration ? Do::update : Do::wait;
}

ElectionCore::Do ElectionCore::failed(Duration now) {
  return leading_ && now - renewed_ >= options_.renew_deadline ? Do::lost : Do::wait;
}

void ElectionCore::written(Duration now) {
  leading_ = true;
  renewed_ = now;
}

namespace {

// The lease with us as its holder, keeping what else is in it (its resourceVersion makes the write a compare-and-swap).
Object held_lease(Object lease, const ElectionOptions& options, TimePoint now) {
  const bool changes_hands = io::string_at(lease, {"spec", "holderIdentity"}) != options.identity;
  io::set_at(lease, {"spec", "holderIdentity"}, boost::json::value(options.identity));
  io::set_at(lease, {"spec", "leaseDurationSeconds"},
             std::chrono::ceil<std::chrono::seconds>(options.lease_duration).count());
  io::set_at(lease, {"spec", "renewTime"}, boost::json::value(micro_time(now)));
  if (changes_hands) {
    io::set_at(lease, {"spec", "acquireTime"}, boost::json::value(micro_time(now)));
    io::set_at(lease, {"spec", "leaseTransitions"}, io::int_at(lease, {"spec", "leaseTransitions"}) + 1);
  }
  return lease;
}

}  // namespace

LeaseElector::LeaseElector(std::unique_ptr<Client> client, ElectionOptions options, io::Clock& clock,
                           io::Random& random)
    : client_(std::move(client)), options_(std::move(options)), clock_(clock), random_(random) {}

// One look and, where it is our turn, one write. The renewal counts from before the write: the pessimistic instant.
ElectionCore::Do LeaseElector::try_once(ElectionCore& core) {
  auto lease = client_->get(resources::leases, options_.ns, options_.name);
  const Duration now = clock_.monotonic();
  ElectionCore::Observed seen;
  if (lease) {
    seen = {true, io::string_at(*lease, {"spec", "holderIdentity"}), resource_version_of(*lease),
            std::chrono::seconds(io::int_at(*lease, {"spec", "leaseDurationSeconds"}, 15))};
  } else if (lease.error().kind != ErrorKind::not_found) {
    io::log_warn("cannot read the lease", {{"lease", options_.name}, {"error", lease.error().message}});
    return core.failed(now);
  }
  const auto what = core.decide(seen, now);
  if (what != ElectionCore::Do::create && what != ElectionCore::Do::update) return what;
  Object body = held_lease(lease ? std::move(*lease) : new_object(resources::leases, options_.ns, options_.name),
                           options_, clock_.now());
  const auto written = what == ElectionCore::Do::create
                           ? client_->create(resources::leases, options_.ns, body)
                           : client_->replace(resources::leases, options_.ns, options_.name, body);
  if (written) {
    core.written(now);
    return what;
  }
  const auto kind = written.error().kind;
  if (kind != ErrorKind::conflict && kind != ErrorKind::already_exists)
    io::log_warn("cannot write the lease", {{"lease", options_.name}, {"error", written.error().message}});
  return core.failed(clock_.monotonic());
}

void LeaseElector::release() {
  auto lease = client_->get(resources::leases, options_.ns, options_.name);
  if (!lease || io::string_at(*lease, {"spec", "holderIdentity"}) != options_.identity) return;
  io::set_at(*lease, {"spec", "holderIdentity"}, boost::json::value(""));
  io::set_at(*lease, {"spec", "leaseDurationSeconds"}, 1);
  io::set_at(*lease, {"spec", "renewTime"}, boost::json::value(micro_time(clock_.now())));
  // Best effort: unreleased, it expires by itself.
  if (const auto freed = client_->replace(resources::leases, options_.ns, options_.name, *lease); !freed)
    io::log_warn("the lease was not released and will expire",
                 {{"lease", options_.name}, {"error", freed.error().message}});
}

LeaseElector::End LeaseElector::run(std::stop_token stop, const std::function<void(std::stop_token)>& lead,
                                    const std::function<void()>& on_lost) {
  ElectionCore core(options_);
  while (!stop.stop_requested() && !core.leading()) {
    try_once(core);
    if (core.leading()) break;
    const auto jitter = Duration{
        static_cast<Duration::rep>(random_.next() % static_cast<std::uint64_t>(options_.retry_period.count() / 5 + 1))};
    clock_.sleep(options_.retry_period + jitter, stop);
  }
  if (!core.leading()) return End::stopped;
  io::log_info("leading", {{"lease", options_.name}, {"identity", options_.identity}});
  std::stop_source ended;  // when lead returns by itself there is nothing left to renew for
  End end = End::stopped;
  {
    std::jthread worker([&](std::stop_token token) {
      lead(token);
      ended.request_stop();
    });
    const std::stop_callback forward(stop, [&] { worker.request_stop(); });
    // Renewal goes on while the workers wind down: nobody else may start before they have ended.
    while (!ended.stop_requested()) {
      clock_.sleep(options_.retry_period, ended.get_token());
      if (ended.stop_requested()) break;
      if (try_once(core) == ElectionCore::Do::lost) {
        io::log_error("the lease is lost", {{"lease", options_.name}, {"identity", options_.identity}});
        end = End::lost;
        on_lost();
        worker.request_stop();
        break;
      }
    }
  }
  if (end == End::stopped) release();
  return end;
}

}  // namespace homeostat::kube
