// Where machines come from. A Provider is asked for a machine under a token: asking again with the same token gives the
// same machine, so a lost answer is cured by asking again. One Provider per thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"
#include "io/http.hpp"

namespace homeostat::provider {

enum class MachineState { creating, running, deleting, failed };

struct Machine {
  std::string name = {}, token = {}, pool = {};
  int gpus = 0;
  MachineState state = MachineState::creating;
  std::string message = {};
  std::optional<TimePoint> created_at = {};
};

struct MachineOrder {
  std::string token = {}, name = {}, pool = {};
  int gpus = 0;
  std::map<std::string, std::string> labels = {};
  std::vector<std::string> taints = {};  // "key=value:Effect"
};

class Provider {
 public:
  virtual ~Provider() = default;
  // already_exists: the token was used for another order, or the name for another token. unavailable: no room now.
  virtual Result<Machine> create(const MachineOrder& order) = 0;
  virtual Result<std::vector<Machine>> list() = 0;
  // A machine that is gone or going is success.
  virtual Result<void> remove(std::string_view name) = 0;
};

struct LocalOptions {
  std::string endpoint = {};  // https://host:port
  std::string token = {};
  Duration timeout{10'000};
};

// Speaks to homeostat-lab (docs/developers/contracts.md). The transport carries the CA.
std::unique_ptr<Provider> make_local_provider(LocalOptions options, std::unique_ptr<io::HttpTransport> transport,
                                              std::stop_token stop = {});

}  // namespace homeostat::provider
