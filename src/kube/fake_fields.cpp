#include "kube/fake_fields.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <functional>
#include <optional>

#include "io/json.hpp"

namespace homeostat::kube::fake {

namespace json = boost::json;

namespace {

// The members that identify an item of a list-map; empty: not such a list.
std::vector<std::string_view> merge_keys(std::string_view field, const json::value& item) {
  if (field == "conditions" || field == "addresses") return {"type"};
  if (field == "containers" || field == "initContainers" || field == "volumes" || field == "env" ||
      field == "imagePullSecrets")
    return {"name"};
  if (field == "volumeMounts") return {"mountPath"};
  if (field == "ownerReferences") return {"uid"};
  if (field == "ports" && item.is_object()) {
    if (item.get_object().contains("containerPort")) return {"containerPort", "protocol"};
    if (item.get_object().contains("port")) return {"port", "protocol"};
  }
  return {};
}

// "k:{...}" of an item; nullopt when the list is not a map or the item lacks its key.
std::optional<std::string> item_element(std::string_view field, const json::value& item) {
  const auto keys = merge_keys(field, item);
  if (keys.empty() || !item.is_object()) return std::nullopt;
  json::object key;
  for (const auto name : keys) {
    const auto* value = item.get_object().if_contains(name);
    if (value != nullptr)
      key[name] = *value;
    else if (name == "protocol")
      key[name] = "TCP";
    else
      return std::nullopt;
  }
  return "k:" + json::serialize(key);
}

bool is_set(std::string_view field) { return field == "finalizers"; }

bool is_list_map(std::string_view field, const json::array& list) {
  return !list.empty() &&
         std::all_of(list.begin(), list.end(), [&](const auto& item) { return item_element(field, item).has_value(); });
}

bool is_server_owned(const FieldPath& path) {
  static const std::set<std::string_view> metadata{"f:name",
                                                   "f:namespace",
                                                   "f:uid",
                                                   "f:resourceVersion",
                                                   "f:generation",
                                                   "f:creationTimestamp",
                                                   "f:managedFields",
                                                   "f:deletionTimestamp",
                                                   "f:deletionGracePeriodSeconds",
                                                   "f:generateName"};
  if (path.size() == 1) return path[0] == "f:apiVersion" || path[0] == "f:kind";
  return path.size() == 2 && path[0] == "f:metadata" && metadata.contains(path[1]);
}

void collect(const json::value& value, std::string_view field, FieldPath& path, std::map<FieldPath, json::value>& out);

void collect_members(const json::object& object, FieldPath& path, std::map<FieldPath, json::value>& out) {
  for (const auto& member : object) {
    path.push_back("f:" + std::string(member.key()));
    if (!is_server_owned(path)) collect(member.value(), member.key(), path, out);
    path.pop_back();
  }
}

void collect(const json::value& value, std::string_view field, FieldPath& path, std::map<FieldPath, json::value>& out) {
  if (const auto* object = value.if_object(); object && !object->empty()) return collect_members(*object, path, out);
  if (const auto* list = value.if_array(); list && !list->empty() && (is_set(field) || is_list_map(field, *list))) {
    for (const auto& item : *list) {
      path.push_back(is_set(field) ? "v:" + json::serialize(item) : *item_element(field, item));
      if (is_set(field))
        out[path] = item;
      else
        collect_members(item.get_object(), path, out);
      path.pop_back();
    }
    return;
  }
  out[path] = value;
}

std::string_view bare(const std::string& element) { return std::string_view(element).substr(2); }

// The place of a path's element within its container; nullptr when absent and not to be made.
json::value* descend(json::value& at, const std::string& element, std::string_view field, bool make) {
  if (element.starts_with("f:")) {
    if (!at.is_object()) {
      if (!make) return nullptr;
      at.emplace_object();
    }
    if (make) return &at.get_object()[bare(element)];
    return at.get_object().if_contains(bare(element));
  }
  if (!at.is_array()) {
    if (!make) return nullptr;
    at.emplace_array();
  }
  auto& list = at.get_array();
  for (auto& item : list)
    if (element.starts_with("k:") ? item_element(field, item) == element : "v:" + json::serialize(item) == element)
      return &item;
  if (!make) return nullptr;
  return &list.emplace_back(json::parse(json::string_view(bare(element))));
}

// The field name that a list element belongs to.
std::string_view field_before(const FieldPath& path, size_t index) {
  return index == 0 ? std::string_view() : bare(path[index - 1]);
}

void set_leaf(json::value& root, const FieldPath& path, const json::value& value) {
  json::value* at = &root;
  for (size_t i = 0; i < path.size() && at != nullptr; ++i) at = descend(*at, path[i], field_before(path, i), true);
  if (at != nullptr) *at = value;
}

bool is_empty(const json::value& value) {
  if (value.is_object()) return value.get_object().empty();
  if (value.is_array()) return value.get_array().empty();
  return false;
}

// Whether only the members that identify the item are left in it.
bool only_keys_left(const json::value& item, std::string_view field) {
  const auto keys = merge_keys(field, item);
  for (const auto& member : item.get_object())
    if (std::find(keys.begin(), keys.end(), std::string_view(member.key())) == keys.end()) return false;
  return true;
}

bool is_key_leaf(const FieldPath& path) {
  if (path.size() < 3 || !path[path.size() - 2].starts_with("k:")) return false;
  const auto key = json::parse(json::string_view(bare(path[path.size() - 2])));
  return key.get_object().contains(bare(path.back()));
}

void erase_child(json::value& parent, const std::string& element, std::string_view field) {
  if (element.starts_with("f:")) {
    if (parent.is_object()) parent.get_object().erase(bare(element));
    return;
  }
  if (!parent.is_array()) return;
  auto& list = parent.get_array();
  for (auto item = list.begin(); item != list.end(); ++item)
    if (element.starts_with("k:") ? item_element(field, *item) == element : "v:" + json::serialize(*item) == element) {
      list.erase(item);
      return;
    }
}

// Removes path[depth…] below `at` and every container that it empties.
void remove_leaf(json::value& at, const FieldPath& path, size_t depth = 0) {
  const auto field = field_before(path, depth);
  if (depth + 1 == path.size()) return erase_child(at, path[depth], field);
  json::value* child = descend(at, path[depth], field, false);
  if (child == nullptr) return;
  if (depth + 2 == path.size() &&
      is_key_leaf(path)) {  // an item without its key cannot be found: it goes whole or not at all
    if (only_keys_left(*child, field)) erase_child(at, path[depth], field);
  } else {
    remove_leaf(*child, path, depth + 1);
  }
  child = descend(at, path[depth], field, false);
  if (child != nullptr && is_empty(*child)) erase_child(at, path[depth], field);
}

// An empty map in an apply claims the map, not its emptiness.
bool is_filled(json::value& root, const FieldPath& path, const json::value& value) {
  if (!value.is_object() || !value.get_object().empty()) return false;
  json::value* at = &root;
  for (size_t i = 0; i < path.size() && at != nullptr; ++i) at = descend(*at, path[i], field_before(path, i), false);
  return at != nullptr && at->is_object();
}

void remove_leaves(json::object& object, const FieldSet& paths) {
  json::value root(std::move(object));
  for (const auto& path : paths)
    if (!is_key_leaf(path)) remove_leaf(root, path);
  for (const auto& path : paths)
    if (is_key_leaf(path)) remove_leaf(root, path);
  object = std::move(root.get_object());
}

std::vector<Conflict> find_conflicts(const std::map<FieldPath, json::value>& live, const Owners& owners,
                                     const std::map<FieldPath, json::value>& wanted, const Owner& owner) {
  std::vector<Conflict> out;
  for (const auto& [path, value] : wanted) {
    const auto found = live.find(path);
    if (found == live.end() || found->second == value) continue;
    for (const auto& [other, fields] : owners)
      if (other != owner && fields.contains(path)) out.push_back({other.manager, path});
  }
  return out;
}

bool owned_by_others(const Owners& owners, const Owner& owner, const FieldPath& path) {
  return std::any_of(owners.begin(), owners.end(),
                     [&](const auto& entry) { return entry.first != owner && entry.second.contains(path); });
}

}  // namespace

std::map<FieldPath, json::value> leaves(const json::object& object) {
  std::map<FieldPath, json::value> out;
  FieldPath path;
  collect_members(object, path, out);
  return out;
}

std::string path_text(const FieldPath& path) {
  std::string out;
  for (const auto& element : path) {
    if (element.starts_with("f:"))
      out += "." + std::string(bare(element));
    else if (element.starts_with("v:"))
      out += "[" + std::string(bare(element)) + "]";
    else {
      std::string keys;
      const json::value key = json::parse(json::string_view(bare(element)));
      for (const auto& member : key.get_object())
        keys += (keys.empty() ? "" : ",") + std::string(member.key()) + "=" + json::serialize(member.value());
      out += "[" + keys + "]";
    }
  }
  return out;
}

std::vector<Conflict> apply(json::object& live, Owners& owners, const json::object& applied, const Owner& owner,
                            bool force) {
  const auto have = leaves(live), wanted = leaves(applied);
  auto conflicts = find_conflicts(have, owners, wanted, owner);
  if (!conflicts.empty() && !force) return conflicts;
  for (const auto& conflict : conflicts)
    for (auto& [other, fields] : owners)
      if (other != owner) fields.erase(conflict.path);
  FieldSet dropped;
  for (const auto& path : owners[owner])
    if (!wanted.contains(path) && !owned_by_others(owners, owner, path)) dropped.insert(path);
  json::value root(live);
  for (const auto& [path, value] : wanted)
    if (!is_filled(root, path, value)) set_leaf(root, path, value);
  live = std::move(root.get_object());
  remove_leaves(live, dropped);
  FieldSet mine;
  for (const auto& [path, value] : wanted) mine.insert(path);
  owners[owner] = std::move(mine);
  std::erase_if(owners, [](const auto& entry) { return entry.second.empty(); });
  return {};
}

void track(const json::object& before, const json::object& after, Owners& owners, const Owner& owner) {
  const auto old_leaves = leaves(before), new_leaves = leaves(after);
  for (const auto& [path, value] : new_leaves) {
    const auto found = old_leaves.find(path);
    if (found != old_leaves.end() && found->second == value) continue;
    for (auto& [other, fields] : owners) fields.erase(path);
    owners[owner].insert(path);
  }
  for (const auto& [path, value] : old_leaves)
    if (!new_leaves.contains(path))
      for (auto& [other, fields] : owners) fields.erase(path);
  std::erase_if(owners, [](const auto& entry) { return entry.second.empty(); });
}

json::array managed_fields(const Owners& owners, std::string_view api_version) {
  json::array out;
  for (const auto& [owner, fields] : owners) {
    json::object tree;
    for (const auto& path : fields) {
      json::object* at = &tree;
      for (const auto& element : path) {
        auto& next = (*at)[element];
        if (!next.is_object()) next.emplace_object();
        at = &next.get_object();
      }
    }
    json::object entry{{"manager", owner.manager},
                       {"operation", owner.operation},
                       {"apiVersion", api_version},
                       {"fieldsType", "FieldsV1"},
                       {"fieldsV1", std::move(tree)}};
    if (!owner.subresource.empty()) entry["subresource"] = owner.subresource;
    out.push_back(std::move(entry));
  }
  return out;
}

// ---- patches ----

void merge_patch(json::value& target, const json::value& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target.emplace_object();
  auto& object = target.get_object();
  for (const auto& member : patch.get_object()) {
    if (member.value().is_null())
      object.erase(member.key());
    else
      merge_patch(object[member.key()], member.value());
  }
}

namespace {

std::vector<std::string_view> strategic_keys(std::string_view field, const json::value& item) {
  if (field == "taints") return {"key"};
  return merge_keys(field, item);
}

bool same_item(const json::value& a, const json::value& b, const std::vector<std::string_view>& keys) {
  if (!a.is_object() || !b.is_object()) return false;
  const auto* left = a.get_object().if_contains(keys.front());
  const auto* right = b.get_object().if_contains(keys.front());
  return left && right && *left == *right;
}

void strategic_list(json::value& target, const json::array& patch, std::string_view field) {
  if (!target.is_array()) target.emplace_array();
  auto& list = target.get_array();
  for (const auto& item : patch) {
    if (is_set(field)) {
      if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
      continue;
    }
    const auto keys = strategic_keys(field, item);
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const auto& have) { return same_item(have, item, keys); });
    const bool remove = io::string_at(item, {"$patch"}) == "delete";
    if (remove && found != list.end())
      list.erase(found);
    else if (!remove && found != list.end())
      strategic_merge_patch(*found, item);
    else if (!remove)
      list.push_back(item);
  }
}

}  // namespace

