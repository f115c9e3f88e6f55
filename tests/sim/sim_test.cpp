// A heal in virtual time: with a crash before and after every write, with every call failing in each way, with seeds
// that mix all of it. What must come out is what an undisturbed heal leaves behind: one replacement, one requeue,
// nothing else. sim_test --seed=N runs one seed of the swarm; --seeds=N that many.
#include <doctest/doctest.h>

#include <string>

#include "tests/sim/seeds.hpp"
#include "tests/sim/world.hpp"

using namespace homeostat;
using namespace homeostat::sim;

namespace {

constexpr Duration patience{600'000};

std::string heal(World& world, bool lost = false) {
  if (lost)
    world.lose_node();
  else
    world.break_gpu();
  // A controller that starts anew has to see the silence for five minutes itself.
  bool ended = world.run(lost ? 2 * patience : patience, [&] { return world.over(); });
  if (!world.violation().empty()) return world.violation();
  auto record = world.repair();
  if (!ended)
    return "the repair did not end: " +
           (record ? std::string(repair::to_string(record->phase)) + ", " + record->message : std::string("no repair"));
  // Slurm itself gave up the job of a lost node: it is none of the repair's and starts when Slurm next looks.
  if (lost) world.run(Duration{10'000});
  return world.difference_from_healed();
}

// The n-th write, or call, meets its fate; all others pass.
auto nth(size_t n, Verdict verdict, bool writes_only) {
  return [n, verdict, writes_only, seen = size_t{0}](const Point& point) mutable {
    if (writes_only && !point.write) return Verdict::pass;
    return seen++ == n ? verdict : Verdict::pass;
  };
}

size_t count(bool writes_only, bool lost = false) {
  World world;
  size_t calls = 0;
  world.fate = [&](const Point& point) { return calls += writes_only ? point.write : 1, Verdict::pass; };
  REQUIRE(heal(world, lost) == "");
  return calls;
}

}  // namespace

TEST_CASE("an undisturbed heal, and silence after it") {
  World world;
  CHECK(heal(world) == "");
  auto record = world.repair();
  REQUIRE(record);
  CHECK(record->slurm_down_at.has_value());
  CHECK(record->processes_gone_at.has_value());
  CHECK(record->running_again_at.has_value());
  CHECK(record->pool_whole_at.has_value());
  world.run(Duration{5'000});
  world.api().clear_mutations();
  world.run(Duration{60'000});
  for (const auto& mutation : world.api().mutations())
    CHECK_MESSAGE(mutation.manager != "homeostat-controller", mutation.verb, " ", mutation.resource.plural);
}

TEST_CASE("no spare: the new machine takes the place") {
  World world(false);
  CHECK(heal(world) == "");
}

TEST_CASE("a crash before or after any write changes nothing in the outcome") {
  size_t writes = count(true);
  CHECK(writes > 15);
  for (size_t n = 0; n < writes; ++n)
    for (Verdict verdict : {Verdict::crash_before, Verdict::crash_after}) {
      World world;
      world.fate = nth(n, verdict, true);
      CAPTURE(n);
      CHECK_MESSAGE(heal(world) == "",
                    (verdict == Verdict::crash_before ? "crash before write " : "crash after write "), n);
      CHECK(world.restarts() == 1);
      CHECK(world.opening_notices() >= 1);
    }
}

//  kubelet, agent and slurmd silent | Slurm gives the job back by itself | five minutes later the node is replaced
TEST_CASE("a node that is lost is replaced, whatever crashes or gets lost on the way") {
  size_t writes = count(true, true);
  CHECK(writes > 10);
  for (size_t n = 0; n < writes; ++n)
    for (Verdict verdict : {Verdict::crash_before, Verdict::crash_after, Verdict::lost_reply}) {
      World world;
      world.fate = nth(n, verdict, true);
      CHECK_MESSAGE(heal(world, true) == "", "write ", n, " fate ", static_cast<int>(verdict));
      CHECK(world.repair()->fault.code == "NODE_LOST");
    }
}

TEST_CASE("any write may be lost, refused or answered into the void") {
  size_t writes = count(true);
  for (size_t n = 0; n < writes; ++n)
    for (Verdict verdict :
         {Verdict::unreachable, Verdict::lost_request, Verdict::lost_reply, Verdict::conflict, Verdict::throttled}) {
      World world;
      world.fate = nth(n, verdict, true);
      CHECK_MESSAGE(heal(world) == "", "write ", n, " fate ", static_cast<int>(verdict));
    }
}

TEST_CASE("any read may fail or be stale") {
  size_t calls = count(false);
  for (size_t n = 0; n < calls; n += 3)
    for (Verdict verdict : {Verdict::unreachable, Verdict::stale}) {
      World world;
      world.fate = [inner = nth(n, verdict, false)](const Point& point) mutable {
        auto fate = inner(point);
        return point.write ? Verdict::pass : fate;
      };
      CHECK_MESSAGE(heal(world) == "", "call ", n, " fate ", static_cast<int>(verdict));
    }
}

TEST_CASE("opt-out: the job is saved, nothing is deleted, whatever crashes; it goes on when the pod is gone") {
  for (size_t n = 0; n < 24; ++n) {
    World world;
    world.add_pod("keep", true);
    world.fate = nth(n, n % 2 ? Verdict::crash_before : Verdict::crash_after, true);
    world.break_gpu();
    bool blocked = world.run(patience, [&] {
      auto record = world.repair();
      return record && record->phase == repair::Phase::blocked;
    });
    CAPTURE(n);
    REQUIRE(blocked);
    world.run(Duration{60'000});
    CHECK(world.machines().removed == 0);
    CHECK(world.machines().created == 0);
    CHECK(world.repair()->running_again_at.has_value());
    world.remove_pod("keep");
    CHECK(world.run(patience, [&] { return world.over(); }));
    CHECK(world.difference_from_healed() == "");
  }
}

TEST_CASE("a healthy node's job survives any one stale read of its health") {
  for (size_t n = 0; n < 40; ++n) {
    World world;
    world.break_gpu();
    world.report(World::sick, "Healthy");
    size_t seen = 0;
    world.fate = [&](const Point& point) {
      return point.what.find("nodehealths") != std::string::npos && seen++ == n ? Verdict::stale : Verdict::pass;
    };
    world.run(Duration{20'000});
    CHECK_FALSE(world.downed());
  }
}

TEST_CASE("Slurm away for minutes: the repair waits and then heals") {
  World world;
  int looks = 0;
  world.fate = [&](const Point& point) {
    return point.server == "slurm" && ++looks < 400 ? Verdict::unreachable : Verdict::pass;
  };
  CHECK(heal(world) == "");
}

// Each seed draws how often each thing goes wrong, for a while; then nothing does, and the heal must have come out
// right.
TEST_CASE("a swarm of seeds") {
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    World world;
    SplitMix random(seed);
    std::uint64_t rarity = 3 + random.next() % 40;
    auto allowed = random.next();
    int budget = 200;
    world.fate = [&](const Point& point) {
      if (budget <= 0 || !random.one_in(rarity)) return Verdict::pass;
      auto verdict = static_cast<Verdict>(1 + random.next() % 8);
      if (((allowed >> static_cast<int>(verdict)) & 1) == 0) return Verdict::pass;
      if (verdict == Verdict::crash_after && !point.write) return Verdict::pass;
      --budget;
      return verdict;
    };
    CHECK_MESSAGE(heal(world) == "", "replay with: sim_test --seed=", seed);
  }
}
