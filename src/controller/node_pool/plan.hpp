// What a pool needs: which machines to order, which spares to promote, and what its status is. Pure: no clock, no I/O.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace homeostat::controller {

struct PoolNode {
  std::string name = {}, uid = {}, workers = {}, machine_token = {};
  bool spare = false;  // carries the taint
  bool fit = false;    // Ready, not cordoned, healthy, all GPUs
  bool ready = false;
  bool cordoned = false;
};

struct PoolMachine {
  std::string name = {}, token = {};
  bool leaving = false;  // being deleted, or failed
};

// A repair that is not over.
struct PoolRepair {
  std::string node = {}, spare_node = {}, machine = {};  // "" where it has none yet
};

struct PoolWorld {
  std::string name = {}, uid = {};
  int size = 0, spares = 0;
  std::vector<PoolNode> nodes = {};
  std::optional<std::vector<PoolMachine>> machines = {};  // nullopt: the provider does not answer
  std::vector<PoolRepair> repairs = {};
  std::string workers = {};  // the workers label of promoted nodes; "": no SlurmCluster uses the pool yet
};

struct PoolPlan {
  struct Order {
    std::string token, name;
  };
  struct NodeTask {
    std::string node, uid, value;
  };
  std::vector<Order> orders = {};
  std::vector<NodeTask> promotions = {};  // value: the workers label
  std::vector<NodeTask> labels = {};      // promoted before there was a SlurmCluster
  std::vector<NodeTask> tokens = {};      // value: the machine's token
  int healthy = 0, spare = 0, in_repair = 0;
  int too_many = 0;  // machines beyond size and spares
  bool whole = false;
  std::string message = {};
};

PoolPlan plan_pool(const PoolWorld& world);

}  // namespace homeostat::controller
