#include "cli/manifests.hpp"

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <filesystem>

#include "io/files.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::cli {
namespace {

constexpr int max_depth = 64;
constexpr std::string_view field_manager = "homeostat";

// A plain scalar by YAML's core schema. YAML 1.1's yes/no/on/off stay texts, as Kubernetes' own reader has it for
// quoted ones; a manifest that means a boolean writes true or false.
boost::json::value plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const char* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, integer); error == std::errc{} && at == end)
    return integer;
  const bool looks_like_number = text.find_first_not_of("+-.0123456789eE") == std::string::npos &&
                                 text.find_first_of("0123456789") != std::string::npos;
  double real = 0;
  if (looks_like_number)
    if (const auto [at, error] = std::from_chars(text.data(), end, real); error == std::errc{} && at == end)
      return real;
  return boost::json::string(text);
}

boost::json::value to_json(const YAML::Node& node, int depth) {
  if (depth > max_depth) throw YAML::RepresentationException(node.Mark(), "nested too deeply");
  switch (node.Type()) {
    case YAML::NodeType::Undefined:
    case YAML::NodeType::Null:
      return nullptr;
    case YAML::NodeType::Scalar:
      if (node.Tag() == "!") return boost::json::string(node.Scalar());  // it was quoted
      return plain_scalar(node.Scalar());
    case YAML::NodeType::Sequence: {
      boost::json::array out;
      for (const auto& item : node) out.push_back(to_json(item, depth + 1));
      return out;
    }
    case YAML::NodeType::Map: {
      boost::json::object out;
      for (const auto& entry : node) out[entry.first.Scalar()] = to_json(entry.second, depth + 1);
      return out;
    }
  }
  return nullptr;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string plural_of(const std::string& kind) {
  std::string name = lower(kind);
  if (name.ends_with("s") || name.ends_with("x") || name.ends_with("ch")) return name + "es";
  if (name.ends_with("y") && name.size() > 1 &&
      std::string_view("aeiou").find(name[name.size() - 2]) == std::string_view::npos)
    return name.substr(0, name.size() - 1) + "ies";
  return name + "s";
}

// Of the kinds that the runtime does not know itself.
bool is_cluster_scoped(std::string_view kind) {
  static constexpr std::array kinds = {"PersistentVolume", "ValidatingAdmissionPolicy",
                                       "ValidatingAdmissionPolicyBinding", "IngressClass", "RuntimeClass"};
  return std::any_of(kinds.begin(), kinds.end(), [&](std::string_view known) { return kind == known; });
}

}  // namespace

Result<std::vector<kube::Object>> parse_manifests(std::string_view yaml, std::string_view origin) {
  std::vector<kube::Object> objects;
  try {
    for (const auto& document : YAML::LoadAll(std::string(yaml))) {
      if (!document.IsDefined() || document.IsNull()) continue;
      auto value = to_json(document, 0);
      if (!value.is_object())
        return fail(ErrorKind::invalid,
                    fmt::format("{}: a manifest must be a mapping with apiVersion and kind", origin));
      objects.push_back(std::move(value.as_object()));
    }
  } catch (const YAML::Exception& error) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not valid YAML: {} (line {})", origin, error.msg, error.mark.line + 1));
  }
  return objects;
}

Result<std::vector<kube::Object>> read_manifests(const std::string& path) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else {
    files.emplace_back(path);
  }
  std::vector<kube::Object> objects;
  for (const auto& file : files) {
    const auto text = io::read_file(file);
    if (!text) return std::unexpected(text.error());
    auto some = parse_manifests(*text, file.string());
    if (!some) return std::unexpected(some.error());
    for (auto& object : *some) objects.push_back(std::move(object));
  }
  return objects;
}

Result<kube::Resource> resource_of(const kube::Object& object) {
  const auto kind = io::string_at(object, {"kind"}), api_version = io::string_at(object, {"apiVersion"});
  if (kind.empty() || api_version.empty())
    return fail(ErrorKind::invalid,
                fmt::format("the manifest of \"{}\" lacks apiVersion or kind", kube::name_of(object)));
  if (const auto* known = kube::resources::find_kind(api_version, kind)) return *known;
  const auto slash = api_version.find('/');
  kube::Resource resource;
  resource.group = slash == std::string::npos ? "" : api_version.substr(0, slash);
  resource.version = slash == std::string::npos ? api_version : api_version.substr(slash + 1);
  resource.kind = kind;
  resource.plural = plural_of(kind);
  resource.namespaced = !is_cluster_scoped(kind);
  return resource;
}

Result<void> apply_manifests(kube::Client& client, const std::vector<kube::Object>& objects) {
  for (const auto& object : objects) {
    const auto resource = resource_of(object);
    if (!resource) return std::unexpected(resource.error());
    const auto ns = kube::namespace_of(object);
    const auto applied = client.apply(*resource, ns.empty() ? "default" : ns, kube::name_of(object), object,
                                      {.field_manager = std::string(field_manager), .force = true, .subresource = ""});
    if (!applied)
      return std::unexpected(
          Error{applied.error().kind,
                fmt::format("{} {}: {}", resource->kind, kube::name_of(object), applied.error().message),
                {}});
  }
  return {};
}

}  // namespace homeostat::cli
