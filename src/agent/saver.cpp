#include "agent/saver.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "io/log.hpp"

namespace homeostat::agent {

namespace {
constexpr std::chrono::seconds last_save_bound{2};
}

struct Saver::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::string folder;
  std::function<Memory()> take;
  bool wanted = false, saving = false, stopped = false, failed = false;

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return wanted || stopped; });
      if (!wanted) break;
      wanted = false;
      saving = true;
      lock.unlock();
      const auto saved = save_memory(folder, take());
      lock.lock();
      saving = false;
      if (!saved && !failed) io::log_error(saved.error().message);
      failed = !saved;
      changed.notify_all();
    }
  }
};

Saver::Saver(std::string folder, std::function<Memory()> take) : shared_(std::make_shared<Shared>()) {
  shared_->folder = std::move(folder);
  shared_->take = std::move(take);
  // Detached, and it owns what it touches: a write that hangs cannot be joined.
  std::thread([shared = shared_] { shared->work(); }).detach();
}

Saver::~Saver() {
  std::unique_lock lock(shared_->mutex);
  shared_->wanted = shared_->stopped = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, last_save_bound, [&] { return !shared_->wanted && !shared_->saving; });
}

void Saver::save_soon() {
  std::lock_guard lock(shared_->mutex);
  shared_->wanted = true;
  shared_->changed.notify_all();
}

}  // namespace homeostat::agent
