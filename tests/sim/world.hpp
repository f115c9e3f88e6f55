// One pool, one Slurm, one provider and the real reconcilers in one thread under a virtual clock. Every call that the
// reconcilers make passes a hook that can fail it, lose its answer, or kill the controller on the spot; a restart keeps
// nothing but the world itself.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controller/node_pool/reconciler.hpp"
#include "controller/repair/opener.hpp"
#include "controller/repair/reconciler.hpp"
#include "kube/fake_api_server.hpp"
#include "provider/fake_provider.hpp"
#include "slurm/fake_slurm.hpp"

namespace homeostat::sim {

class SimClock final : public io::Clock {
 public:
  TimePoint now() const override { return now_; }
  Duration monotonic() const override { return now_.time_since_epoch(); }
  void sleep(Duration duration, std::stop_token) override { now_ += duration; }
  void advance(Duration duration) { now_ += duration; }

 private:
  TimePoint now_{Duration{1'764'483'000'000}};
};

class SplitMix final : public io::Random {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() override {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  bool one_in(std::uint64_t n) { return next() % n == 0; }

 private:
  std::uint64_t state_;
};

struct Crash {};  // thrown through the controller: the process is dead at this point

// What happens to one call. `before`: nothing has taken effect yet.
enum class Verdict {
  pass,
  unreachable,
  lost_request,
  lost_reply,
  conflict,
  throttled,
  stale,
  crash_before,
  crash_after
};

struct Point {
  std::string server;  // api, slurm, provider
  std::string what;
  bool write = false;
};

class World {
 public:
  explicit World(bool with_spare = true);

  // Decides the fate of each call; empty: all pass.
  std::function<Verdict(const Point&)> fate;

  void lose_node();  // the sick node falls silent: kubelet, agent and slurmd. The others report on
  void break_gpu();  // the agent reports a fatal fault of the sick node
  void report(const std::string& node, const std::string& verdict);
  void add_pod(const std::string& name, bool opted_out);
  void remove_pod(const std::string& name);
  // Lets time go by, one look of all reconcilers every 250 ms; a crash restarts the controller. Checks what must hold
  // at each look. Ends early when `until` says so. False: it did not, within `limit`.
  bool run(Duration limit, const std::function<bool()>& until = {});

  std::optional<repair::Record> repair() const;  // the only one; more than one fails the run
  bool over() const;
  bool downed() const;                                  // Slurm was told DOWN at least once
  std::string violation() const { return violation_; }  // "" when all held
  // What a whole heal leaves behind; "" when it is so.
  std::string difference_from_healed() const;

  static constexpr const char* sick = "pool-sick1";
  kube::FakeApiServer& api() { return api_; }
  provider::FakeProvider& machines() { return provider_; }
  size_t restarts() const { return restarts_; }
  size_t writes() const { return writes_; }
  size_t opening_notices() const { return notifications_.opened; }  // people were told that a repair has begun

 private:
  // Delivers nothing, counts.
  class Silent final : public controller::Notifications {
   public:
    void send(const repair::Record& record, const std::vector<api::WebhookTarget>&) override {
      opened += record.phase == repair::Phase::notified;
    }
    size_t opened = 0;
  };
  struct Controller {
    Controller(const controller::Connectors& connectors, controller::Notifications& notifications,
               const io::Clock& clock)
        : sessions(connectors),
          fleet(clock),
          book(clock),
          opener(sessions, nullptr, clock, fleet, book),
          repairer(sessions, notifications, nullptr, clock, book),
          pooler(sessions, clock, book) {}
    controller::Sessions sessions;
    controller::FleetWatch fleet;
    controller::PlanBook book;
    controller::RepairOpener opener;
    controller::RepairReconciler repairer;
    controller::NodePoolReconciler pooler;
  };

  void add_machine(const std::string& name, bool spare);
  void make_node(const std::string& name, bool spare);
  void start_controller();
  void look();
  void beat();
  void settle();
  void sync_workers(const kube::Object& node);
  void check();
  void hook_servers();
  Verdict decide(const Point& point);

  SimClock clock_;
  SplitMix random_{1};
  kube::FakeApiServer api_{clock_};
  slurm::FakeSlurm slurm_{clock_.now()};
  provider::FakeProvider provider_;
  Silent notifications_;
  std::unique_ptr<Controller> controller_;
  bool crash_after_ = false;  // the call under way takes effect, then the controller dies
  std::optional<Error> provider_after_;
  long job_ = 0;
  int ticks_ = 0;
  bool lost_ = false;
  size_t restarts_ = 0, writes_ = 0;
  std::string violation_;
};

}  // namespace homeostat::sim