void strategic_merge_patch(json::value& target, const json::value& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target.emplace_object();
  auto& object = target.get_object();
  for (const auto& member : patch.get_object()) {
    const std::string_view field = member.key();
    if (field.starts_with("$")) continue;
    const auto* list = member.value().if_array();
    if (member.value().is_null())
      object.erase(field);
    else if (list && !list->empty() && (is_set(field) || !strategic_keys(field, list->front()).empty()))
      strategic_list(object[field], *list, field);
    else
      strategic_merge_patch(object[field], member.value());
  }
}

namespace {

Error patch_error(const std::string& text) {
  return {ErrorKind::invalid, "the server rejected our request due to an error in our request: " + text, {}};
}

std::string unescaped(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size())
      out.push_back(token[++i] == '1' ? '/' : '~');
    else
      out.push_back(token[i]);
  }
  return out;
}

std::optional<size_t> index_of(const json::array& list, const std::string& token, bool may_append) {
  if (token == "-" && may_append) return list.size();
  if (token.empty() || token.size() > 9 ||
      !std::all_of(token.begin(), token.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const size_t index = std::stoul(token);
  if (index < list.size() + (may_append ? 1 : 0)) return index;
  return std::nullopt;
}

json::value* child_of(json::value& parent, const std::string& token) {
  if (parent.is_object()) return parent.get_object().if_contains(token);
  if (parent.is_array())
    if (const auto index = index_of(parent.get_array(), token, false)) return &parent.get_array()[*index];
  return nullptr;
}

bool add_child(json::value& parent, const std::string& token, const json::value& value) {
  if (parent.is_object()) {
    parent.get_object()[token] = value;
    return true;
  }
  if (!parent.is_array()) return false;
  const auto index = index_of(parent.get_array(), token, true);
  if (!index) return false;
  parent.get_array().insert(parent.get_array().begin() + static_cast<std::ptrdiff_t>(*index), value);
  return true;
}

Result<void> patch_once(json::value& root, const json::value& operation) {
  const std::string op = io::string_at(operation, {"op"}), path = io::string_at(operation, {"path"});
  const json::value* given = io::find(operation, {"value"});
  const json::value value = given ? *given : json::value();
  if (!path.starts_with('/')) return std::unexpected(patch_error("bad path " + path));
  json::value* parent = &root;
  std::string_view rest = std::string_view(path).substr(1);
  for (auto slash = rest.find('/'); slash != rest.npos && parent; slash = rest.find('/')) {
    parent = child_of(*parent, unescaped(rest.substr(0, slash)));
    rest.remove_prefix(slash + 1);
  }
  if (parent == nullptr) return std::unexpected(patch_error("no such path " + path));
  const std::string token = unescaped(rest);
  json::value* target = child_of(*parent, token);
  if (op == "add") {
    if (!add_child(*parent, token, value)) return std::unexpected(patch_error("cannot add at " + path));
    return {};
  }
  if (target == nullptr) return std::unexpected(patch_error("no such path " + path));
  if (op == "replace")
    *target = value;
  else if (op == "test" && *target != value)
    return std::unexpected(patch_error("testing value " + path + " failed"));
  else if (op == "remove" && parent->is_object())
    parent->get_object().erase(token);
  else if (op == "remove")
    parent->get_array().erase(parent->get_array().begin() + static_cast<std::ptrdiff_t>(std::stoul(token)));
  else if (op != "test")
    return std::unexpected(patch_error("unknown operation " + op));
  return {};
}

}  // namespace

Result<void> json_patch(json::value& target, const json::array& operations) {
  for (const auto& operation : operations)
    if (auto done = patch_once(target, operation); !done) return done;
  return {};
}

// ---- selectors ----

namespace {

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Splits at commas outside parentheses.
std::vector<std::string_view> terms_of(std::string_view text) {
  std::vector<std::string_view> out;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      if (const auto term = trim(text.substr(start, i - start)); !term.empty()) out.push_back(term);
      start = i + 1;
    }
  }
  return out;
}

