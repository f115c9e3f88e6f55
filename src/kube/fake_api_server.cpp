#include "kube/fake_api_server.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "core/names.hpp"
#include "io/json.hpp"
#include "io/jwt.hpp"
#include "kube/fake_fields.hpp"
#include "kube/meta.hpp"
#include "kube/object_key.hpp"
#include "kube/store.hpp"

namespace homeostat::kube {

namespace json = boost::json;

namespace {

constexpr std::string_view origin = "http://fake";
constexpr size_t max_snapshots = 64;
constexpr std::chrono::milliseconds watch_slice{50};  // how often an idle watch looks at a clock that nobody announces

struct Record {
  ObjectPtr object;
  fake::Owners owners;
};

struct Kind {
  Resource resource;
  bool status_subresource = true;
  bool builtin = true;
  std::map<ObjectKey, Record> records;
};

struct Event {
  std::uint64_t version = 0;
  const Kind* kind = nullptr;
  ObjectPtr old, now;  // as in StoreChange; a deletion keeps its final state in old, with the version of the deletion
};

struct Query {
  std::string label_selector, field_selector, resource_version, match, token, manager;
  size_t limit = 0;
  Duration timeout{300'000};
  bool watch = false, bookmarks = false, force = false;
};

struct Request {
  FakeApiServer::Call call;
  Query query;
  Kind* kind = nullptr;
  std::string content_type;
  json::value body;
};

std::string decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ec == std::errc{}) {
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Query parse_query(std::string_view text) {
  Query query;
  while (!text.empty()) {
    const auto pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const auto equals = std::min(pair.find('='), pair.size());
    const auto name = pair.substr(0, equals);
    const std::string value = decode(pair.substr(std::min(pair.size(), equals + 1)));
    if (name == "labelSelector")
      query.label_selector = value;
    else if (name == "fieldSelector")
      query.field_selector = value;
    else if (name == "resourceVersion")
      query.resource_version = value;
    else if (name == "resourceVersionMatch")
      query.match = value;
    else if (name == "continue")
      query.token = value;
    else if (name == "fieldManager")
      query.manager = value;
    else if (name == "limit")
      query.limit = number_of(value);
    else if (name == "timeoutSeconds")
      query.timeout = std::chrono::seconds(number_of(value));
    else if (name == "watch")
      query.watch = value == "true" || value == "1";
    else if (name == "allowWatchBookmarks")
      query.bookmarks = value == "true";
    else if (name == "force")
      query.force = value == "true";
  }
  return query;
}

std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    path.remove_prefix(1);
    const auto segment = path.substr(0, path.find('/'));
    if (!segment.empty()) out.push_back(decode(segment));
    path.remove_prefix(segment.size());
  }
  return out;
}

// An answer that is a Status.
struct Refusal {
  int code = 500;
  std::string reason = "InternalError";
  std::string message = {};
  json::array causes = {};
  int retry_after_s = -1;
};

json::object status_object(const Refusal& refusal) {
  json::object details;
  if (!refusal.causes.empty()) details["causes"] = refusal.causes;
  if (refusal.retry_after_s >= 0) details["retryAfterSeconds"] = refusal.retry_after_s;
  json::object out{{"kind", "Status"},    {"apiVersion", "v1"},         {"metadata", json::object()},
                   {"status", "Failure"}, {"message", refusal.message}, {"reason", refusal.reason},
                   {"code", refusal.code}};
  if (!details.empty()) out["details"] = std::move(details);
  return out;
}

io::HttpResponse response_of(const Refusal& refusal) {
  io::HttpResponse response{.status = refusal.code,
                            .headers = {{"content-type", "application/json"}},
                            .body = io::to_text(status_object(refusal))};
  if (refusal.retry_after_s >= 0) response.headers.emplace_back("retry-after", std::to_string(refusal.retry_after_s));
  return response;
}

io::HttpResponse response_of(int status, const json::object& body) {
  return {.status = status, .headers = {{"content-type", "application/json"}}, .body = io::to_text(body)};
}

Refusal not_found(const Resource& resource, std::string_view name) {
  const std::string kind = resource.group.empty() ? resource.plural : resource.plural + "." + resource.group;
  return {404, "NotFound", fmt::format("{} \"{}\" not found", kind, name)};
}

Refusal conflict(const Resource& resource, std::string_view name, std::string_view why) {
  return {409, "Conflict", fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", resource.plural, name, why)};
}

Refusal invalid(const Resource& resource, std::string_view name, std::string_view why) {
  return {422, "Invalid", fmt::format("{} \"{}\" is invalid: {}", resource.kind, name, why)};
}

constexpr std::string_view modified_since =
    "the object has been modified; please apply your changes to the latest version and try again";

json::object& metadata_of(json::object& object) {
  auto& metadata = object["metadata"];
  if (!metadata.is_object()) metadata.emplace_object();
  return metadata.get_object();
}

// The part of an object whose change bumps the generation.
json::object desired_part(const json::object& object) {
  json::object out = object;
  out.erase("metadata");
  out.erase("status");
  return out;
}

// Without what every write changes: tells a write that changes nothing.
json::object comparable(const json::object& object) {
  json::object out = object;
  metadata_of(out).erase("resourceVersion");
  metadata_of(out).erase("managedFields");
  return out;
}

}  // namespace

class FakeApiServer::Impl {
 public:
  Impl(io::Clock& clock, size_t watch_cache) : clock_(clock), watch_cache_(watch_cache) {
    for (const Resource* resource : resources::all()) {
      const bool ours = resource->group == names::group;
      add_kind(*resource,
               resource->group.empty() || resource->group == "apps" || resource->group == "policy" ||
                   resource->group == "batch" || ours,
               !ours);
    }
  }

  void add_kind(const Resource& resource, bool status_subresource, bool builtin) {
    auto& kind = kinds_[{resource.group, resource.version, resource.plural}];
    kind.resource = resource;
    kind.status_subresource = status_subresource && resource.plural != "configmaps" && resource.plural != "secrets" &&
                              resource.plural != "events";
    kind.builtin = builtin;
  }

  Result<io::HttpResponse> handle(const io::HttpRequest& http);
  Result<io::HttpResponse> watch(const io::HttpRequest& http, const std::function<bool(std::string_view)>& on_chunk,
                                 std::stop_token stop);

