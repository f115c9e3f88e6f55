// Asking NVML about one GPU: what each code means for the reading. For io/nvml only.
#pragma once

#include <optional>

#include "core/fault/gpu_reading.hpp"
#include "io/nvml_abi.hpp"

namespace homeostat::io::nvml {

// One look at one GPU. It stops asking once the GPU is lost, needs a reset, or has failed often enough: a driver that
// times out on each question must not make a look last minutes.
class Ask {
 public:
  explicit Ask(fault::GpuReading& gpu) : gpu_(gpu) {}

  bool may() const { return gpu_.readable() && gpu_.unreadable.size() < fault::max_unreadable; }

  // Says whether the answer is good. `what`: the figure in words.
  bool settle(const char* what, int code);
  // The same for a question without which nothing is known about the GPU.
  bool settle_vital(const char* what, int code);

  template <class Function, class... Arguments>
  bool operator()(const char* what, Function* function, Arguments... arguments) {
    return function && may() && settle(what, function(arguments...));
  }

  // A function that fills one number.
  template <class Number, class Function, class... Arguments>
  std::optional<Number> number(const char* what, Function* function, Arguments... arguments) {
    Number value{};
    if ((*this)(what, function, arguments..., &value)) return value;
    return std::nullopt;
  }

 private:
  fault::GpuReading& gpu_;
};

// The number in a field's value. nullopt: its type is none that is known, or it is negative.
std::optional<std::uint64_t> unsigned_of(const FieldValue& field);
std::optional<int> signed_of(const FieldValue& field);

}  // namespace homeostat::io::nvml
