// Machines in memory with the local provider's behaviour, for tests and the simulation. Single-threaded.
#pragma once

#include <algorithm>
#include <functional>

#include "provider/provider.hpp"

namespace homeostat::provider {

class FakeProvider {
 public:
  size_t slots = 100;
  std::vector<Machine> machines;
  size_t created = 0, removed = 0;                           // orders that made a machine, deletions that ended one
  std::function<void(const Machine&)> on_create, on_remove;  // the world beside the provider
  std::function<Result<void>(std::string_view call)> before,
      after;  // faults: before: no effect; after: the answer is lost

  class Handle final : public Provider {
   public:
    explicit Handle(FakeProvider& world) : world_(world) {}

    Result<Machine> create(const MachineOrder& order) override {
      if (auto ok = world_.ask(world_.before, "create"); !ok) return std::unexpected(ok.error());
      auto made = world_.make(order);
      if (auto ok = world_.ask(world_.after, "create"); !ok) return std::unexpected(ok.error());
      return made;
    }
    Result<std::vector<Machine>> list() override {
      if (auto ok = world_.ask(world_.before, "list"); !ok) return std::unexpected(ok.error());
      return world_.machines;
    }
    Result<void> remove(std::string_view name) override {
      if (auto ok = world_.ask(world_.before, "remove"); !ok) return ok;
      world_.end(name);
      return world_.ask(world_.after, "remove");
    }

   private:
    FakeProvider& world_;
  };

  std::unique_ptr<Provider> connect() { return std::make_unique<Handle>(*this); }

 private:
  static Result<void> ask(const std::function<Result<void>(std::string_view)>& hook, std::string_view call) {
    return hook ? hook(call) : Result<void>{};
  }

  Result<Machine> make(const MachineOrder& order) {
    for (const Machine& machine : machines) {
      if (machine.token == order.token) {
        if (machine.name == order.name && machine.pool == order.pool && machine.gpus == order.gpus) return machine;
        return fail(ErrorKind::already_exists, "the token was used for another order");
      }
      if (machine.name == order.name)
        return fail(ErrorKind::already_exists, "the name belongs to another token's machine");
    }
    if (machines.size() >= slots) return fail(ErrorKind::unavailable, "no room for another machine");
    machines.push_back({order.name, order.token, order.pool, order.gpus, MachineState::running, "", std::nullopt});
    ++created;
    if (on_create) on_create(machines.back());
    return machines.back();
  }

  void end(std::string_view name) {
    auto found = std::ranges::find(machines, name, &Machine::name);
    if (found == machines.end()) return;
    Machine gone = std::move(*found);
    machines.erase(found);
    ++removed;
    if (on_remove) on_remove(gone);
  }
};

}  // namespace homeostat::provider
