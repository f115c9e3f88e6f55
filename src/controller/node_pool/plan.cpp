#include "controller/node_pool/plan.hpp"

#include <algorithm>
#include <set>

#include "core/repair/record.hpp"

namespace homeostat::controller {

namespace {

// Machines ordered in one pass, so that a mistake in a spec is seen before it costs a hundred of them.
constexpr int max_orders = 8;

struct Tally {
  const PoolWorld& world;
  std::set<std::string> in_repair, claimed, replacements, node_names;

  explicit Tally(const PoolWorld& of) : world(of) {
    for (const PoolRepair& repair : world.repairs) {
      in_repair.insert(repair.node);
      if (!repair.spare_node.empty()) claimed.insert(repair.spare_node);
      if (!repair.machine.empty()) replacements.insert(repair.machine);
    }
    for (const PoolNode& node : world.nodes) node_names.insert(node.name);
  }

  const PoolMachine* machine(const std::string& name) const {
    if (!world.machines) return nullptr;
    auto found = std::ranges::find(*world.machines, name, &PoolMachine::name);
    return found == world.machines->end() ? nullptr : &*found;
  }

  // A Node whose machine is surely gone is only a name; one that is in repair is on its way out.
  bool counts(const PoolNode& node) const {
    if (in_repair.contains(node.name)) return false;
    if (node.ready || !world.machines) return true;
    const PoolMachine* its = machine(node.name);
    return its != nullptr && !its->leaving;
  }

  int promoted() const {
    return static_cast<int>(
        std::ranges::count_if(world.nodes, [&](const PoolNode& node) { return !node.spare && counts(node); }));
  }
  // Repairs that will still bring a node in: a spare that they have claimed or will claim, or their new machine.
  int promotions_owed() const {
    return static_cast<int>(std::ranges::count_if(world.repairs, [&](const PoolRepair& repair) {
      auto spare = std::ranges::find(world.nodes, repair.spare_node, &PoolNode::name);
      return spare == world.nodes.end() || spare->spare;
    }));
  }
  // Machines that have no Node yet and do not belong to a repair.
  int on_their_way() const {
    return static_cast<int>(std::ranges::count_if(*world.machines, [&](const PoolMachine& machine) {
      return !machine.leaving && !node_names.contains(machine.name) && !replacements.contains(machine.name) &&
             !in_repair.contains(machine.name);
    }));
  }
  // Each open repair has ordered or will order one machine; once its Node is there, that is counted as a node.
  int replacements_owed() const {
    return static_cast<int>(std::ranges::count_if(world.repairs, [&](const PoolRepair& repair) {
      return repair.machine.empty() || !node_names.contains(repair.machine);
    }));
  }
};

void order_missing(const PoolWorld& world, const Tally& tally, PoolPlan& plan) {
  if (!world.machines) return;
  auto nodes =
      static_cast<int>(std::ranges::count_if(world.nodes, [&](const PoolNode& node) { return tally.counts(node); }));
  int missing = world.size + world.spares - nodes - tally.on_their_way() - tally.replacements_owed();
  plan.too_many = std::max(0, -missing);
  std::string prefix = world.name + "-" + world.uid.substr(0, 8) + "-";
  // The smallest free ordinals: a lost answer leads to the same token again, and so to the same machine.
  for (int ordinal = 1; missing > 0 && static_cast<int>(plan.orders.size()) < max_orders && ordinal <= 100'000;
       ++ordinal) {
    std::string token = prefix + std::to_string(ordinal);
    std::string name = repair::machine_name(world.name, token);
    bool used =
        tally.node_names.contains(name) || std::ranges::any_of(*world.machines, [&](const PoolMachine& machine) {
          return machine.token == token || machine.name == name;
        });
    if (used) continue;
    plan.orders.push_back({token, name});
    --missing;
  }
}

void promote_spares(const PoolWorld& world, const Tally& tally, PoolPlan& plan) {
  int wanted = world.size - tally.promoted() - tally.promotions_owed();
  for (const PoolNode& node : world.nodes) {
    if (wanted <= 0) return;
    if (!node.spare || !node.fit || tally.claimed.contains(node.name) || tally.in_repair.contains(node.name)) continue;
    plan.promotions.push_back({node.name, node.uid, world.workers});
    --wanted;
  }
}

void complete_nodes(const PoolWorld& world, const Tally& tally, PoolPlan& plan) {
  for (const PoolNode& node : world.nodes) {
    if (tally.in_repair.contains(node.name)) continue;
    bool works = !node.spare && !node.cordoned;
    if (works && node.workers.empty() && !world.workers.empty())
      plan.labels.push_back({node.name, node.uid, world.workers});
    const PoolMachine* machine = tally.machine(node.name);
    if (machine != nullptr && node.machine_token != machine->token)
      plan.tokens.push_back({node.name, node.uid, machine->token});
  }
}

std::string describe(const PoolWorld& world, const PoolPlan& plan) {
  std::string text = std::to_string(plan.healthy) + " of " + std::to_string(world.size) + " machines work, " +
                     std::to_string(plan.spare) + " of " + std::to_string(world.spares) + " spares wait";
  if (plan.in_repair > 0) text += ", " + std::to_string(plan.in_repair) + " in repair";
  if (!world.machines) text += "; the provider does not answer, so nothing is ordered";
  if (!plan.orders.empty()) text += "; ordering " + std::to_string(plan.orders.size());
  if (plan.too_many > 0)
    text += "; " + std::to_string(plan.too_many) +
            " more than size and spares: Homeostat takes no machine away, raise size or spares or delete them at the "
            "provider";
  if (world.workers.empty()) text += "; no SlurmCluster uses this pool yet";
  return text;
}

}  // namespace

PoolPlan plan_pool(const PoolWorld& world) {
  Tally tally(world);
  PoolPlan plan;
  for (const PoolNode& node : world.nodes) {
    if (tally.in_repair.contains(node.name) || !node.fit) continue;
    ++(node.spare ? plan.spare : plan.healthy);
  }
  plan.in_repair = static_cast<int>(tally.in_repair.size());
  order_missing(world, tally, plan);
  promote_spares(world, tally, plan);
  complete_nodes(world, tally, plan);
  plan.whole = plan.healthy >= world.size && plan.spare >= world.spares;
  plan.message = describe(world, plan);
  return plan;
}

}  // namespace homeostat::controller