using Lookup = std::function<std::optional<std::string>(std::string_view)>;

bool matches_set(std::string_view term, size_t at, size_t length, bool wanted, const Lookup& lookup) {
  auto values = trim(term.substr(at + length));
  if (values.starts_with('(') && values.ends_with(')')) values = values.substr(1, values.size() - 2);
  const auto have = lookup(trim(term.substr(0, at)));
  const auto list = terms_of(values);
  const bool found = have && std::find(list.begin(), list.end(), *have) != list.end();
  return found == wanted;
}

bool matches_term(std::string_view term, const Lookup& lookup) {
  if (const auto at = term.find(" notin "); at != term.npos) return matches_set(term, at, 7, false, lookup);
  if (const auto at = term.find(" in "); at != term.npos) return matches_set(term, at, 4, true, lookup);
  if (const auto at = term.find("!="); at != term.npos)
    return lookup(trim(term.substr(0, at))) != std::optional(std::string(trim(term.substr(at + 2))));
  if (const auto at = term.find('='); at != term.npos) {
    const auto value = trim(term.substr(at + (term.substr(at).starts_with("==") ? 2 : 1)));
    return lookup(trim(term.substr(0, at))) == std::optional(std::string(value));
  }
  if (term.starts_with('!')) return !lookup(trim(term.substr(1)));
  return lookup(term).has_value();
}

