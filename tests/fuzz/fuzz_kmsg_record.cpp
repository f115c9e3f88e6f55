// Any bytes as one record of /dev/kmsg: what is accepted keeps its promises.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/fault/classify.hpp"
#include "core/fault/kernel_line.hpp"

using namespace homeostat::fault;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto record = parse_kmsg_record(bytes);
  if (!record) return 0;
  if (record->text.find('\n') != std::string_view::npos) std::abort();
  if (!record->text.empty() &&
      (record->text.data() < bytes.data() || record->text.data() + record->text.size() > bytes.data() + size))
    std::abort();
  // A record of another facility never becomes a finding.
  if (!record->from_kernel() && bytes.front() != ' ' && classify_text(bytes)) std::abort();
  return 0;
}
