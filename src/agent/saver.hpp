// Saves the agent's memory on a thread of its own: a disk that hangs must not stop the reading of the kernel log. What
// is saved is one moment's ledger together with its cursor, so that whatever a kill cuts off is read from the log again
// and counted once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/memory.hpp"
#include "core/time.hpp"

namespace homeostat::agent {

class Saver {
 public:
  // take: the memory of this moment, from any thread; must stay good for the process's lifetime.
  Saver(std::string folder, std::function<Memory()> take);
  ~Saver();  // saves once more, for at most 2 s
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  void save_soon();  // now, or when the save that is under way has ended

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace homeostat::agent
