// Manifests: YAML files as Kubernetes people write them, read into objects and applied. YAML is read here and nowhere
// else in the CLI.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "kube/client.hpp"

namespace homeostat::cli {

// Every document of a text ("---" between them), as JSON by the rules of YAML's core schema: quoted scalars stay texts.
// `origin` names the text in messages. Errors: invalid, with the line. Documents that hold nothing are skipped.
Result<std::vector<kube::Object>> parse_manifests(std::string_view yaml, std::string_view origin);

// A file, or all *.yaml of a folder in the order of their names.
Result<std::vector<kube::Object>> read_manifests(const std::string& path);

// Where objects of this apiVersion and kind live: the plural by the API's own rule (lower case, regular English
// plural).
Result<kube::Resource> resource_of(const kube::Object& object);

// Server-side apply under field manager "homeostat", forced: what a manifest says is ours. not_found for a kind that
// the server does not know (yet): apply its definition first.
Result<void> apply_manifests(kube::Client& client, const std::vector<kube::Object>& objects);

}  // namespace homeostat::cli
