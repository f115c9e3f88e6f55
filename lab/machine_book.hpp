// The machines that were ordered: what each order said and how far it is. Decides what the provider's API answers: one
// machine per token and name, whatever is repeated. Safe from any thread; each change is handed to `save` before it is
// believed.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::lab {

struct MachineOrder {
  std::string token;
  std::string name;
  std::string pool;  // "": of no pool
  int gpus = 0;
  std::map<std::string, std::string> labels;
  std::vector<std::string> taints;  // key=value:Effect
  bool operator==(const MachineOrder&) const = default;
};

// A machine is ordered with AMD GPUs by a label of its order: the API knows no vendor, as it knows no other hardware.
bool has_amd_gpus(const MachineOrder& order);

enum class MachineState { creating, running, deleting, failed };
std::string_view to_string(MachineState state);

struct Machine {
  MachineOrder order;
  MachineState state = MachineState::creating;
  std::string message;
  TimePoint created_at;
  int number = 0;  // last part of its address
};

// A sentence about what is wrong with an order, or nothing.
std::optional<std::string> problem_with(const MachineOrder& order);

std::string machine_json(const Machine& machine);    // as the API shows it
std::string machine_record(const Machine& machine);  // as it is kept on disk
Result<Machine> parse_machine_record(std::string_view text);
Result<MachineOrder> parse_order(std::string_view body);  // invalid: a sentence for the caller

class MachineBook {
 public:
  using Save = std::function<Result<void>(const Machine&)>;
  using Forget = std::function<void(const std::string& name)>;
  MachineBook(Save save, Forget forget) : save_(std::move(save)), forget_(std::move(forget)) {}

  void restore(std::vector<Machine> machines);

  struct Answer {
    Machine machine;
    bool created = false;  // false: the token was known, this is the machine it made
  };
  // conflict: the token is known with another order, or the name is taken. throttled: no address is free.
  Result<Answer> order(const MachineOrder& order, TimePoint now);
  // Marks it Deleting. not_found: unknown.
  Result<Machine> begin_delete(std::string_view name);
  // Only from Creating or Running: a machine that is being deleted stays so.
  void set_state(std::string_view name, MachineState state, std::string message);
  void forget(std::string_view name);

  std::optional<Machine> find(std::string_view name) const;
  std::vector<Machine> list(std::string_view token = {}) const;  // "" for all

 private:
  std::optional<int> free_number() const;
  mutable std::mutex mutex_;
  std::map<std::string, Machine, std::less<>> machines_;
  int last_number_ = 0;  // numbers go round, so that an address is not used again at once
  Save save_;
  Forget forget_;
};

}  // namespace homeostat::lab
