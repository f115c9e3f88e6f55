#include "io/http.hpp"

namespace homeostat::io {

std::optional<std::string> HttpResponse::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_case_name) return value;
  return std::nullopt;
}

}  // namespace homeostat::io
