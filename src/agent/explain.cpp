#include "agent/explain.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "core/fault/explain.hpp"
#include "io/json.hpp"

namespace homeostat::agent {

namespace {

boost::json::array array_of(const std::vector<std::string>& texts) {
  return boost::json::array(texts.begin(), texts.end());
}

boost::json::object object_of(const fault::Explanation& e) {
  return {{"component", e.component},
          {"code", e.code},
          {"name", e.name},
          {"title", e.title},
          {"severity", fault::to_string(e.severity)},
          {"class", fault::to_string(e.repair_class)},
          {"atOnce", e.at_once},
          {"action", e.action},
          {"actionMeaning", e.action_meaning},
          {"why", e.why},
          {"repeat", e.repeat},
          {"details", array_of(e.details)},
          {"published", array_of(e.published)},
          {"related", array_of(e.related)},
          {"source", e.source}};
}

}  // namespace

std::optional<std::string> explain_code(std::string_view code, bool json) {
  const auto explanation = fault::explain(code);
  if (!explanation) return std::nullopt;
  return json ? io::to_text(object_of(*explanation)) + "\n" : fault::render(*explanation);
}

std::string unknown_code(std::string_view code) {
  std::string out = "The catalogue knows no code \"";
  out.append(code.substr(0, 64)).append("\".");
  const auto near = fault::suggestions(code);
  for (size_t i = 0; i < near.size(); ++i)
    out.append(i == 0 ? " Did you mean " : i + 1 == near.size() ? " or " : ", ").append(near[i]);
  return near.empty() ? out.append(" Write for example 79, sxid 12028 or 154/0x2.") : out.append("?");
}

}  // namespace homeostat::agent