  // ---- under mutex_ ----
  Kind* kind_of(const Resource& resource) {
    const auto found = kinds_.find({resource.group, resource.version, resource.plural});
    return found == kinds_.end() ? nullptr : &found->second;
  }
  ObjectPtr commit(Kind& kind, const ObjectKey& key, json::object object, fake::Owners owners);
  void erase(Kind& kind, const ObjectKey& key);
  void compact() {
    events_.clear();
    compacted_ = version_;
    snapshots_.clear();
  }

  io::Clock& clock_;
  size_t watch_cache_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::tuple<std::string, std::string, std::string>, Kind> kinds_;
  std::deque<Event> events_;
  std::uint64_t version_ = 1, compacted_ = 0, uids_ = 0, names_ = 0, snapshot_ids_ = 0;
  std::map<std::uint64_t, std::vector<ObjectPtr>> snapshots_;  // what continue tokens point into
  std::uint64_t bookmark_rounds_ = 0, close_rounds_ = 0;
  size_t open_watches_ = 0;
  bool graceful_pods_ = false;
  FaultHook fault_hook_;
  AdmissionHook admission_hook_;
  std::function<void(const Mutation&)> mutation_hook_;
  std::vector<Mutation> mutations_;

 private:
  using Answer = std::expected<io::HttpResponse, Refusal>;
  using Checked = std::expected<void, Refusal>;

  Answer parse(const io::HttpRequest& http, Request& out);
  Checked route(std::string_view path, std::string_view method, Request& out);
  Answer dispatch(Request& request);
  Answer get(const Request& request, bool stale);
  Answer list(const Request& request, bool stale);
  Answer list_page(const Request& request, const std::vector<ObjectPtr>& all, size_t offset, std::uint64_t version,
                   std::uint64_t id);
  Answer create(Request& request);
  Answer update(Request& request);
  Answer patch(Request& request);
  Answer apply(Request& request);
  Answer remove(Request& request);
  Answer evict(Request& request);
  Answer finish_write(Request& request, const Record& before, json::object next, fake::Owners owners);
  Answer refuse_fault(Fault fault, const Request& request) const;
  Checked check_budgets(const Request& request, const json::object& pod);
  Checked admit(const Request& request, const json::object* old, json::object* now);
  Checked check_preconditions(const Request& request, const json::object& live,
                              const json::object& preconditions) const;
  void delete_object(Kind& kind, const ObjectKey& key, std::string_view propagation, std::optional<std::int64_t> grace);
  void collect_dependents(const std::string& uid, bool orphan);
  bool owner_exists(const json::object& reference) const;
  void record(const Request& request, const json::object& object);
  ObjectKey key_for(const Request& request) const {
    return {request.kind->resource.namespaced ? request.call.ns : "", request.call.name};
  }
  std::map<ObjectKey, ObjectPtr> objects_of(const Kind& kind, bool stale) const;
  json::object initial(const Request& request, json::object object);

