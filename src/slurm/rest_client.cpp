#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "io/json.hpp"
#include "io/jwt.hpp"
#include "slurm/client.hpp"
#include "slurm/parse.hpp"

namespace homeostat::slurm {
namespace {

namespace json = boost::json;

// v0.0.42 is the one that both Slurm 24.11 and 26.05 speak; then the older ones, then the newer.
constexpr std::array<std::string_view, 6> versions = {"v0.0.42", "v0.0.41", "v0.0.40", "v0.0.43", "v0.0.44", "v0.0.45"};
constexpr size_t max_comment_bytes = 1'000;

struct Answer {
  int status = 0;
  json::object body;
};

json::object set_number(std::int64_t number) { return {{"set", true}, {"infinite", false}, {"number", number}}; }

// Node names come from Kubernetes, but a name is never trusted with a URL.
bool is_node_name(std::string_view name) {
  return !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

class RestClient final : public Client {
 public:
  RestClient(RestOptions options, std::unique_ptr<io::HttpTransport> transport, const io::Clock& clock,
             std::stop_token stop)
      : options_(std::move(options)), transport_(std::move(transport)), clock_(clock), stop_(std::move(stop)) {}

  Result<Ping> ping() override {
    const auto known = version_.empty() ? negotiate() : Result<void>{};
    if (!known) return std::unexpected(known.error());
    auto answer = call("GET", "ping/", {}, "answer a ping");
    if (!answer) return std::unexpected(answer.error());
    Ping out{.release = io::string_at(answer->body, {"meta", "slurm", "release"}), .data_parser = version_};
    for (const auto& ping : io::array_at(answer->body, {"pings"}))
      out.controller_up |= io::string_at(ping, {"pinged"}) == "UP" || io::bool_at(ping, {"responding"});
    return out;
  }

  Result<std::vector<Node>> nodes() override {
    auto answer = call("GET", "nodes/", {}, "list the nodes");
    if (!answer) return std::unexpected(answer.error());
    std::vector<Node> out;
    for (const auto& node : io::array_at(answer->body, {"nodes"}))
      if (const auto* object = node.if_object()) out.push_back(parse_node(*object));
    return out;
  }

  Result<std::optional<Node>> node(std::string_view name) override {
    if (!is_node_name(name))
      return fail(ErrorKind::invalid, "\"" + std::string(name) + "\" cannot be the name of a Slurm node.");
    auto answer = exchange("GET", "node/" + std::string(name), {}, "show node " + std::string(name));
    if (!answer) return std::unexpected(answer.error());
    const auto& nodes = io::array_at(answer->body, {"nodes"});
    if (!nodes.empty() && nodes.front().is_object()) return parse_node(nodes.front().get_object());
    // An unknown node is told by HTTP 200 without nodes and with error number 0 (24.11), or by number 2018.
    const auto number = first_error_number(answer->body);
    if (number == 0 || number == errors::invalid_node_name) return std::optional<Node>{};
    if (auto error = find_error(answer->body, answer->status, "show node " + std::string(name)))
      return std::unexpected(*error);
    return fail(ErrorKind::internal, "slurmrestd answered neither node " + std::string(name) + " nor an error.");
  }

  Result<void> set_node_state(std::string_view name, NodeOrder order, std::string_view reason) override {
    if (!is_node_name(name))
      return fail(ErrorKind::invalid, "\"" + std::string(name) + "\" cannot be the name of a Slurm node.");
    json::object body{{"state", json::array{json::string(to_string(order))}}};
    if (!reason.empty()) body["reason"] = reason.substr(0, max_comment_bytes);
    const auto what = "set node " + std::string(name) + " to " + std::string(to_string(order));
    auto done = call("POST", "node/" + std::string(name), body, what);
    if (done) return {};
    if (done.error().kind == ErrorKind::conflict && order == NodeOrder::resume && needs_no_resume(name)) return {};
    return std::unexpected(done.error());
  }

  Result<void> delete_node(std::string_view name) override {
    if (!is_node_name(name))
      return fail(ErrorKind::invalid, "\"" + std::string(name) + "\" cannot be the name of a Slurm node.");
    auto done = call("DELETE", "node/" + std::string(name), {}, "delete node " + std::string(name));
    if (done || done.error().kind == ErrorKind::not_found) return {};
    return std::unexpected(done.error());
  }

  Result<std::vector<Job>> jobs() override {
    auto answer = call("GET", "jobs/", {}, "list the jobs");
    if (!answer) return std::unexpected(answer.error());
    std::vector<Job> out;
    for (const auto& job : io::array_at(answer->body, {"jobs"}))
      if (const auto* object = job.if_object()) out.push_back(parse_job(*object));
    return out;
  }

  Result<std::optional<Job>> job(long id) override {
    auto answer = call("GET", "job/" + std::to_string(id), {}, "show job " + std::to_string(id));
    if (!answer && answer.error().kind == ErrorKind::not_found) return std::optional<Job>{};
    if (!answer) return std::unexpected(answer.error());
    const auto& jobs = io::array_at(answer->body, {"jobs"});
    if (jobs.empty() || !jobs.front().is_object()) return std::optional<Job>{};
    return parse_job(jobs.front().get_object());
  }

  Result<void> make_job_eligible_now(long id) override {
    // Slurm raises a past begin time to its own now, so clocks that differ do no harm.
    auto done = call("POST", "job/" + std::to_string(id), {{"begin_time", set_number(1)}},
                     "make job " + std::to_string(id) + " eligible");
    if (done) return {};
    if (done.error().kind == ErrorKind::conflict)
      if (auto now = job(id); now && *now && job_is_running((*now)->states)) return {};
    return std::unexpected(done.error());
  }

  Result<void> set_job_admin_comment(long id, std::string_view text) override {
    auto done = call("POST", "job/" + std::to_string(id), {{"admin_comment", text.substr(0, max_comment_bytes)}},
                     "comment job " + std::to_string(id));
    if (!done) return std::unexpected(done.error());
    return {};
  }

  Result<Diag> diag() override {
    auto answer = call("GET", "diag/", {}, "show its statistics");
    if (!answer) return std::unexpected(answer.error());
    return parse_diag(answer->body);
  }

 private:
  bool needs_no_resume(std::string_view name) {
    auto now = node(name);
    return now && *now && !node_is_down((*now)->states) && !node_is_drain((*now)->states);
  }

  // The first data_parser that answers a ping; remembered until a 404 says that slurmrestd was changed.
  Result<void> negotiate() {
    for (const auto version : versions) {
      auto response = send("GET", "/slurm/" + std::string(version) + "/ping/", {}, "answer a ping");
      if (!response) return std::unexpected(response.error());
      if (response->status == 401 || response->status == 403) return refused_token();
      if (response->status != 200) continue;
      version_ = version;
      return {};
    }
    return fail(ErrorKind::unavailable, "slurmrestd at " + options_.base_url + " speaks no data_parser from " +
                                            std::string(versions[2]) + " to " + std::string(versions.back()) +
                                            "; is it Slurm 23.11 or later?");
  }

  std::unexpected<Error> refused_token() const {
    return fail(ErrorKind::unauthorized, "slurmrestd at " + options_.base_url + " refused our token for user " +
                                             options_.user + "; does jwt.key match slurmctld's?");
  }

  // An exchange whose errors array is empty.
  Result<Answer> call(std::string_view method, const std::string& path, const json::object& body,
                      const std::string& what) {
    auto answer = exchange(method, path, body, what);
    if (!answer) return answer;
    if (auto error = find_error(answer->body, answer->status, what)) return std::unexpected(*error);
    if (answer->status == 404) return fail(ErrorKind::not_found, "slurmrestd has nothing to " + what + " (HTTP 404).");
    if (answer->status < 200 || answer->status > 299)
      return fail(ErrorKind::unavailable,
                  "slurmrestd could not " + what + " (HTTP " + std::to_string(answer->status) + ").");
    return answer;
  }

  // Any answer of Slurm's, errors and all.
  Result<Answer> exchange(std::string_view method, const std::string& path, const json::object& body,
                          const std::string& what) {
    if (version_.empty())
      if (auto known = negotiate(); !known) return std::unexpected(known.error());
    auto response = send(method, "/slurm/" + version_ + "/" + path, body, what);
    if (!response) return std::unexpected(response.error());
    if (response->status == 401 || response->status == 403) return refused_token();
    auto parsed = io::parse_json_object(response->body, "slurmrestd's answer");
    if (parsed) return Answer{response->status, *std::move(parsed)};
    if (response->status == 404) version_.clear();  // another slurmrestd than the one that was asked first
    return fail(response->status >= 500 || response->status == 404 ? ErrorKind::unavailable : ErrorKind::internal,
                "slurmrestd could not " + what + " (HTTP " + std::to_string(response->status) +
                    "): " + parsed.error().message + ".");
  }

  Result<io::HttpResponse> send(std::string_view method, const std::string& path, const json::object& body,
                                const std::string& what) {
    io::HttpRequest request;
    request.method = method;
    request.url = options_.base_url + path;
    request.headers = {
        {"X-SLURM-USER-NAME", options_.user}, {"X-SLURM-USER-TOKEN", token()}, {"Accept", "application/json"}};
    if (!body.empty()) {
      request.headers.emplace_back("Content-Type", "application/json");
      request.body = io::to_text(body);
    }
    request.timeout = options_.call_timeout;
    auto response = transport_->send(request, stop_);
    if (response) return response;
    auto error = response.error();
    error.message = "Slurm at " + options_.base_url + " could not be asked to " + what + ": " + error.message;
    return std::unexpected(std::move(error));
  }

  const std::string& token() {
    const auto now = clock_.now();
    if (token_.empty() || now + options_.token_lifetime / 2 > token_until_ ||
        now + options_.token_lifetime * 2 < token_until_) {
      token_until_ = now + options_.token_lifetime;
      // Issued a little earlier, for a slurmctld whose clock is behind.
      token_ = io::mint_jwt(options_.jwt_key, {options_.user, now - std::chrono::seconds{30}, token_until_});
    }
    return token_;
  }

  RestOptions options_;
  std::unique_ptr<io::HttpTransport> transport_;
  const io::Clock& clock_;
  std::stop_token stop_;
  std::string version_;
  std::string token_;
  TimePoint token_until_{};
};

}  // namespace

std::string_view to_string(NodeOrder order) {
  switch (order) {
    case NodeOrder::drain:
      return "DRAIN";
    case NodeOrder::undrain:
      return "UNDRAIN";
    case NodeOrder::down:
      return "DOWN";
    case NodeOrder::resume:
      return "RESUME";
  }
  return "DRAIN";
}

std::unique_ptr<Client> make_rest_client(RestOptions options, std::unique_ptr<io::HttpTransport> transport,
                                         const io::Clock& clock, std::stop_token stop) {
  return std::make_unique<RestClient>(std::move(options), std::move(transport), clock, std::move(stop));
}

}  // namespace homeostat::slurm