Lookup labels_of(const json::object& object) {
  return [&object](std::string_view name) -> std::optional<std::string> {
    const auto* value = io::find(object, {"metadata", "labels", name});
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return std::string(value->get_string());
  };
}

}  // namespace

bool matches_labels(const json::object& object, std::string_view selector) {
  const auto lookup = labels_of(object);
  for (const auto term : terms_of(selector))
    if (!matches_term(term, lookup)) return false;
  return true;
}

bool matches_fields(const json::object& object, std::string_view selector) {
  const Lookup lookup = [&](std::string_view dotted) -> std::optional<std::string> {
    const json::value* at = nullptr;
    const json::object* level = &object;
    while (!dotted.empty()) {
      const auto dot = dotted.find('.');
      at = level ? level->if_contains(dotted.substr(0, dot)) : nullptr;
      if (at == nullptr) return "";  // an absent field reads as empty
      level = at->if_object();
      dotted = dot == dotted.npos ? std::string_view() : dotted.substr(dot + 1);
    }
    if (at == nullptr) return "";
    return at->is_string() ? std::string(at->get_string()) : json::serialize(*at);
  };
  for (const auto term : terms_of(selector))
    if (!matches_term(term, lookup)) return false;
  return true;
}

bool matches_selector(const json::object& object, const json::object& selector) {
  const auto lookup = labels_of(object);
  for (const auto& member : io::object_at(selector, {"matchLabels"}))
    if (!member.value().is_string() || lookup(member.key()) != std::optional(std::string(member.value().get_string())))
      return false;
  for (const auto& expression : io::array_at(selector, {"matchExpressions"})) {
    const auto have = lookup(io::string_at(expression, {"key"}));
    const auto op = io::string_at(expression, {"operator"});
    const auto& values = io::array_at(expression, {"values"});
    const bool in = have && std::find(values.begin(), values.end(), json::value(*have)) != values.end();
    const bool good = op == "In" ? in : op == "NotIn" ? !in : op == "Exists" ? have.has_value() : !have.has_value();
    if (!good) return false;
  }
  return true;
}

}  // namespace homeostat::kube::fake
