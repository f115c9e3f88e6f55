#include "agent/watcher.hpp"

#include <time.h>

#include "agent/memory.hpp"
#include "core/fault/text.hpp"
#include "io/files.hpp"
#include "io/log.hpp"

namespace homeostat::agent {

namespace {

constexpr Duration boot_check{2'000};
constexpr Duration retry{2'000};
constexpr Duration lazy_save{1'000};  // how old the saved cursor may be while the log says nothing of interest
constexpr Duration round{500};

// CLOCK_MONOTONIC is close to the clock that the kernel stamps its records with.
Duration uptime() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Duration(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

}  // namespace

Result<std::string> read_boot_id(const std::string& path) {
  const auto text = io::read_head(path, 128);
  const auto line = text ? std::string_view(*text) : std::string_view{};
  std::string boot_id(fault::trim(line.substr(0, line.find('\n'))));
  if (boot_id.empty())
    return fail(ErrorKind::not_found, "The boot id cannot be read from " + path + ". Name its file with --boot-id.");
  return boot_id;
}

void Watcher::lose_log(const Error& error) {
  if (reader_ || tried_at_ < Duration(0)) io::log_error("The kernel log is not being read", {{"error", error.message}});
  reader_.reset();
  tried_at_ = clock_.monotonic();
  state_.take_log_state(fault::ProbeState::failed, error.message, clock_.now());
}

void Watcher::begin() {
  auto boot_id = read_boot_id(options_.boot_id_path);
  if (!boot_id) return lose_log(boot_id.error());
  auto reader = io::open_kmsg(options_.kmsg_path);
  if (!reader) return lose_log(reader.error());
  const bool again = *boot_id == boot_id_;  // the same log, opened once more: the cursor says what is known
  boot_id_ = *boot_id;
  reader_ = std::move(*reader);
  caught_up_ = false;
  if (again) return;
  state_.begin_boot(boot_id_);
  recall();
}

void Watcher::recall() {
  if (options_.state_folder.empty()) return;
  auto memory = load_memory(options_.state_folder);
  if (!memory) {
    if (memory.error().kind != ErrorKind::not_found)
      io::log_warn("The agent's memory is of no use and is begun anew", {{"error", memory.error().message}});
    return;
  }
  const auto findings = memory->entries.size();
  if (state_.recall(std::move(*memory)))
    io::log_info("The agent goes on where it stopped", {{"findings", std::to_string(findings)}});
}

void Watcher::save_when_due(bool changed, bool taken) {
  unsaved_ |= taken;
  const auto gpus = state_.known_gpu_count();
  unsaved_ |= gpus != gpus_saved_;
  gpus_saved_ = gpus;
  const auto now = clock_.monotonic();
  if (saver_ == nullptr || (!changed && !(unsaved_ && now - saved_at_ >= lazy_save))) return;
  saved_at_ = now;
  unsaved_ = false;
  saver_->save_soon();
}

// A machine that boots anew under a running agent: only a container's view of a machine can do that.
bool Watcher::has_booted_anew() {
  if (clock_.monotonic() - boot_checked_at_ < boot_check) return false;
  boot_checked_at_ = clock_.monotonic();
  const auto boot_id = read_boot_id(options_.boot_id_path);
  if (!boot_id || *boot_id == boot_id_) return false;
  io::log_info("The machine has booted anew: earlier findings are dropped", {{"bootId", *boot_id}});
  return true;
}

void Watcher::read(std::stop_token stop) {
  auto batch = reader_->read(round, std::move(stop));
  if (!batch) return lose_log(batch.error());
  // What the log held before us is dated by its own clock; what is written while we watch is dated now.
  const bool dated_by_log = !caught_up_ && reader_->is_device();
  const auto now = clock_.now();
  const auto intake = state_.take_records(batch->records, now, dated_by_log ? uptime() : Duration(0));
  if (!caught_up_ && batch->records.size() < io::max_kmsg_batch) {
    caught_up_ = true;
    state_.take_log_state(fault::ProbeState::good, "", now);
  }
  if (intake.urgent) on_urgent_();
  save_when_due(intake.changed, intake.taken > 0);
}

bool Watcher::turn(std::stop_token stop) {
  state_.log_turns(clock_.monotonic());
  if (!reader_) {
    if (clock_.monotonic() - tried_at_ >= retry) begin();
    if (!reader_) clock_.sleep(round, stop);
    return false;
  }
  read(std::move(stop));
  if (reader_ && has_booted_anew()) begin();
  return caught_up_;
}

}  // namespace homeostat::agent
