#include "lab/provider_api.hpp"

#include <boost/json.hpp>

namespace homeostat::lab {
namespace json = boost::json;
namespace {

constexpr std::string_view machines_path = "/v1/machines";

io::ServerResponse refusal(int status, std::string_view code, std::string_view message) {
  io::ServerResponse response;
  response.status = status;
  response.body = json::serialize(json::object{{"error", json::object{{"code", code}, {"message", message}}}});
  return response;
}

io::ServerResponse refusal(const Error& error) {
  switch (error.kind) {
    case ErrorKind::invalid:
      return refusal(400, "Invalid", error.message);
    case ErrorKind::not_found:
      return refusal(404, "NotFound", error.message);
    case ErrorKind::conflict:
      return refusal(409, "Conflict", error.message);
    case ErrorKind::throttled:
      return refusal(507, "NoRoom", error.message);
    default:
      return refusal(500, "Internal", error.message);
  }
}

}  // namespace

io::ServerResponse ProviderApi::handle(const io::ServerRequest& request) {
  constexpr std::string_view scheme = "Bearer ";
  auto authorization = request.header("authorization");
  if (!authorization.starts_with(scheme) || !io::equal_secrets(authorization.substr(scheme.size()), token_))
    return refusal(401, "Unauthorized",
                   "the bearer token is missing or wrong; it is in the Secret homeostat-lab-provider");
  if (work_.stopping()) return refusal(503, "ShuttingDown", "the lab is going down");
  if (request.path == machines_path && request.method == "POST") return create(request);
  if (request.path == machines_path && request.method == "GET") {
    json::array list;
    for (const auto& machine : book_.list(request.query_value("token")))
      list.push_back(json::parse(machine_json(machine)));
    io::ServerResponse response;
    response.body = json::serialize(json::object{{"machines", list}});
    return response;
  }
  auto prefix = std::string(machines_path) + "/";
  if (request.path.starts_with(prefix) && request.method == "DELETE") return remove(request.path.substr(prefix.size()));
  return refusal(404, "NotFound", "there is no " + request.method + " " + request.path + "; see /v1/machines");
}

io::ServerResponse ProviderApi::create(const io::ServerRequest& request) {
  auto order = parse_order(request.body);
  if (!order) return refusal(order.error());
  if (book_.list(order->token).empty())
    if (auto reason = work_.no_room(); !reason.empty()) return refusal(507, "NoRoom", reason);
  auto answer = book_.order(*order, work_.now());
  if (!answer) return refusal(answer.error());
  if (answer->created) work_.make(answer->machine);
  io::ServerResponse response;
  response.status = answer->created ? 201 : 200;
  response.body = machine_json(answer->machine);
  return response;
}

io::ServerResponse ProviderApi::remove(std::string_view name) {
  auto machine = book_.begin_delete(name);
  if (!machine) return refusal(machine.error());
  // The answer says that the processes are dead, so this is not left for later.
  if (auto fenced = work_.fence(*machine); !fenced) return refusal(fenced.error());
  work_.clean_up(*machine);
  io::ServerResponse response;
  response.status = 202;
  response.body = machine_json(*machine);
  return response;
}

}  // namespace homeostat::lab
