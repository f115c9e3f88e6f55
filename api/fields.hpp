// Small readers and writers that the codecs share. An instant that is no RFC 3339 text reads as nothing; what is empty
// is not written.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/time.hpp"
#include "io/json.hpp"

namespace homeostat::api {

inline std::optional<TimePoint> time_at(const boost::json::object& from, io::JsonPath path) {
  return parse_rfc3339(io::string_at(from, path));
}

inline void put_time(boost::json::object& into, std::string_view key, const std::optional<TimePoint>& time) {
  if (time) into[key] = format_rfc3339(*time);
}

inline void put_text(boost::json::object& into, std::string_view key, const std::string& text) {
  if (!text.empty()) into[key] = text;
}

}  // namespace homeostat::api
