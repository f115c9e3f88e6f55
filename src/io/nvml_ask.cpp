#include "io/nvml_ask.hpp"

namespace homeostat::io::nvml {

namespace {

// The GPU or the driver does not have the figure: nothing is wrong.
bool is_not_offered(int code) {
  switch (code) {
    case not_supported:
    case invalid_argument:
    case not_found:
    case function_not_found:
    case no_data:
    case vgpu_ecc_not_supported:
    case argument_version_mismatch:
    case deprecated:
    case not_ready:
      return true;
    default:
      return false;
  }
}

std::string told(const char* what, int code) {
  std::string text = "The ";
  text += what;
  text += " cannot be read (";
  text += word(code);
  text += "). ";
  text += sentence(code);
  return text;
}

}  // namespace

bool Ask::settle(const char* what, int code) {
  if (code == success) return true;
  if (code == gpu_is_lost) {
    gpu_.lost = true;
  } else if (code == reset_required) {
    gpu_.reset_required = true;
  } else if (!is_not_offered(code) && gpu_.unreadable.size() < fault::max_unreadable) {
    gpu_.unreadable.push_back(told(what, code));
  }
  return false;
}

bool Ask::settle_vital(const char* what, int code) {
  if (code == success) return true;
  if (code == gpu_is_lost)
    gpu_.lost = true;
  else if (code == reset_required)
    gpu_.reset_required = true;
  else
    gpu_.trouble = told(what, code);
  return false;
}

std::optional<std::uint64_t> unsigned_of(const FieldValue& field) {
  switch (field.value_type) {
    case type_double:
      if (!(field.value.number >= 0 && field.value.number < 1e18)) return std::nullopt;
      return static_cast<std::uint64_t>(field.value.number);
    case type_unsigned_int:
      return field.value.u32;
    case type_unsigned_long:
      return field.value.ul;
    case type_unsigned_long_long:
      return field.value.u64;
    case type_unsigned_short:
      return field.value.u16;
    case type_signed_long_long:
      if (field.value.i64 < 0) return std::nullopt;
      return static_cast<std::uint64_t>(field.value.i64);
    case type_signed_int:
      if (field.value.i32 < 0) return std::nullopt;
      return static_cast<std::uint64_t>(field.value.i32);
    default:
      return std::nullopt;
  }
}

std::optional<int> signed_of(const FieldValue& field) {
  if (field.value_type == type_signed_int) return field.value.i32;
  if (field.value_type == type_signed_long_long && field.value.i64 > -1'000'000 && field.value.i64 < 1'000'000)
    return static_cast<int>(field.value.i64);
  const auto plain = unsigned_of(field);
  // Some drivers hand a negative number out as an unsigned one.
  if (field.value_type == type_unsigned_int) return field.value.i32;
  if (plain && *plain < 1'000'000) return static_cast<int>(*plain);
  return std::nullopt;
}

}  // namespace homeostat::io::nvml
