// One GPU as amdsmi shows it. For io/amdsmi only.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/fault/amd_counters.hpp"
#include "io/amdsmi.hpp"
#include "io/amdsmi_abi.hpp"

namespace homeostat::io::amdsmi {

// What a look has to say of calls that failed.
struct Complaints {
  std::vector<std::string> sentences;
  std::vector<std::string> of_what;  // function and status of each sentence: eight GPUs may have one reason
  unsigned failures = 0;             // in which the driver may have taken its time
};

// One look at one GPU: makes each call known by name while it lasts, and says what its status means.
class Ask {
 public:
  Ask(NowReading& now, std::string pci, Complaints& complaints)
      : now_(now), pci_(std::move(pci)), complaints_(complaints) {}

  bool may() const { return complaints_.failures < AmdSmi::max_failures; }

  template <class... Parameters, class... Arguments>
  bool operator()(const Function<Parameters...>& function, Arguments... arguments) {
    return function.call != nullptr && may() && settle(function.name, call(function, arguments...));
  }

  // The same without a word about what the status means.
  template <class... Parameters, class... Arguments>
  int call(const Function<Parameters...>& function, Arguments... arguments) {
    now_.begin(pci_.empty() ? function.name : std::string(function.name) + " of " + pci_, {});
    const int status = function.call(arguments...);
    now_.end();
    return status;
  }

  // A function that fills one number. All ones: the GPU does not have it.
  template <class Number, class... Parameters, class... Arguments>
  std::optional<Number> number(const Function<Parameters...>& function, Arguments... arguments) {
    Number value = std::numeric_limits<Number>::max();
    if (!(*this)(function, arguments..., &value) || value == std::numeric_limits<Number>::max()) return std::nullopt;
    return value;
  }

 private:
  bool settle(const char* name, int status);

  NowReading& now_;
  std::string pci_;
  Complaints& complaints_;
};

// What `known` does not tell. `major`: of the library, for the structures that differ.
void read_missing(const Functions& call, unsigned major, Handle handle, const fault::AmdReading& known, Ask& ask,
                  Room& room, fault::AmdReading& gpu);

// "0000:c1:00" as the library wants it. nullopt: no PCI address.
std::optional<std::uint64_t> bdf_of(const std::string& pci);

}  // namespace homeostat::io::amdsmi
