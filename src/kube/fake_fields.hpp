// What the fake API server does with the inside of objects: the patch formats and the field ownership of server-side
// apply. Lists of the well-known merge keys (conditions by type, containers by name, …) are maps, finalizers are a set,
// every other list is one value. Pure functions.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace homeostat::kube::fake {

// FieldsV1 elements: f:name, k:{"type":"Ready"}, v:"value".
using FieldPath = std::vector<std::string>;
using FieldSet = std::set<FieldPath>;

struct Owner {
  std::string manager = {};
  std::string operation = "Update";  // or Apply
  std::string subresource = {};
  auto operator<=>(const Owner&) const = default;
};
using Owners = std::map<Owner, FieldSet>;

// Every leaf of the object that managers can own (neither identity nor what the server writes).
std::map<FieldPath, boost::json::value> leaves(const boost::json::object& object);
// ".status.conditions[type=\"Ready\"].status", as the API server writes it.
std::string path_text(const FieldPath& path);

struct Conflict {
  std::string manager = {};
  FieldPath path = {};
};
// Merges `applied` into `live` in place and moves ownership. Without force nothing is changed when there are conflicts.
std::vector<Conflict> apply(boost::json::object& live, Owners& owners, const boost::json::object& applied,
                            const Owner& owner, bool force);
// After a write that is not an apply: what it changed is its own, what it removed is nobody's.
void track(const boost::json::object& before, const boost::json::object& after, Owners& owners, const Owner& owner);
boost::json::array managed_fields(const Owners& owners, std::string_view api_version);

void merge_patch(boost::json::value& target, const boost::json::value& patch);  // RFC 7386
void strategic_merge_patch(boost::json::value& target,
                           const boost::json::value& patch);  // merge keys and $patch: delete
Result<void> json_patch(boost::json::value& target,
                        const boost::json::array& operations);  // add, remove, replace, test

// "a=b,c!=d,e in (f,g),!h"
bool matches_labels(const boost::json::object& object, std::string_view selector);
// "metadata.name=x,status.phase!=Running"
bool matches_fields(const boost::json::object& object, std::string_view selector);
// A LabelSelector object of matchLabels and matchExpressions.
bool matches_selector(const boost::json::object& object, const boost::json::object& selector);

}  // namespace homeostat::kube::fake