  struct Watch {
    Request request;
    std::uint64_t cursor = 0, bookmark_round = 0, close_round = 0;
    Duration deadline{0};
    std::uint64_t bookmarked = 0;
  };
  Answer start_watch(const io::HttpRequest& http, Watch& watch, std::string& first);
  std::string gather(Watch& watch) const;
  std::optional<Mutation> last_mutation_;
};

// ---- the log of changes ----

ObjectPtr FakeApiServer::Impl::commit(Kind& kind, const ObjectKey& key, json::object object, fake::Owners owners) {
  auto& metadata = metadata_of(object);
  metadata["resourceVersion"] = std::to_string(++version_);
  if (owners.empty())
    metadata.erase("managedFields");
  else
    metadata["managedFields"] = fake::managed_fields(owners, kind.resource.api_version());
  auto stored = std::make_shared<const Object>(std::move(object));
  auto& record = kind.records[key];
  events_.push_back({version_, &kind, record.object, stored});
  record = {stored, std::move(owners)};
  while (events_.size() > watch_cache_) {
    compacted_ = events_.front().version;
    events_.pop_front();
  }
  changed_.notify_all();
  return stored;
}

void FakeApiServer::Impl::erase(Kind& kind, const ObjectKey& key) {
  const auto found = kind.records.find(key);
  if (found == kind.records.end()) return;
  Object last = *found->second.object;
  metadata_of(last)["resourceVersion"] = std::to_string(++version_);
  const std::string uid = uid_of(last);
  events_.push_back({version_, &kind, std::make_shared<const Object>(std::move(last)), nullptr});
  kind.records.erase(found);
  changed_.notify_all();
  collect_dependents(uid, false);
}

bool FakeApiServer::Impl::owner_exists(const json::object& reference) const {
  const std::string uid = io::string_at(reference, {"uid"});
  for (const auto& [id, kind] : kinds_)
    for (const auto& [key, record] : kind.records)
      if (uid_of(*record.object) == uid) return true;
  return false;
}

// Deletes (or orphans) what names a vanished owner, unless another owner still lives.
void FakeApiServer::Impl::collect_dependents(const std::string& uid, bool orphan) {
  std::vector<std::pair<Kind*, ObjectKey>> found;
  for (auto& [id, kind] : kinds_)
    for (const auto& [key, record] : kind.records)
      if (is_owned_by(*record.object, uid)) found.emplace_back(&kind, key);
  for (const auto& [kind, key] : found) {
    const auto record = kind->records.find(key);
    if (record == kind->records.end()) continue;
    json::object object = *record->second.object;
    json::array remaining;
    for (const auto& reference : io::array_at(object, {"metadata", "ownerReferences"}))
      if (io::string_at(reference, {"uid"}) != uid && owner_exists(reference.get_object()))
        remaining.push_back(reference);
    if (!orphan && remaining.empty()) {
      delete_object(*kind, key, "Background", std::nullopt);
    } else {
      if (remaining.empty())
        metadata_of(object).erase("ownerReferences");
      else
        metadata_of(object)["ownerReferences"] = std::move(remaining);
      const fake::Owners owners = record->second.owners;
      commit(*kind, key, std::move(object), owners);
    }
  }
}

void FakeApiServer::Impl::delete_object(Kind& kind, const ObjectKey& key, std::string_view propagation,
                                        std::optional<std::int64_t> grace) {
  const auto found = kind.records.find(key);
  if (found == kind.records.end()) return;
  const Object live = *found->second.object;
  if (propagation == "Orphan") collect_dependents(uid_of(live), true);
  const bool waits_for_kubelet = graceful_pods_ && kind.resource.plural == "pods" &&
                                 !io::string_at(live, {"spec", "nodeName"}).empty() && grace != 0;
  const bool has_finalizers = !io::array_at(live, {"metadata", "finalizers"}).empty();
  if (!waits_for_kubelet && !has_finalizers) return erase(kind, key);
  if (is_deleting(live)) return;  // it waits already
  Object next = live;
  const std::int64_t seconds =
      grace.value_or(waits_for_kubelet ? io::int_at(live, {"spec", "terminationGracePeriodSeconds"}, 30) : 0);
  metadata_of(next)["deletionTimestamp"] = meta_time(clock_.now() + std::chrono::seconds(seconds));
  metadata_of(next)["deletionGracePeriodSeconds"] = seconds;
  if (next["metadata"].get_object().contains("generation")) metadata_of(next)["generation"] = generation_of(live) + 1;
  const fake::Owners owners = found->second.owners;
  commit(kind, key, std::move(next), owners);
}

void FakeApiServer::Impl::record(const Request& request, const json::object& object) {
  mutations_.push_back({clock_.now(), request.call.verb, request.call.resource, namespace_of(object), name_of(object),
                        request.call.subresource, request.call.manager, uid_of(object), std::to_string(version_)});
  last_mutation_ = mutations_.back();
}

// ---- requests ----

FakeApiServer::Impl::Checked FakeApiServer::Impl::route(std::string_view path, std::string_view method, Request& out) {
  const auto segments = segments_of(path);
  size_t at = 0;
  const auto take = [&]() -> std::string { return at < segments.size() ? segments[at++] : ""; };
  const std::string root = take();
  const Refusal unknown{404, "NotFound", "the server could not find the requested resource"};
  if (root != "api" && root != "apis") return std::unexpected(unknown);
  const std::string group = root == "apis" ? take() : "";
  const std::string version = take();
  std::string plural = take();
  if (plural == "namespaces" && at + 1 < segments.size() && segments[at + 1] != "status" &&
      segments[at + 1] != "finalize") {
    out.call.ns = take();
    plural = take();
  }
  const auto found = kinds_.find({group, version, plural});
  if (found == kinds_.end()) return std::unexpected(unknown);
  out.kind = &found->second;
  out.call.resource = found->second.resource;
  out.call.name = take();
  out.call.subresource = take();
  if (method == "GET")
    out.call.verb = out.query.watch ? "watch" : out.call.name.empty() ? "list" : "get";
  else if (method == "POST")
    out.call.verb = out.call.subresource == "eviction" ? "evict" : "create";
  else if (method == "PUT")
    out.call.verb = "update";
  else if (method == "PATCH")
    out.call.verb = out.content_type == "application/apply-patch+yaml" ? "apply" : "patch";
  else if (method == "DELETE")
    out.call.verb = "delete";
  const bool needs_name = method == "PUT" || method == "PATCH" || method == "DELETE";
  const bool wrong = out.call.verb.empty() || (needs_name && out.call.name.empty()) ||
                     (out.call.verb == "create" && !out.call.name.empty());
  if (wrong)
    return std::unexpected(
        Refusal{405, "MethodNotAllowed", "the server does not allow this method on the requested resource"});
  return {};
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::parse(const io::HttpRequest& http, Request& out) {
  std::string_view rest = http.url;
  rest.remove_prefix(std::min(rest.size(), rest.find('/', rest.find("://") + 3)));
  const auto question = std::min(rest.find('?'), rest.size());
  out.query = parse_query(rest.substr(std::min(rest.size(), question + 1)));
  for (const auto& [name, value] : http.headers) {
    if (name == "Content-Type") out.content_type = value;
    if (name == "User-Agent") out.call.user_agent = value;
  }
  out.call.manager =
      !out.query.manager.empty() ? out.query.manager : out.call.user_agent.substr(0, out.call.user_agent.find('/'));
  const std::string path(rest.substr(0, question));
  if (path == "/version") return response_of(200, {{"major", "1"}, {"minor", "34"}, {"gitVersion", "v1.34.4-fake"}});
  if (path == "/readyz" || path == "/livez" || path == "/healthz") return io::HttpResponse{.status = 200, .body = "ok"};
  if (auto routed = route(path, http.method, out); !routed) return std::unexpected(routed.error());
  if (!http.body.empty()) {
    auto body = io::parse_json(http.body, "the body");
    if (!body) return std::unexpected(Refusal{400, "BadRequest", body.error().message});
    out.body = std::move(*body);
  }
  out.call.body = http.body;
  return io::HttpResponse{};  // status 0: go on
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::refuse_fault(Fault fault, const Request& request) const {
  switch (fault) {
    case Fault::conflict:
      return std::unexpected(conflict(request.call.resource, request.call.name, modified_since));
    case Fault::server_error:
      return std::unexpected(Refusal{500, "InternalError", "an injected fault"});
    case Fault::throttled:
      return std::unexpected(Refusal{429, "TooManyRequests", "too many requests, please try again later", {}, 1});
    default:
      return io::HttpResponse{};
  }
}

Result<io::HttpResponse> FakeApiServer::Impl::handle(const io::HttpRequest& http) {
  Request request;
  std::unique_lock lock(mutex_);
  auto answer = parse(http, request);
  if (!answer) return response_of(answer.error());
  if (answer->status != 0) return std::move(*answer);
  const FaultHook hook = fault_hook_;
  lock.unlock();
  const Fault fault = hook ? hook(request.call) : Fault::none;
  if (fault == Fault::unreachable) return fail(ErrorKind::unreachable, "an injected fault: no connection");
  if (fault == Fault::lost_request) return fail(ErrorKind::unknown_outcome, "an injected fault: the connection broke");
  if (auto refused = refuse_fault(fault, request); !refused) return response_of(refused.error());
  lock.lock();
  last_mutation_.reset();
  if (request.call.verb == "get")
    answer = get(request, fault == Fault::stale_list);
  else if (request.call.verb == "list")
    answer = list(request, fault == Fault::stale_list);
  else
    answer = dispatch(request);
  const auto mutation = std::exchange(last_mutation_, std::nullopt);
  const auto mutated = mutation_hook_;
  lock.unlock();
  if (mutation && mutated) mutated(*mutation);
  if (fault == Fault::lost_reply)
    return fail(ErrorKind::unknown_outcome, "an injected fault: the connection broke before the answer");
  return answer ? std::move(*answer) : response_of(answer.error());
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::dispatch(Request& request) {
  const bool wants_object = request.call.verb != "patch" && request.call.verb != "delete";
  if (wants_object && !request.body.is_object())
    return std::unexpected(Refusal{400, "BadRequest", "the body is not an object"});
  if (request.call.verb == "create") return create(request);
  if (request.call.verb == "update") return update(request);
  if (request.call.verb == "apply") return apply(request);
  if (request.call.verb == "patch") return patch(request);
  if (request.call.verb == "evict") return evict(request);
  return remove(request);
}

// All objects of a kind; stale: as they were before the kind's last change.
std::map<ObjectKey, ObjectPtr> FakeApiServer::Impl::objects_of(const Kind& kind, bool stale) const {
  std::map<ObjectKey, ObjectPtr> out;
  for (const auto& [key, record] : kind.records) out[key] = record.object;
  if (!stale) return out;
  const auto last =
      std::find_if(events_.rbegin(), events_.rend(), [&](const Event& event) { return event.kind == &kind; });
  if (last == events_.rend()) return out;
  const ObjectKey key = key_of(last->now ? *last->now : *last->old);
  if (last->old)
    out[key] = last->old;
  else
    out.erase(key);
  return out;
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::get(const Request& request, bool stale) {
  const auto objects = objects_of(*request.kind, stale);
  const auto found = objects.find(key_for(request));
  if (found == objects.end()) return std::unexpected(not_found(request.call.resource, request.call.name));
  return response_of(200, *found->second);
}

Refusal too_new(std::uint64_t asked, std::uint64_t current) {
  return {504,
          "Timeout",
          fmt::format("Too large resource version: {}, current: {}", asked, current),
          {{{"reason", "ResourceVersionTooLarge"}, {"message", "Too large resource version"}}},
          1};
}

Refusal expired(std::string_view what) { return {410, "Expired", fmt::format("{}: too old resource version", what)}; }

FakeApiServer::Impl::Answer FakeApiServer::Impl::list(const Request& request, bool stale) {
  const auto& query = request.query;
  if (!query.token.empty()) {
    const std::uint64_t id = number_of(query.token),
                        offset = number_of(std::string_view(query.token)
                                               .substr(std::min(query.token.size(), query.token.find(':') + 1)));
    const auto snapshot = snapshots_.find(id);
    if (snapshot == snapshots_.end())
      return std::unexpected(
          Refusal{410, "Expired", "The provided continue parameter is too old to display a consistent list result."});
    return list_page(request, snapshot->second, offset, version_, id);
  }
  const std::uint64_t asked = number_of(query.resource_version);
  if (asked > version_) return std::unexpected(too_new(asked, version_));
  if (query.match == "Exact" && asked != version_) return std::unexpected(expired("list"));
  std::vector<ObjectPtr> matching;
  for (const auto& [key, object] : objects_of(*request.kind, stale)) {
    if (request.kind->resource.namespaced && !request.call.ns.empty() && key.ns != request.call.ns) continue;
    if (fake::matches_labels(*object, query.label_selector) && fake::matches_fields(*object, query.field_selector))
      matching.push_back(object);
  }
  return list_page(request, matching, 0, version_, 0);
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::list_page(const Request& request, const std::vector<ObjectPtr>& all,
                                                           size_t offset, std::uint64_t version, std::uint64_t id) {
  const size_t end = request.query.limit == 0 ? all.size() : std::min(all.size(), offset + request.query.limit);
  json::array items;
  for (size_t i = offset; i < end; ++i) items.emplace_back(*all[i]);
  json::object metadata{{"resourceVersion", std::to_string(version)}};
  if (end < all.size()) {
    if (id == 0) {
      id = ++snapshot_ids_;
      snapshots_[id] = all;
      if (snapshots_.size() > max_snapshots) snapshots_.erase(snapshots_.begin());
    }
    metadata["continue"] = fmt::format("{}:{}", id, end);
  }
  const auto& resource = request.kind->resource;
  return response_of(200, {{"apiVersion", resource.api_version()},
                           {"kind", resource.kind + "List"},
                           {"metadata", std::move(metadata)},
                           {"items", std::move(items)}});
}

FakeApiServer::Impl::Checked FakeApiServer::Impl::admit(const Request& request, const json::object* old,
                                                        json::object* now) {
  if (!admission_hook_) return {};
  if (auto allowed = admission_hook_(request.call, old, now); !allowed)
    return std::unexpected(invalid(request.call.resource, request.call.name, allowed.error().message));
  return {};
}

// A new object as the server completes it.
json::object FakeApiServer::Impl::initial(const Request& request, json::object object) {
  auto& metadata = metadata_of(object);
  for (const char* mine : {"resourceVersion", "managedFields", "deletionTimestamp", "selfLink", "generation"})
    metadata.erase(mine);
  metadata["uid"] = fmt::format("00000000-0000-4000-8000-{:012x}", ++uids_);
  metadata["creationTimestamp"] = meta_time(clock_.now());
  if (request.kind->resource.namespaced) metadata["namespace"] = request.call.ns;
  if (!request.kind->resource.group.empty()) metadata["generation"] = 1;
  object["apiVersion"] = request.kind->resource.api_version();
  object["kind"] = request.kind->resource.kind;
  if (request.kind->status_subresource && request.kind->resource.plural != "nodes") object.erase("status");
  return object;
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::create(Request& request) {
  json::object object = std::move(request.body.get_object());
  std::string name = name_of(object);
  const std::string prefix = io::string_at(object, {"metadata", "generateName"});
  if (name.empty() && !prefix.empty()) name = prefix + fmt::format("{:05x}", (++names_ * 7919) & 0xfffff);
  if (name.empty())
    return std::unexpected(
        invalid(request.call.resource, "", "metadata.name: Required value: name or generateName is required"));
  if (request.kind->resource.namespaced && request.call.ns.empty())
    return std::unexpected(Refusal{400, "BadRequest", "an empty namespace may not be set during creation"});
  request.call.name = name;
  metadata_of(object)["name"] = name;
  const ObjectKey key = key_for(request);
  if (request.kind->records.contains(key))
    return std::unexpected(
        Refusal{409, "AlreadyExists", fmt::format("{} \"{}\" already exists", request.call.resource.plural, name)});
  object = initial(request, std::move(object));
  if (auto allowed = admit(request, nullptr, &object); !allowed) return std::unexpected(allowed.error());
  fake::Owners owners;
  fake::track({}, object, owners, {request.call.manager, "Update", ""});
  const auto stored = commit(*request.kind, key, std::move(object), std::move(owners));
  record(request, *stored);
  return response_of(201, *stored);
}

// The end of every change of an existing object: what the server keeps, no-ops, generation, finalizers.
FakeApiServer::Impl::Answer FakeApiServer::Impl::finish_write(Request& request, const Record& before, json::object next,
                                                              fake::Owners owners) {
  const json::object& live = *before.object;
  auto& metadata = metadata_of(next);
  if (const auto uid = io::string_at(metadata, {"uid"}); !uid.empty() && uid != uid_of(live))
    return std::unexpected(conflict(
        request.call.resource, request.call.name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid, uid_of(live))));
  if (const auto version = io::string_at(metadata, {"resourceVersion"});
      !version.empty() && version != resource_version_of(live))
    return std::unexpected(conflict(request.call.resource, request.call.name, modified_since));
  for (const char* kept : {"name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp",
                           "deletionGracePeriodSeconds", "managedFields", "resourceVersion"}) {
    if (const auto* value = io::find(live, {"metadata", kept}))
      metadata[kept] = *value;
    else
      metadata.erase(kept);
  }
  if (request.call.subresource == "status") {
    json::object whole = live;
    if (const auto* status = next.if_contains("status"))
      whole["status"] = *status;
    else
      whole.erase("status");
    next = std::move(whole);
  } else if (request.kind->status_subresource) {
    if (const auto* status = live.if_contains("status"))
      next["status"] = *status;
    else
      next.erase("status");
  }
  if (auto allowed = admit(request, &live, &next); !allowed) return std::unexpected(allowed.error());
  const std::string operation = request.call.verb == "apply" ? "Apply" : "Update";
  if (operation == "Update")
    fake::track(live, next, owners, {request.call.manager, operation, request.call.subresource});
  if (comparable(live) == comparable(next) && owners == before.owners) return response_of(200, live);
  if (io::find(live, {"metadata", "generation"}) && desired_part(live) != desired_part(next))
    metadata_of(next)["generation"] = generation_of(live) + 1;
  const ObjectKey key = key_for(request);
  const auto stored = commit(*request.kind, key, std::move(next), std::move(owners));
  record(request, *stored);
  const bool kubelet_pending = graceful_pods_ && request.kind->resource.plural == "pods";
  if (is_deleting(*stored) && io::array_at(*stored, {"metadata", "finalizers"}).empty() && !kubelet_pending)
    erase(*request.kind, key);
  return response_of(200, *stored);
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::update(Request& request) {
  const auto found = request.kind->records.find(key_for(request));
  if (found == request.kind->records.end()) return std::unexpected(not_found(request.call.resource, request.call.name));
  json::object next = std::move(request.body.get_object());
  if (name_of(next) != request.call.name)
    return std::unexpected(Refusal{400, "BadRequest", "the name of the object does not match the name on the URL"});
  if (!request.kind->builtin && resource_version_of(next).empty())
    return std::unexpected(invalid(request.call.resource, request.call.name,
                                   "metadata.resourceVersion: Invalid value: 0: must be specified for an update"));
  const Record before = found->second;
  return finish_write(request, before, std::move(next), before.owners);
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::patch(Request& request) {
  const auto found = request.kind->records.find(key_for(request));
  if (found == request.kind->records.end()) return std::unexpected(not_found(request.call.resource, request.call.name));
  const Record before = found->second;
  json::value next(*before.object);
  next.get_object()["metadata"].get_object().erase(
      "resourceVersion");  // only one that the patch brings is a precondition
  const bool is_merge = request.content_type == "application/merge-patch+json";
  const bool is_strategic = request.content_type == "application/strategic-merge-patch+json" && request.kind->builtin;
  if (is_merge && request.body.is_object()) {
    fake::merge_patch(next, request.body);
  } else if (is_strategic && request.body.is_object()) {
    fake::strategic_merge_patch(next, request.body);
  } else if (request.content_type == "application/json-patch+json" && request.body.is_array()) {
    next = *before.object;  // a patch may test the version
    if (auto done = fake::json_patch(next, request.body.get_array()); !done)
      return std::unexpected(Refusal{422, "Invalid", done.error().message});
  } else {
    return std::unexpected(Refusal{is_merge || is_strategic ? 400 : 415,
                                   is_merge || is_strategic ? "BadRequest" : "UnsupportedMediaType",
                                   "the body of the request was in an unknown format: " + request.content_type});
  }
  return finish_write(request, before, std::move(next.get_object()), before.owners);
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::apply(Request& request) {
  if (request.query.manager.empty())
    return std::unexpected(
        Refusal{422, "Invalid",
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"});
  json::object& applied = request.body.get_object();
  const auto& resource = request.kind->resource;
  if (io::string_at(applied, {"apiVersion"}) != resource.api_version() ||
      io::string_at(applied, {"kind"}) != resource.kind)
    return std::unexpected(
        Refusal{400, "BadRequest",
                fmt::format("the body must say apiVersion {} and kind {}", resource.api_version(), resource.kind)});
  if (io::find(applied, {"metadata", "managedFields"}))
    return std::unexpected(Refusal{400, "BadRequest", "metadata.managedFields must be nil"});
  const fake::Owner owner{request.query.manager, "Apply", request.call.subresource};
  const auto found = request.kind->records.find(key_for(request));
  if (found == request.kind->records.end()) {
    if (request.call.subresource == "status" || !resource_version_of(applied).empty() || !uid_of(applied).empty())
      return std::unexpected(request.call.subresource == "status"
                                 ? not_found(resource, request.call.name)
                                 : conflict(resource, request.call.name, modified_since));
    fake::Owners owners;
    json::object object{{"metadata", {{"name", request.call.name}}}};
    fake::apply(object, owners, applied, owner, true);
    object = initial(request, std::move(object));
    if (auto allowed = admit(request, nullptr, &object); !allowed) return std::unexpected(allowed.error());
    const auto stored = commit(*request.kind, key_for(request), std::move(object), std::move(owners));
    record(request, *stored);
    return response_of(201, *stored);
  }
  const Record before = found->second;
  json::object relevant = applied;
  if (request.call.subresource.empty() && request.kind->status_subresource) relevant.erase("status");
  if (request.call.subresource == "status") {
    json::object only;
    if (const auto* status = applied.if_contains("status")) only["status"] = *status;
    relevant = std::move(only);
  }
  json::object next = *before.object;
  fake::Owners owners = before.owners;
  const auto conflicts = fake::apply(next, owners, relevant, owner, request.query.force);
  if (!conflicts.empty()) {
    Refusal refusal{409, "Conflict",
                    fmt::format("Apply failed with {} conflict{}", conflicts.size(), conflicts.size() == 1 ? "" : "s")};
    for (const auto& one : conflicts)
      refusal.causes.push_back({{"reason", "FieldManagerConflict"},
                                {"message", fmt::format("conflict with \"{}\"", one.manager)},
                                {"field", fake::path_text(one.path)}});
    return std::unexpected(refusal);
  }
  metadata_of(next).erase("resourceVersion");
  if (const auto version = resource_version_of(applied); !version.empty())
    metadata_of(next)["resourceVersion"] = version;
  if (const auto uid = uid_of(applied); !uid.empty()) metadata_of(next)["uid"] = uid;
  return finish_write(request, before, std::move(next), std::move(owners));
}

FakeApiServer::Impl::Checked FakeApiServer::Impl::check_preconditions(const Request& request, const json::object& live,
                                                                      const json::object& preconditions) const {
  const auto uid = io::string_at(preconditions, {"uid"}), version = io::string_at(preconditions, {"resourceVersion"});
  if (!uid.empty() && uid != uid_of(live))
    return std::unexpected(conflict(
        request.call.resource, request.call.name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid, uid_of(live))));
  if (!version.empty() && version != resource_version_of(live))
    return std::unexpected(
        conflict(request.call.resource, request.call.name, "Precondition failed: ResourceVersion does not match"));
  return {};
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::remove(Request& request) {
  const ObjectKey key = key_for(request);
  const auto found = request.kind->records.find(key);
  if (found == request.kind->records.end()) return std::unexpected(not_found(request.call.resource, request.call.name));
  const json::object live = *found->second.object;
  if (auto good = check_preconditions(request, live, io::object_at(request.body, {"preconditions"})); !good)
    return std::unexpected(good.error());
  if (auto allowed = admit(request, &live, nullptr); !allowed) return std::unexpected(allowed.error());
  const auto* grace = io::find(request.body, {"gracePeriodSeconds"});
  delete_object(*request.kind, key, io::string_at(request.body, {"propagationPolicy"}, "Background"),
                grace ? std::optional(io::int_at(request.body, {"gracePeriodSeconds"})) : std::nullopt);
  record(request, live);
  return response_of(200, {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}});
}

namespace {

bool is_healthy_pod(const json::object& pod) {
  if (is_deleting(pod)) return false;
  for (const auto& condition : io::array_at(pod, {"status", "conditions"}))
    if (io::string_at(condition, {"type"}) == "Ready") return io::string_at(condition, {"status"}) == "True";
  return io::string_at(pod, {"status", "phase"}) == "Running";
}

// "2" or "50%" of the expected number, percentages rounded up.
std::int64_t amount_of(const json::value& value, std::int64_t expected) {
  if (value.is_string()) {
    const auto percent = static_cast<std::int64_t>(number_of(std::string(value.get_string())));
    return (percent * expected + 99) / 100;
  }
  return io::int_at(value, {});
}

std::int64_t allowed_disruptions(const json::object& budget, std::int64_t expected, std::int64_t healthy) {
  if (const auto* said = io::find(budget, {"status", "disruptionsAllowed"})) return io::int_at(*said, {});
  if (const auto* least = io::find(budget, {"spec", "minAvailable"})) return healthy - amount_of(*least, expected);
  if (const auto* most = io::find(budget, {"spec", "maxUnavailable"}))
    return amount_of(*most, expected) - (expected - healthy);
  return healthy - 1;
}

}  // namespace

FakeApiServer::Impl::Checked FakeApiServer::Impl::check_budgets(const Request& request, const json::object& pod) {
  Kind& budgets = *kind_of(resources::pod_disruption_budgets);
  for (auto& [key, record] : budgets.records) {
    const auto& selector = io::object_at(*record.object, {"spec", "selector"});
    if (key.ns != request.call.ns || !fake::matches_selector(pod, selector)) continue;
    std::int64_t expected = 0, healthy = 0;
    for (const auto& [pod_key, other] : request.kind->records) {
      if (pod_key.ns != key.ns || !fake::matches_selector(*other.object, selector)) continue;
      ++expected;
      healthy += is_healthy_pod(*other.object);
    }
    const auto allowed = allowed_disruptions(*record.object, expected, healthy);
    // The disruption controller's verdict; before it, a real server asks to come back in 10 s, after it, it names no
    // time.
    const bool observed = io::find(*record.object, {"status", "disruptionsAllowed"}) != nullptr;
    if (allowed < 1)
      return std::unexpected(
          Refusal{429,
                  "TooManyRequests",
                  "Cannot evict pod as it would violate the pod's disruption budget.",
                  {{{"reason", "DisruptionBudget"},
                    {"message", fmt::format("The disruption budget {} needs {} healthy pods and has {} currently",
                                            key.name, healthy - allowed + 1, healthy)}}},
                  observed ? -1 : 10});
    if (!observed) continue;
    json::object next = *record.object;
    io::set_at(next, {"status", "disruptionsAllowed"}, allowed - 1);
    const fake::Owners owners = record.owners;
    commit(budgets, key, std::move(next), owners);
  }
  return {};
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::evict(Request& request) {
  const ObjectKey key = key_for(request);
  const auto found = request.kind->records.find(key);
  if (found == request.kind->records.end()) return std::unexpected(not_found(request.call.resource, request.call.name));
  const json::object live = *found->second.object;
  const auto& options = io::object_at(request.body, {"deleteOptions"});
  const auto phase = io::string_at(live, {"status", "phase"});
  const bool counts = phase != "Succeeded" && phase != "Failed" && phase != "Pending" && !is_deleting(live);
  if (counts)
    if (auto allowed = check_budgets(request, live); !allowed) return std::unexpected(allowed.error());
  // As the real server: the budget first, the preconditions when it deletes.
  if (auto good = check_preconditions(request, live, io::object_at(options, {"preconditions"})); !good)
    return std::unexpected(good.error());
  delete_object(*request.kind, key, "Background", std::nullopt);
  record(request, live);
  return response_of(201, {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}});
}

// ---- watches ----

namespace {

std::string watch_line(std::string_view type, const json::object& object) {
  return io::to_text(json::object{{"type", type}, {"object", object}}) + "\n";
}

bool selects(const Request& request, const ObjectPtr& object) {
  if (!object) return false;
  if (request.kind->resource.namespaced && !request.call.ns.empty() && namespace_of(*object) != request.call.ns)
    return false;
  return fake::matches_labels(*object, request.query.label_selector) &&
         fake::matches_fields(*object, request.query.field_selector);
}

}  // namespace

// Everything after the cursor; moves it.
std::string FakeApiServer::Impl::gather(Watch& watch) const {
  std::string out;
  for (const auto& event : events_) {
    if (event.version <= watch.cursor) continue;
    watch.cursor = event.version;
    if (event.kind != watch.request.kind) continue;
    const bool had = selects(watch.request, event.old), has = selects(watch.request, event.now);
    if (has) {
      out += watch_line(had ? "MODIFIED" : "ADDED", *event.now);
    } else if (had) {  // deleted, or it left the selection: then with the version of the event
      json::object last = *event.old;
      metadata_of(last)["resourceVersion"] = std::to_string(event.version);
      out += watch_line("DELETED", last);
    }
  }
  if (watch.bookmark_round != bookmark_rounds_) {
    watch.bookmark_round = bookmark_rounds_;
    const auto& resource = watch.request.kind->resource;
    if (watch.request.query.bookmarks)
      out += watch_line("BOOKMARK", {{"kind", resource.kind},
                                     {"apiVersion", resource.api_version()},
                                     {"metadata", {{"resourceVersion", std::to_string(version_)}}}});
  }
  return out;
}

FakeApiServer::Impl::Answer FakeApiServer::Impl::start_watch(const io::HttpRequest& http, Watch& watch,
                                                             std::string& first) {
  auto& request = watch.request;
  if (auto parsed = parse(http, request); !parsed) return parsed;
  if (request.kind == nullptr || request.call.verb != "watch")
    return std::unexpected(Refusal{405, "MethodNotAllowed", "only a watch streams"});
  const std::uint64_t from = number_of(request.query.resource_version);
  watch.bookmark_round = bookmark_rounds_;
  watch.close_round = close_rounds_;
  watch.deadline = clock_.monotonic() + request.query.timeout;
  if (from > version_) return std::unexpected(too_new(from, version_));
  watch.cursor = from;
  if (from == 0) {  // no version: begin with what there is
    watch.cursor = version_;
    for (const auto& [key, record] : request.kind->records)
      if (selects(request, record.object)) first += watch_line("ADDED", *record.object);
  } else if (from < compacted_) {
    first = watch_line("ERROR", status_object(expired("watch")));
    watch.deadline = Duration{0};  // the server ends it after the error
  }
  return io::HttpResponse{};
}

Result<io::HttpResponse> FakeApiServer::Impl::watch(const io::HttpRequest& http,
                                                    const std::function<bool(std::string_view)>& on_chunk,
                                                    std::stop_token stop) {
  Watch watch;
  std::string lines;
  std::unique_lock lock(mutex_);
  if (auto started = start_watch(http, watch, lines); !started) return response_of(started.error());
  const FaultHook hook = fault_hook_;
  lock.unlock();
  const Fault fault = hook ? hook(watch.request.call) : Fault::none;
  if (fault == Fault::unreachable) return fail(ErrorKind::unreachable, "an injected fault: no connection");
  if (fault == Fault::lost_request || fault == Fault::lost_reply)
    return fail(ErrorKind::unknown_outcome, "an injected fault: the connection broke");
  if (auto refused = refuse_fault(fault, watch.request); !refused) return response_of(refused.error());
  lock.lock();
  ++open_watches_;
  bool go_on = true;
  while (go_on && !stop.stop_requested()) {
    lines += gather(watch);
    if (!lines.empty()) {
      lock.unlock();
      go_on = on_chunk(std::exchange(lines, {}));
      lock.lock();
      continue;
    }
    if (clock_.monotonic() >= watch.deadline || watch.close_round != close_rounds_) break;
    if (watch.cursor < compacted_ && compacted_ != version_) {  // fell out of the replay buffer
      lines = watch_line("ERROR", status_object(expired("watch")));
      watch.deadline = Duration{0};
      continue;
    }
    const auto seen = std::pair(version_, bookmark_rounds_);
    const auto closed = close_rounds_;
    changed_.wait_for(lock, stop, watch_slice,
                      [&] { return std::pair(version_, bookmark_rounds_) != seen || close_rounds_ != closed; });
  }
  --open_watches_;
  if (stop.stop_requested()) return fail(ErrorKind::cancelled, "the watch was cancelled");
  return io::HttpResponse{.status = 200};
}

// ---- the public face ----

namespace {

class FakeTransport final : public io::HttpTransport {
 public:
  using Handle = std::function<Result<io::HttpResponse>(const io::HttpRequest&)>;
  using Stream = std::function<Result<io::HttpResponse>(const io::HttpRequest&,
                                                        const std::function<bool(std::string_view)>&, std::stop_token)>;
  FakeTransport(Handle handle, Stream stream) : handle_(std::move(handle)), stream_(std::move(stream)) {}

  Result<io::HttpResponse> send(const io::HttpRequest& request, std::stop_token stop) override {
    if (stop.stop_requested()) return fail(ErrorKind::cancelled, "cancelled");
    return handle_(request);
  }
  Result<io::HttpResponse> stream(const io::HttpRequest& request, Duration,
                                  const std::function<bool(std::string_view)>& on_chunk,
                                  std::stop_token stop) override {
    return stream_(request, on_chunk, stop);
  }

 private:
  Handle handle_;
  Stream stream_;
};

}  // namespace

bool FakeApiServer::is_mutation(const Call& call) {
  return call.verb != "get" && call.verb != "list" && call.verb != "watch";
}

FakeApiServer::FakeApiServer(io::Clock& clock, size_t watch_cache)
    : impl_(std::make_shared<Impl>(clock, watch_cache)) {}
FakeApiServer::~FakeApiServer() = default;

void FakeApiServer::register_resource(const Resource& resource, bool status_subresource) {
  std::lock_guard lock(impl_->mutex_);
  impl_->add_kind(resource, status_subresource, false);
}

TransportMaker FakeApiServer::transport_maker() {
  return [impl = impl_](const io::TlsOptions&) -> std::unique_ptr<io::HttpTransport> {
    return std::make_unique<FakeTransport>([impl](const auto& request) { return impl->handle(request); },
                                           [impl](const auto& request, const auto& on_chunk, std::stop_token stop) {
                                             return impl->watch(request, on_chunk, stop);
                                           });
  };
}

io::TransportFactory FakeApiServer::transport_factory() {
  return [maker = transport_maker()] { return maker({}); };
}

ClusterConfig FakeApiServer::cluster_config() const {
  return {.server = std::string(origin), .origin = "the fake API server"};
}

ClientFactory FakeApiServer::client_factory(io::Random& random, std::string user_agent) {
  ClientOptions options;
  options.user_agent = std::move(user_agent);
  options.qps = 0;  // no limit
  return make_client_factory(cluster_config(), transport_maker(), impl_->clock_, random, options);
}

void FakeApiServer::set_fault_hook(FaultHook hook) {
  std::lock_guard lock(impl_->mutex_);
  impl_->fault_hook_ = std::move(hook);
}

void FakeApiServer::set_admission_hook(AdmissionHook hook) {
  std::lock_guard lock(impl_->mutex_);
  impl_->admission_hook_ = std::move(hook);
}

void FakeApiServer::set_mutation_hook(std::function<void(const Mutation&)> hook) {
  std::lock_guard lock(impl_->mutex_);
  impl_->mutation_hook_ = std::move(hook);
}

std::vector<FakeApiServer::Mutation> FakeApiServer::mutations() const {
  std::lock_guard lock(impl_->mutex_);
  return impl_->mutations_;
}

void FakeApiServer::clear_mutations() {
  std::lock_guard lock(impl_->mutex_);
  impl_->mutations_.clear();
}

std::optional<Object> FakeApiServer::find(const Resource& resource, std::string_view ns, std::string_view name) const {
  std::lock_guard lock(impl_->mutex_);
  const Kind* kind = impl_->kind_of(resource);
  if (kind == nullptr) return std::nullopt;
  const auto found = kind->records.find({resource.namespaced ? std::string(ns) : "", std::string(name)});
  if (found == kind->records.end()) return std::nullopt;
  return *found->second.object;
}

std::vector<Object> FakeApiServer::all(const Resource& resource) const {
  std::lock_guard lock(impl_->mutex_);
  std::vector<Object> out;
  if (const Kind* kind = impl_->kind_of(resource))
    for (const auto& [key, record] : kind->records) out.push_back(*record.object);
  return out;
}

Object FakeApiServer::put(const Resource& resource, Object object) {
  std::lock_guard lock(impl_->mutex_);
  Kind* kind = impl_->kind_of(resource);
  if (kind == nullptr) return {};
  object["apiVersion"] = resource.api_version();
  object["kind"] = resource.kind;
  const ObjectKey key{resource.namespaced ? namespace_of(object) : "", name_of(object)};
  const auto before = kind->records.find(key);
  auto& metadata = metadata_of(object);
  const Object old = before == kind->records.end() ? Object{} : *before->second.object;
  fake::Owners owners = before == kind->records.end() ? fake::Owners{} : before->second.owners;
  metadata["uid"] = old.empty() ? fmt::format("00000000-0000-4000-8000-{:012x}", ++impl_->uids_) : uid_of(old);
  metadata["creationTimestamp"] =
      old.empty() ? meta_time(impl_->clock_.now()) : io::string_at(old, {"metadata", "creationTimestamp"});
  if (!resource.group.empty())
    metadata["generation"] = old.empty() ? 1 : generation_of(old) + (desired_part(old) != desired_part(object) ? 1 : 0);
  fake::track(old, object, owners, {"world", "Update", ""});
  return *impl_->commit(*kind, key, std::move(object), std::move(owners));
}

bool FakeApiServer::erase(const Resource& resource, std::string_view ns, std::string_view name) {
  std::lock_guard lock(impl_->mutex_);
  Kind* kind = impl_->kind_of(resource);
  const ObjectKey key{resource.namespaced ? std::string(ns) : "", std::string(name)};
  if (kind == nullptr || !kind->records.contains(key)) return false;
  impl_->erase(*kind, key);
  return true;
}

void FakeApiServer::set_graceful_pods(bool graceful) {
  std::lock_guard lock(impl_->mutex_);
  impl_->graceful_pods_ = graceful;
}

void FakeApiServer::compact() {
  std::lock_guard lock(impl_->mutex_);
  impl_->compact();
}

void FakeApiServer::send_bookmarks() {
  std::lock_guard lock(impl_->mutex_);
  ++impl_->bookmark_rounds_;
  impl_->changed_.notify_all();
}

void FakeApiServer::close_watches() {
  std::lock_guard lock(impl_->mutex_);
  ++impl_->close_rounds_;
  impl_->changed_.notify_all();
}

size_t FakeApiServer::open_watches() const {
  std::lock_guard lock(impl_->mutex_);
  return impl_->open_watches_;
}

std::string FakeApiServer::resource_version() const {
  std::lock_guard lock(impl_->mutex_);
  return std::to_string(impl_->version_);
}

}  // namespace homeostat::kube
