// Tells people: webhooks with a signed JSON body. send() never blocks and never fails: at most 256 messages wait, each
// is tried a few times in the background, and what cannot be delivered ends in a log line.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/health_policy.hpp"
#include "core/repair/record.hpp"
#include "io/clock.hpp"
#include "io/http.hpp"
#include "kube/client.hpp"

namespace homeostat::controller {

class Notifications {
 public:
  virtual ~Notifications() = default;
  virtual void send(const repair::Record& record, const std::vector<api::WebhookTarget>& targets) = 0;
};

// What a webhook gets: the repair in short and a sentence for people that says whether they have to do anything.
std::string notification_body(const repair::Record& record);

// "sha256=<hex>" over the body, as the header X-Homeostat-Signature carries it.
std::string sign_body(std::string_view key, std::string_view body);

// The Secret of a target holds `key` (signs the body) and, for an endpoint of your own CA, `ca.crt`; both are optional.
std::unique_ptr<Notifications> make_notifier(kube::ClientFactory clients, io::Clock& clock);

}  // namespace homeostat::controller
