// Any bytes as a code that somebody asks about: an answer names a finding that can be asked about again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/fault/explain.hpp"

using namespace homeostat::fault;

namespace {

void require(bool good) {
  if (!good) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string_view typed(reinterpret_cast<const char*>(data), size);
  const auto answer = explain(typed);
  if (!answer) {
    require(suggestions(typed).size() <= 5);
    return 0;
  }
  require(!answer->component.empty() && !answer->code.empty() && !answer->title.empty());
  const auto text = render(*answer);
  require(text.size() < 65536 && text.ends_with('\n'));
  const auto again = explain(answer->component + "/" + answer->code);
  require(again && again->component == answer->component && again->code == answer->code);
  return 0;
}
