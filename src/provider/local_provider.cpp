#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "io/json.hpp"
#include "provider/provider.hpp"

namespace homeostat::provider {

namespace {

MachineState parse_state(std::string_view text) {
  if (text == "Running") return MachineState::running;
  if (text == "Deleting") return MachineState::deleting;
  if (text == "Failed") return MachineState::failed;
  return MachineState::creating;
}

Machine decode(const boost::json::object& from) {
  return {io::string_at(from, {"name"}),
          io::string_at(from, {"token"}),
          io::string_at(from, {"pool"}),
          static_cast<int>(io::int_at(from, {"gpus"})),
          parse_state(io::string_at(from, {"state"})),
          io::string_at(from, {"message"}),
          parse_rfc3339(io::string_at(from, {"createdAt"}))};
}

boost::json::object encode(const MachineOrder& order) {
  boost::json::object labels;
  for (const auto& [key, value] : order.labels) labels[key] = value;
  boost::json::array taints(order.taints.begin(), order.taints.end());
  return {{"token", order.token}, {"name", order.name},          {"pool", order.pool},
          {"gpus", order.gpus},   {"labels", std::move(labels)}, {"taints", std::move(taints)}};
}

ErrorKind kind_of(int status) {
  switch (status) {
    case 400:
      return ErrorKind::invalid;
    case 401:
      return ErrorKind::unauthorized;
    case 403:
      return ErrorKind::forbidden;
    case 404:
      return ErrorKind::not_found;
    case 409:
      return ErrorKind::already_exists;
    case 429:
      return ErrorKind::throttled;
    case 503:
    case 507:
      return ErrorKind::unavailable;
    default:
      return ErrorKind::internal;
  }
}

// A machine's name goes into the path: only what a node may be called passes.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 253 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string_view::npos;
}

class LocalProvider final : public Provider {
 public:
  LocalProvider(LocalOptions options, std::unique_ptr<io::HttpTransport> transport, std::stop_token stop)
      : options_(std::move(options)), transport_(std::move(transport)), stop_(std::move(stop)) {
    while (options_.endpoint.ends_with('/')) options_.endpoint.pop_back();
  }

  Result<Machine> create(const MachineOrder& order) override {
    auto answer = call("POST", "/v1/machines", io::to_text(encode(order)));
    if (!answer) return std::unexpected(answer.error());
    auto body = io::parse_json_object(answer->body, "the provider's answer");
    if (!body) return std::unexpected(body.error());
    Machine machine = decode(*body);
    if (machine.token != order.token)
      return fail(ErrorKind::internal, "the provider answered an order with another machine's token");
    return machine;
  }

  Result<std::vector<Machine>> list() override {
    auto answer = call("GET", "/v1/machines", "");
    if (!answer) return std::unexpected(answer.error());
    auto body = io::parse_json_object(answer->body, "the provider's answer");
    if (!body) return std::unexpected(body.error());
    // A list that is not there must not read as "no machines".
    const auto* machines = io::find(*body, {"machines"});
    if (machines == nullptr || !machines->is_array())
      return fail(ErrorKind::internal, "the provider's answer holds no list of machines");
    std::vector<Machine> result;
    for (const auto& entry : machines->get_array())
      if (entry.is_object()) result.push_back(decode(entry.get_object()));
    return result;
  }

  Result<void> remove(std::string_view name) override {
    if (!is_plain_name(name))
      return fail(ErrorKind::invalid, "\"" + std::string(name) + "\" cannot be a machine's name");
    auto answer = call("DELETE", "/v1/machines/" + std::string(name), "");
    if (answer || answer.error().kind == ErrorKind::not_found) return {};
    return std::unexpected(answer.error());
  }

 private:
  Result<io::HttpResponse> call(std::string method, const std::string& path, std::string body) {
    io::HttpRequest request;
    request.method = std::move(method);
    request.url = options_.endpoint + path;
    request.headers = {{"Authorization", "Bearer " + options_.token}, {"Accept", "application/json"}};
    if (!body.empty()) request.headers.emplace_back("Content-Type", "application/json");
    request.body = std::move(body);
    request.timeout = options_.timeout;
    auto answer = transport_->send(request, stop_);
    if (!answer) {
      Error error = answer.error();
      error.message = "the provider at " + options_.endpoint + ": " + error.message;
      return std::unexpected(std::move(error));
    }
    if (answer->status >= 200 && answer->status < 300) return answer;
    std::string message;
    if (auto parsed = io::parse_json_object(answer->body, "the provider's answer", 1u << 20))
      message = io::string_at(*parsed, {"error", "message"});
    return fail(kind_of(answer->status), "the provider at " + options_.endpoint + " answered " +
                                             std::to_string(answer->status) + (message.empty() ? "" : ": " + message));
  }

  LocalOptions options_;
  std::unique_ptr<io::HttpTransport> transport_;
  std::stop_token stop_;
};

}  // namespace

std::unique_ptr<Provider> make_local_provider(LocalOptions options, std::unique_ptr<io::HttpTransport> transport,
                                              std::stop_token stop) {
  return std::make_unique<LocalProvider>(std::move(options), std::move(transport), std::move(stop));
}

}  // namespace homeostat::provider
